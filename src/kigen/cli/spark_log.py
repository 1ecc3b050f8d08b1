"""Keeps Spark's log only if an error message names it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kigen.engine import RunFailed
from kigen.spark.session.start import SparkUnavailable, log_path


@contextmanager
def spark_log() -> Iterator[None]:
    """Sends Python's log records to Spark's log file as well, and removes the file unless Spark failed.

    The records are mostly stack traces that py4j logs.
    """
    logging.getLogger().addHandler(logging.FileHandler(log_path(), delay=True))
    ours = logging.getLogger("kigen")
    ours.addHandler(logging.StreamHandler())  # what a run reports while no display shows it
    ours.propagate = False
    try:
        yield
    except (RunFailed, SparkUnavailable):
        raise
    except BaseException:
        _remove_log()
        raise
    _remove_log()


def _remove_log() -> None:
    for path in (log_path(), log_path().with_name(f"{log_path().name}.1")):
        path.unlink(missing_ok=True)
