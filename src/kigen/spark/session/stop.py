"""Stops the session of this process and waits until its JVM has ended."""

from __future__ import annotations

import subprocess

from pyspark import SparkContext

from kigen.spark.session.start import SparkUnavailable


def stop_jvm(timeout_s: float) -> None:
    """Raises SparkUnavailable if the JVM does not end in time. The JVM writes its class archive while it ends."""
    gateway = SparkContext._gateway
    context = SparkContext._active_spark_context
    if context is not None:
        context.stop()
    assert gateway is not None, "no JVM was started"
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(timeout_s)
    except subprocess.TimeoutExpired as error:
        gateway.proc.kill()
        raise SparkUnavailable(f"Java did not end within {timeout_s:g} s: nothing was kept") from error
