"""Gives a benchmark its own folder below its output folder, so that two benchmarks cannot delete each other's files.

The folder is removed when the benchmark ends well. After a failure it stays, because it holds the logs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def workspace(out: Path) -> Iterator[Path]:
    folder = out.absolute() / f"run-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
