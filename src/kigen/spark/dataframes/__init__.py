"""DataFrames of Spark as streams of an app."""
