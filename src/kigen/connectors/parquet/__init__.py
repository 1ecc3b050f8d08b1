"""The parquet connector: source and sink."""
