"""What a run or a node promises to keep: everything it acknowledged, after a power cut or after the death of its
process only."""

from __future__ import annotations

POWER = "power"  # bytes are on the disk before anybody is told of them
PROCESS = "process"  # bytes are with the operating system: a kill loses nothing, a power cut may
DURABILITIES = (POWER, PROCESS)


def durability_of(text: str) -> str:
    """The setting, or ValueError with what to write."""
    if text not in DURABILITIES:
        raise ValueError(
            f"no durability '{text}': write power (nothing is lost to a power cut) or process (nothing is lost to a "
            "kill)"
        )
    return text
