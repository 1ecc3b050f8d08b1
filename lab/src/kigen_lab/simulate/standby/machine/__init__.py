"""Standby as a pure state machine: no clock, no I/O, offsets only. Real nodes and the simulator drive the same
objects."""

from kigen_lab.simulate.standby.machine.cuts import START, Cut, Mark
from kigen_lab.simulate.standby.machine.replica import Replica
from kigen_lab.simulate.standby.machine.topology import Place, Standby, Stream, Topology

__all__ = ["START", "Cut", "Mark", "Place", "Replica", "Standby", "Stream", "Topology"]
