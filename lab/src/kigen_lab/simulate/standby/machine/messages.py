"""What replicas tell each other: frozen values, carried as JSON by any link that keeps order between two replicas.

A link may be cut, and then loses what was under way; both ends learn of it (`Reconnected`) and say again where they
stand. Messages name ranges of offsets; what lies in them (tuples for `Data`, an operator's state for `State`) travels
beside them, and the machines never see it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from kigen_lab.simulate.standby.machine.cuts import Cut, Mark

FROM_NOW = -1  # `Resume.first`: whatever comes next


@dataclass(frozen=True)
class Message:
    sender: str
    epoch: int  # of the sender's node, as the sender knows it


@dataclass(frozen=True)
class Data(Message):
    """Tuples [first, end) of a stream. `backup`: a batch for the secondary."""

    stream: str
    first: int
    end: int
    start: int  # the oldest that the sender could still give
    mark: Mark  # the reader's newest Level-1 ack
    reader_epoch: int  # of the reader's node, as the sender knows it
    backup: bool = False


@dataclass(frozen=True)
class Level0(Message):
    """I have received so much of the stream (a node that nobody backs: and it is durable)."""

    stream: str
    received: int


@dataclass(frozen=True)
class Level1(Message):
    """My restart point: inputs before `mark.needed` are needed no more."""

    mark: Mark


@dataclass(frozen=True)
class Resume(Message):
    """Go on with this stream at `first`. Sent by a primary, or (`backup`) by a secondary for its batches."""

    stream: str
    first: int
    backup: bool = False


@dataclass(frozen=True)
class Announce(Message):
    """I am the primary of this epoch."""


@dataclass(frozen=True)
class Fenced(Message):
    """Your node is at epoch `of_epoch`: you are not its primary."""

    of_epoch: int


@dataclass(frozen=True)
class Hello(Message):
    """I have begun anew, without state."""


@dataclass(frozen=True)
class State(Message):
    """A copy of the operator's state at `mark.through`, and of the results [kept, mark.outputs) that are not
    released."""

    mark: Mark
    kept: Cut


@dataclass(frozen=True)
class StateAck(Message):
    mark: Mark


@dataclass(frozen=True)
class Heartbeat(Message):
    primary: bool


@dataclass(frozen=True)
class Ask(Message):
    """Do you hear the primary of my node?"""


@dataclass(frozen=True)
class Answer(Message):
    about: str  # the node asked about
    heard: bool
    about_epoch: int


KINDS: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (Data, Level0, Level1, Resume, Announce, Fenced, Hello, State, StateAck, Heartbeat, Ask, Answer)
}


def to_json(message: Message) -> dict[str, Any]:
    """Plain dicts, lists and numbers, for `json.dumps`."""
    return {"kind": type(message).__name__, **{f.name: _plain(getattr(message, f.name)) for f in fields(message)}}


def from_json(found: Mapping[str, Any]) -> Message:
    """The message again. ValueError names what is wrong with it."""
    kind = KINDS.get(str(found.get("kind")))
    if kind is None:
        raise ValueError(f"kind of message must be one of {', '.join(KINDS)}; got {found.get('kind')!r}")
    given = {key: value for key, value in found.items() if key != "kind"}
    wanted = {f.name: str(f.type) for f in fields(kind)}
    if set(given) != set(wanted):
        raise ValueError(f"a {kind.__name__} has {', '.join(wanted)}; got {', '.join(given)}")
    return kind(**{name: _READ[wanted[name]](value) for name, value in given.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, Cut):
        return dict(value.items)
    if isinstance(value, Mark):
        plain: dict[str, Any] = {name: dict(getattr(value, name).items) for name in ("outputs", "through", "needed")}
        return {
            **plain,
            "copied": value.copied,
            "line": value.line,
            "rests_on": {node: _plain(mark) for node, mark in value.rests_on},
        }
    return value


def _checked(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"{kind.__name__} required; got {value!r}")
        return value

    return check


def _cut(value: Any) -> Cut:
    whole = _checked(int)
    return Cut.of({str(stream): whole(offset) for stream, offset in _checked(dict)(value).items()})


def _mark(value: Any) -> Mark:
    found = _checked(dict)(value)
    names = ("outputs", "through", "needed")
    if set(found) != {*names, "copied", "line", "rests_on"}:
        raise ValueError(f"a mark has {', '.join(names)}, copied, line and rests_on; got {', '.join(map(str, found))}")
    below = tuple((str(node), _mark(mark)) for node, mark in _checked(dict)(found["rests_on"]).items())
    outputs, through, needed = (_cut(found[name]) for name in names)
    return Mark(outputs, through, needed, _checked(bool)(found["copied"]), _checked(int)(found["line"]), below)


_READ: dict[str, Callable[[Any], Any]] = {
    "str": _checked(str),
    "int": _checked(int),
    "bool": _checked(bool),
    "Cut": _cut,
    "Mark": _mark,
}
