"""Connectors as declared: known names, known options, values of the right kind.

Invariant: what passes has every required option, and every value can be read by its connector. Files themselves are not
looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kigen.language.declarations import ConnectorDecl, OptionDecl
from kigen.language.errors import CqlError, CqlErrors, near, suggest
from kigen.language.source import Source
from kigen.plan.logical import Connector

FILES = ("csv", "parquet", "jsonl")
SOURCES = (*FILES, "synthetic")
SINKS = ("csv", "parquet", "console")
_ALIASES = {"json": "jsonl"}

_DURATION = re.compile(
    r"(?!\s*[0.]+\s*[a-z])\s*\d+(\.\d+)?\s*(us|ms|s|sec|m|min|h|microseconds?|milliseconds?|seconds?|minutes?|hours?)\s*",
    re.IGNORECASE,
)
_NUMBER = r"\s*-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\s*"
_GENERATOR = re.compile(
    rf"\s*(?:normal\({_NUMBER},{_NUMBER}\)|uniform\({_NUMBER},{_NUMBER}\)|zipf\({_NUMBER},{_NUMBER}\)|sequence(?:\(\s*\))?|choice\([^()]+\))\s*",
    re.IGNORECASE,
)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?")


@dataclass(frozen=True)
class _Kind:
    """What an option's value must be; `wanted` completes "needs ...", `example` is one as written."""

    wanted: str
    accepts: Callable[[object], bool]
    example: str


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _like(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


_TIME = _Kind("a duration such as '60 s', '500 ms' or '2 min'", _like(_DURATION), "'60 s'")
_ARRIVALS = _Kind("'constant', 'poisson' or 'bursty'", lambda v: v in ("constant", "poisson", "bursty"), "'poisson'")
_GENERATORS = "'normal(20, 5)', 'uniform(0, 100)', 'sequence', 'choice(a, b, c)' or 'zipf(1.2, 1000)'"
_VALUES = _Kind(f"a generator: {_GENERATORS}", _like(_GENERATOR), "'uniform(0, 100)'")
_PATH = _Kind("a text in 'quotes'", lambda v: isinstance(v, str) and bool(v.strip()), "'data/file'")

_SYNTHETIC = {
    "rate": _Kind("a number above 0", _number, "100"),
    "arrivals": _ARRIVALS,
    "seed": _Kind("a whole number, 0 or more", lambda v: _whole(v, 0), "7"),
    "duration": _TIME,
    "rows": _Kind("a whole number above 0", lambda v: _whole(v, 1), "1000"),
    "burst": _Kind("a number above 0", _number, "4"),
    "every": _TIME,
    "lasting": _TIME,
    "phase": _TIME,
    "delay": _TIME,
    "start": _Kind("a timestamp such as '2024-01-01T00:00:00Z'", _like(_INSTANT), "'2024-01-01T00:00:00Z'"),
}
_REQUIRED = {**dict.fromkeys(FILES, "path"), "synthetic": "rate"}


def bind_connector(
    source: Source, decl: ConnectorDecl, known: tuple[str, ...], columns: tuple[str, ...] = ()
) -> Connector:
    """Check a connector against the ones that fit its place; `columns` are those a synthetic stream may describe."""
    name = _ALIASES.get(decl.name.text.lower(), decl.name.text.lower())
    if name not in known:
        wrong_side = "reads" if name in SINKS else "writes" if name in SOURCES else None
        hint = (
            f"connectors here: {', '.join(known)}"
            if wrong_side or near(name, known) is None
            else suggest(name, known, "connectors here")
        )
        raise source.error(decl.name.span, f"unknown connector {decl.name.text}", hint)
    kinds = _options(name, columns)
    errors: list[CqlError] = []
    options: dict[str, object] = {}
    for option in decl.options:
        error = _check(source, name, option, kinds, options)
        if error is not None:
            errors.append(error)
    required = _REQUIRED.get(name)
    if required is not None and required not in options and not errors:
        example = f"{name} ({required} = {kinds[required][1].example})"
        errors.append(source.error(decl.name.span, f"connector {name} needs option {required}", f"write {example}"))
    if errors:
        raise CqlErrors(errors)
    return Connector(name, tuple(options.items()))


def _options(name: str, columns: tuple[str, ...]) -> dict[str, tuple[str, _Kind]]:
    """Option by its lower-case name: how it is spelt, and what it takes."""
    if name in FILES:
        return {"path": ("path", _PATH)}
    if name == "console":
        return {}
    kinds = {column.lower(): (column, _VALUES) for column in columns}
    return kinds | {key: (key, kind) for key, kind in _SYNTHETIC.items()}


def _check(
    source: Source, name: str, option: OptionDecl, kinds: dict[str, tuple[str, _Kind]], found: dict[str, object]
) -> CqlError | None:
    entry = kinds.get(option.key.text.lower())
    if entry is None:
        spelt = [s for s, _ in kinds.values()]
        best = near(option.key.text, spelt)
        listed = f"{name} takes: {', '.join(spelt)}" if spelt else f"{name} takes no options"
        return source.error(
            option.key.span,
            f"unknown option {option.key.text} of {name}",
            f"did you mean {best}? {listed}" if best else listed,
        )
    key, kind = entry
    if key in found:
        return source.error(option.key.span, f"option {key} is given twice", "keep one of them")
    if not kind.accepts(option.value):
        return source.error(option.span, f"option {key} needs {kind.wanted}", f"write {key} = {kind.example}")
    found[key] = option.value
    return None
