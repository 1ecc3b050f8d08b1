"""A folder of a benchmark's own below its output folder: two benchmarks at once must not delete each other's results.

It goes when the benchmark ends well; after a failure it stays, for the logs in it.
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
