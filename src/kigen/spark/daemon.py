"""The process from which Spark forks its Python workers: imports the operator once, so that a worker is ready when it is born."""

from __future__ import annotations

import gc

from pyspark import daemon

from kigen.spark import operator

__all__ = ["operator"]

if __name__ == "__main__":
    gc.freeze()  # what is imported never dies: no worker's collector need look at it
    daemon.manager()
