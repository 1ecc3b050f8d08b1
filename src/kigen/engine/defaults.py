"""Defaults of a run, shared by `kigen run` and `Engine.run`. This module loads without Spark."""

from kigen.durable import POWER
from kigen.schedule import DEFAULT_POLICY
from kigen.spark.defaults import DEFAULT_MEMORY

LIFETIMES = ("dt", "nt")  # how deaths travel: with the tuple, or as negative tuples

DRAIN = False
LIFETIME = "dt"
POLICY = DEFAULT_POLICY
MEMORY = DEFAULT_MEMORY
DURABILITY = POWER
PROGRESS_EVERY_S = 1.0
RUNTIME = "kigen.lifetimes:TaskRuntime"
EPOCH_S = 30.0  # length of an epoch of live streams
