"""What a host tells its replica (events), and what the replica asks of its host (actions).

The host holds the tuples: a queue by offset for each output stream, what was received and not yet fed for each input
stream, the operator. The replica holds offsets only, so a step costs the same however many tuples it is about, and its
state fits on a line.

What the host owes the replica:
- feeds are run in order, each answered by a `Produced`, with the generation of the feed (several loud feeds may share
  one answer);
- the operator's results are a function of what was fed of each stream, not of how the feeds of several streams were
  interleaved or cut.
  (Event time gives that; progress of a live stream must travel in the stream, as tuples do.)
"""

from __future__ import annotations

from dataclasses import dataclass

from kigen_lab.simulate.standby.machine.cuts import Cut, Mark
from kigen_lab.simulate.standby.machine.messages import Message


@dataclass(frozen=True)
class Started:
    """The process is up. One that has no state says so to its partner."""


@dataclass(frozen=True)
class Delivered:
    message: Message


@dataclass(frozen=True)
class Produced:
    """Everything up to `through` is worked off: `results` new tuples of each output stream lie in the queues. `needed`:
    the oldest input still alive in a window."""

    generation: int
    through: Cut
    results: Cut
    needed: Cut


@dataclass(frozen=True)
class Acknowledge:
    """Time for Level-0 acks."""


@dataclass(frozen=True)
class TakeOver:
    """The primary is taken for dead. `above`: the highest epoch anyone named."""

    above: int = 0


@dataclass(frozen=True)
class Reconnected:
    """The link to that replica was cut, and is back: what was under way, either way, may be lost."""

    peer: str


@dataclass(frozen=True)
class CopyNow:
    """Passive: time for a copy."""


@dataclass(frozen=True)
class Copied:
    """The copy that was asked for is made, at `through`."""

    generation: int
    through: Cut


@dataclass(frozen=True)
class Restored:
    """The host has loaded the checkpoint from its own disk: the node's state at `mark`, results kept from `kept`."""

    mark: Mark
    kept: Cut


Event = Started | Delivered | Produced | Acknowledge | TakeOver | Reconnected | CopyNow | Copied | Restored


@dataclass(frozen=True)
class Send:
    """With `Data`, the tuples of its range (from the output queue); with `State`, the copy."""

    to: str
    message: Message


@dataclass(frozen=True)
class Keep:
    """Of the message just delivered, the tuples [first, end) are to be kept until they are fed; anything kept at or
    beyond `first` goes."""

    stream: str
    first: int
    end: int


@dataclass(frozen=True)
class Feed:
    """Give the operator kept tuples [first, end). `silent`: its results are thrown away."""

    generation: int
    stream: str
    first: int
    end: int
    silent: bool = False


@dataclass(frozen=True)
class Trim:
    """Results before this offset are needed no more."""

    stream: str
    before: int


@dataclass(frozen=True)
class Reset:
    """An empty operator, to be fed from `inputs` on. The queues go on at `outputs`: results at or beyond it go, those
    before stay until they are trimmed (if `outputs` is beyond a queue's end, they go too). What was received and not
    fed stays."""

    generation: int
    inputs: Cut
    outputs: Cut


@dataclass(frozen=True)
class Load:
    """The operator's state and the results [kept, outputs) are those of the `State` just delivered."""

    generation: int
    mark: Mark
    kept: Cut


@dataclass(frozen=True)
class TakeCopy:
    """Copy the operator's state when everything fed so far is worked off; then `Copied`."""

    generation: int


@dataclass(frozen=True)
class Became:
    """For the log and the status page."""

    role: str
    epoch: int


@dataclass(frozen=True)
class Lost:
    """Inputs [first, end) are lost to this node: gap recovery."""

    stream: str
    first: int
    end: int


@dataclass(frozen=True)
class Stuck:
    """Nobody alive holds what is needed: restart from the checkpoint on disk (`Restored`)."""

    reason: str


Action = Send | Keep | Feed | Trim | Reset | Load | TakeCopy | Became | Lost | Stuck
