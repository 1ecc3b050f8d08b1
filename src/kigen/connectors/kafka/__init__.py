"""`FROM kafka` and `INTO kafka`: topics as streams and as outputs. Needs the extra `kafka` (confluent-kafka)."""
