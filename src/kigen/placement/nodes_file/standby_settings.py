"""What a nodes file says of a node's standby: its kind, its price, and when the node counts as gone; what does not fit
together is said."""

from __future__ import annotations

from dataclasses import dataclass

from kigen.placement.nodes_file.values import Values

STANDBYS = ("lazy", "active", "upstream", "passive")
CODECS = ("none", "zlib", "zstd", "lz4")
RECOVERIES = ("precise", "rollback", "gap")
COPY_PERIOD_US = 10e6
_SHORTEST_PERIOD_US = 100e3


@dataclass(frozen=True)
class Standby:
    """The fields of `NodeEntry` that are of a standby."""

    kind: str | None
    batch: int | None
    compress: str
    recovery: str
    silence_us: float
    within_us: float | None
    below: float | None
    period_us: float


def standby_of(v: Values) -> Standby:
    kind = _one_of(v, "standby", STANDBYS)
    batch: float | None = None
    if v.values.get("batch") != "auto":
        batch = v.number("batch", 25.0, least=1, whole=True)
    within, below = v.duration("recovery_within", 0.0) or None, v.percent("overhead_below")
    if kind == "passive" and "batch" in v.values:
        v.errors.append(f"{v.where} batch: copies are made by time, not by tuples: write period = '10 s' instead")
    elif batch is None and kind is not None and within is None and below is None:
        v.errors.append(
            f"{v.where} batch = 'auto': say by what, with recovery_within = '2 s' or overhead_below = '30 %'"
        )
    return Standby(
        kind,
        None if batch is None else int(batch),
        _one_of(v, "compress", CODECS) or "none",
        _one_of(v, "recovery", RECOVERIES) or "precise",
        v.duration("silence", 1e6),
        within,
        below,
        _period(v, kind),
    )


def _period(v: Values, kind: str | None) -> float:
    """How often copies are made."""
    period = v.duration("period", COPY_PERIOD_US)
    if kind != "passive" and "period" in v.values:
        v.errors.append(
            f"{v.where} period: copies are made for standby = 'passive' only: write that, or leave the period out"
        )
    elif period < _SHORTEST_PERIOD_US:
        v.errors.append(f"{v.where} period = {v.values['period']!r}: write a time of 100 ms or more, such as '10 s'")
    return period


def _one_of(v: Values, key: str, known: tuple[str, ...]) -> str | None:
    value = v.text(key)
    if value is not None and value not in known:
        v.errors.append(f"{v.where} {key} = '{value}': write one of {', '.join(known)}")
    return value
