"""A placed app that changes: what stays, what is placed beside it, and the file that says so. Pure."""
