"""Who is alive, by heartbeats. Time comes with every call; nothing here reads a clock.

A secondary that has not heard its primary for `silence_us` asks the neighbours, and takes over only if at least one
answers and none of them hears the primary: a cut between the two replicas alone moves nothing. Cost: a dictionary entry
a peer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Step = Literal["wait", "ask", "take over"]


@dataclass(frozen=True)
class Beats:
    every_us: float = 100_000.0
    silence_us: float = 350_000.0  # more than three beats missed
    answer_us: float = 50_000.0  # how long answers may take


class Detector:
    def __init__(self, beats: Beats, now_us: float) -> None:
        self.beats = beats
        self._heard_us: dict[str, float] = {}
        self._led_us = now_us  # when a primary of the own node was last heard
        self._asked_us: float | None = None
        self._answers: dict[str, bool] = {}
        self.highest_epoch = 0  # of the own node, that anyone named

    def heard(self, peer: str, now_us: float, *, leads: bool = False) -> None:
        """A message came. `leads`: from the primary of the own node."""
        self._heard_us[peer] = now_us
        if leads:
            self._led_us = now_us
            self._asked_us = None

    def hears(self, peer: str, now_us: float) -> bool:
        return now_us - self._heard_us.get(peer, -self.beats.silence_us) < self.beats.silence_us

    def answered(self, peer: str, hears: bool, epoch: int) -> None:
        self._answers[peer] = hears
        self.highest_epoch = max(self.highest_epoch, epoch)

    def step(self, now_us: float) -> Step:
        """For a secondary: what to do about its primary now."""
        if (
            now_us < self.due_us()
        ):  # by the very same sum: a difference may be smaller by a rounding, and whoever waits would wait for ever
            return "wait"
        if self._asked_us is None:
            return self._ask(now_us)
        if self._answers and not any(self._answers.values()):
            self._asked_us, self._led_us = None, now_us
            return "take over"
        return self._ask(now_us)

    def _ask(self, now_us: float) -> Step:
        self._asked_us, self._answers = now_us, {}
        return "ask"

    def due_us(self) -> float:
        """When `step` may say something else."""
        return self._led_us + self.beats.silence_us if self._asked_us is None else self._asked_us + self.beats.answer_us
