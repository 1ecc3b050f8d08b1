"""Standby as a pure state machine: no clock, no I/O, offsets only. Real nodes and the simulator drive the same objects."""

from kigen.standby.cuts import START, Cut, Mark
from kigen.standby.replica import Replica
from kigen.standby.topology import Place, Standby, Stream, Topology

__all__ = ["START", "Cut", "Mark", "Place", "Replica", "Standby", "Stream", "Topology"]
