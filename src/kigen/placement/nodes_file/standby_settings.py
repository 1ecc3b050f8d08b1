"""Reads the settings of a node's standby from a nodes file: its kind, its price, and when the node counts as gone.
Reports settings that do not fit together."""

from __future__ import annotations

from dataclasses import dataclass

from kigen.placement.nodes_file.values import Values

STANDBYS = ("lazy", "active", "upstream", "passive")
CODECS = ("none", "zlib", "zstd", "lz4")
COPY_PERIOD_US = 10e6
_SHORTEST_PERIOD_US = 100e3


@dataclass(frozen=True)
class Standby:
    """The fields of `NodeEntry` that concern a standby."""

    kind: str | None
    batch: int | None
    compress: str
    silence_us: float
    within_us: float | None
    below: float | None
    period_us: float


def standby_of(v: Values) -> Standby:
    kind = _one_of(v, "standby", STANDBYS)
    batch: float | None = None
    if v.values.get("batch") != "auto":
        batch = v.number("batch", 25.0, least=1, whole=True)
    _check_recovery(v)
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
        v.duration("silence", 1e6),
        within,
        below,
        _period(v, kind),
    )


def _check_recovery(v: Values) -> None:
    """Refuses all but precise recovery: replicas give every result once, at the same offset, and can do nothing
    weaker."""
    value = v.text("recovery")
    if value is not None and value != "precise":
        v.errors.append(
            f"{v.where} recovery = '{value}': Kigen recovers precisely, so no result is lost and none comes twice; "
            "write recovery = 'precise', or leave it out"
        )


def _period(v: Values, kind: str | None) -> float:
    """Returns the time between two copies."""
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
