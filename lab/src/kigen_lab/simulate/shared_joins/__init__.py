"""A shared window join in virtual time."""
