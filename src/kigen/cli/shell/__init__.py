"""`kigen shell`: statements and queries, one after another, against an app file or a running app."""
