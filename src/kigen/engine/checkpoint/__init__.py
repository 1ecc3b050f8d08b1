"""What belongs to a checkpoint besides Spark's files: fingerprint, format, key secret, owner."""
