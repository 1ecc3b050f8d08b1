"""A passive pair in virtual time: the leader's copies, and the follower that asks, keeps them and takes over.

`PassiveElection` and the kind's `next_role` decide, as on real nodes. The time that Spark takes to begin a query is not
modelled.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kigen.replicas.passive_election import PassiveElection
from kigen.replicas.roles import COPIES, LEADS, OtherReplica
from kigen.replicas.standby_kind import PassiveStandby
from kigen_lab.simulate.standby.records import packed_bytes
from kigen_lab.simulate.standby.virtual_replica import Files

if TYPE_CHECKING:
    from kigen_lab.simulate.standby.trial import Trial

_ASK_US = 200_000.0  # between two questions to the other replica


class PassiveFollower:
    def __init__(self, trial: Trial) -> None:
        assert isinstance(trial.kind, PassiveStandby)
        self._trial, self._kind = trial, trial.kind
        self._leader, self._follower = trial.replicas["N"], trial.replicas["N.1"]
        self._election = PassiveElection(1, trial.setting.silence_us / 1e6, COPIES)
        self._other = OtherReplica(True, LEADS, 0, followed=True)
        self._asked_us: float | None = None
        self._next_copy_us = self._kind.period_us
        trial.every(_ASK_US, self._ask)

    def serves(self) -> bool:
        """Whether the follower has taken over. D has asked it, at any rate."""
        self._asked_us = self._trial.now_us
        return self._election.role == LEADS

    def _ask(self) -> None:
        trial = self._trial
        trial.links.ping(backup=True)
        if trial.dead:
            answers = OtherReplica(False, LEADS)
            trial.at(trial.now_us + trial.setting.silence_us, lambda: setattr(self, "_other", answers))

    def look(self, name: str) -> None:
        trial = self._trial
        if name != self._follower.name or self._election.role == LEADS:
            return
        this = self._election.observe(
            trial.now_us / 1e6,
            self._other,
            asked_at_s=None if self._asked_us is None else self._asked_us / 1e6,
            position=self._follower.input.start + self._follower.output.end,
            saw_other_lead=True,
            unfollowed_s=trial.unfollowed_s(name),
            other_cut_off_s=0.0,
        )
        role, _ = self._kind.next_role(this, self._other)
        if role == LEADS:
            self._election.role, self._follower.leading.leads = LEADS, True
            trial.at(trial.now_us + trial.drawn.connects_us[0], lambda: trial.follow(name))

    def offer_copy(self, name: str) -> None:
        """Sends a copy if one is due: between two batches."""
        trial = self._trial
        if name != self._leader.name or trial.now_us < self._next_copy_us:
            return
        self._next_copy_us = trial.now_us + self._kind.period_us
        copy = self._leader.files.without_input()
        alive = copy.worked - int(trial.drawn.alive_from[copy.worked - 1]) if trial.setting.window_us else 0
        state = range(copy.worked - alive, copy.worked)
        size = packed_bytes(trial.drawn, [*state, *copy.output.rows], self._kind.compress)
        names = self._leader.name, self._follower.name
        trial.links.send(trial.now_us, *names, size, lambda: self._keep(copy), backup=True)

    def _keep(self, copy: Files) -> None:
        """The copy is whole: it takes the place of the one before, and the leader acknowledges for both replicas."""
        trial, names = self._trial, (self._leader.name, self._follower.name)
        if self._election.role == LEADS:
            return
        self._follower.files = copy

        def confirmed() -> None:
            if not trial.dead:
                start = copy.input.start
                for name in names:
                    trial.links.send(trial.now_us, names[0], "U", 0, partial(trial.source.ack, name, start))

        trial.links.send(trial.now_us, names[1], names[0], 0, confirmed, backup=True)
