"""Files of a checkpoint besides those of Spark: fingerprint, format, key secret, owner."""
