"""Parses a policy as users write it: its name, and settings after a colon, such as `ats:kp=1,ki=10,phi=100ms`."""

from __future__ import annotations

import re

from kigen.schedule.adaptive.adaptivity_controller import SDMR_READINGS
from kigen.schedule.adaptive.priority_manager import RULES
from kigen.schedule.packing.pack import OVERLOAD_ORDERS
from kigen.schedule.policies import POLICY_NAMES, PolicyError, PolicySettings
from kigen.schedule.slices.slice_admission import ADMITTED_NAMES

_UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6}
_WORDS = {"reading": SDMR_READINGS, "rule": RULES, "overload": OVERLOAD_ORDERS}
_NUMBERS = {"kp": float, "ki": float, "protected": float, "beta": float, "ahead": float, "k": int}
_SHARES = ("beta", "protected")
_TIMES = {"phi": "phi_us", "window": "window_us", "fixed": "fixed_us", "period": "period_us", "length": "length_us"}


def read_policy(text: str) -> tuple[str, PolicySettings]:
    """Parses the text. Raises PolicyError that says what to write."""
    name, _, rest = text.partition(":")
    if name not in POLICY_NAMES + ADMITTED_NAMES:
        raise PolicyError(f"there is no policy '{name}': write one of {', '.join(POLICY_NAMES + ADMITTED_NAMES)}")
    values: dict[str, object] = {}
    for part in filter(None, rest.split(",")):
        key, _, value = (piece.strip() for piece in part.partition("="))
        values |= _setting(key, value)
    return name, PolicySettings(**values)  # type: ignore[arg-type]  # each value was checked against its key


def _setting(key: str, value: str) -> dict[str, object]:
    if key in _TIMES:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s)", value)
        if found is None or float(found[1]) <= 0:
            raise PolicyError(f"{key} must be a time such as 100ms, not '{value}'")
        return {_TIMES[key]: float(found[1]) * _UNITS_US[found[2]]}
    if key in _WORDS:
        if value not in _WORDS[key]:
            raise PolicyError(f"there is no {key} '{value}': write one of {', '.join(_WORDS[key])}")
        return {key: value}
    if key in _NUMBERS:
        try:
            number = _NUMBERS[key](value)
        except ValueError:
            raise PolicyError(f"{key} must be a number, not '{value}'") from None
        if number < (1 if key == "k" else 0):
            raise PolicyError(f"{key} must be {1 if key == 'k' else 0} or more, not {value}")
        if key in _SHARES and number > 1:
            raise PolicyError(f"{key} is a share, so it must be 1 or less, not {value}")
        return {key: number}
    raise PolicyError(f"a policy has no setting '{key}': the settings are {', '.join((*_TIMES, *_NUMBERS, *_WORDS))}")
