"""Links in virtual time. A link sends one message after the other at its bandwidth; then it takes its delay.

It counts payload (tuples) and wire bytes (with headers), of the leader's path and of the backup.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kigen_lab.simulate.standby.model import StandbySetting


@dataclass
class Bytes:
    primary: int = 0
    backup: int = 0

    def add(self, count: int, backup: bool) -> None:
        if backup:
            self.backup += count
        else:
            self.primary += count


@dataclass
class Links:
    setting: StandbySetting
    at: Callable[[float, Callable[[], None]], None]  # runs something at a time
    payload: Bytes = field(default_factory=Bytes)
    wire: Bytes = field(default_factory=Bytes)
    counting: bool = True  # until the kill
    _free_us: dict[tuple[str, str], float] = field(default_factory=dict)

    def send(
        self, now_us: float, sender: str, to: str, size: int, arrive: Callable[[], None], backup: bool = False
    ) -> None:
        """`size`: bytes of tuples. `backup`: the message would not be sent without a standby."""
        total = size + self.setting.header_bytes
        if self.counting:
            self.payload.add(size, backup)
            self.wire.add(total, backup)
        begin_us = max(now_us, self._free_us.get((sender, to), 0.0))
        end_us = self._free_us[sender, to] = begin_us + total / self.setting.bandwidth * 1e6
        self.at(end_us + self.setting.delay_us, arrive)

    def ping(self, backup: bool = False) -> None:
        """Counts a question and its answer."""
        if self.counting:
            self.wire.add(2 * self.setting.header_bytes, backup)
