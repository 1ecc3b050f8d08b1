"""Checks that a connector keeps what Kigen relies on. Every connector of Kigen passes these checks.

A source: a range gives the same rows each time, a restart at any range loses and doubles nothing, bad rows are named. A
sink: a restart at any commit loses and doubles nothing. A receiver: what was sent is in the queue once, whoever was
away.
"""

from kigen.testing.connector.cases import Nonconforming, ReceiverCase, SinkCase, SourceCase, Target
from kigen.testing.connector.receiver_checks import RECEIVER_CHECKS, check_receiver
from kigen.testing.connector.sink_checks import SINK_CHECKS, check_sink
from kigen.testing.connector.source_checks import SOURCE_CHECKS, check_source

__all__ = [
    "RECEIVER_CHECKS",
    "SINK_CHECKS",
    "SOURCE_CHECKS",
    "Nonconforming",
    "ReceiverCase",
    "SinkCase",
    "SourceCase",
    "Target",
    "check_receiver",
    "check_sink",
    "check_source",
]
