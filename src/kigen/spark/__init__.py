from kigen.spark.pipeline import Pipeline
from kigen.spark.results import results_frame, results_sink
from kigen.spark.session import SparkUnavailable, first_line, jvm_pid, log_path, start_session
from kigen.spark.sink import BatchSink, Outputs
from kigen.spark.spec import BATCH_ROWS, RunSpec

__all__ = [
    "BATCH_ROWS",
    "BatchSink",
    "Outputs",
    "Pipeline",
    "RunSpec",
    "SparkUnavailable",
    "first_line",
    "jvm_pid",
    "log_path",
    "results_frame",
    "results_sink",
    "start_session",
]
