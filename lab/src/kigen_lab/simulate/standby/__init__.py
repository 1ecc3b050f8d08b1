"""Simulates a node with a standby in virtual time, with the very parts that real nodes run (`kigen.replicas`)."""
