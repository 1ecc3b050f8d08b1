"""Copies of a replica's files for the other replica: offered by one, fetched by the other."""
