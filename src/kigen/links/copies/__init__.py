"""Copies of a replica's files for the other replica: one side offers them, the other fetches them."""
