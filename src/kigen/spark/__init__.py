"""Kigen on Spark.

Nothing is re-exported. Imports are most of the start time of a process, so each imports only the modules it needs.
"""
