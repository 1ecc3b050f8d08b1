"""Files that grow: `follow = true` of csv, JSON lines and parquet."""
