"""Kigen on Spark. Nothing is re-exported: every process of a run imports only the modules it needs, which is most of
its start."""
