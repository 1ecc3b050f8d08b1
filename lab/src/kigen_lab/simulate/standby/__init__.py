"""A pair of replicas in virtual time."""
