"""Starts the SparkSession that Kigen uses when the user brings none."""
