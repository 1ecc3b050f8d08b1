"""Runs one node of a placed app: its queues, its relays, its replica."""
