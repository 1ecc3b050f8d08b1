"""Results of runs as DataFrames of the format `kigen`: `spark.read` and `spark.readStream` on a checkpoint."""
