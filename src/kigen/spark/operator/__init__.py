"""The stateful operator in Spark's Python workers."""
