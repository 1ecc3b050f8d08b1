"""Defines the durability settings: whether acknowledged data survives a power cut, or only the end of the process."""

from __future__ import annotations

POWER = "power"  # bytes are on the disk before they are acknowledged
PROCESS = "process"  # the operating system has the bytes: a kill loses nothing, a power cut may
DURABILITIES = (POWER, PROCESS)


def durability_of(text: str) -> str:
    """Returns the setting; raises ValueError, with what to write, if there is no such setting."""
    if text not in DURABILITIES:
        raise ValueError(
            f"no durability '{text}': write power (a power cut loses nothing) or process (a kill of the process loses "
            "nothing)"
        )
    return text
