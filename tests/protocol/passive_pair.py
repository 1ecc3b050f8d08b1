"""A passive pair in all orders: roles, copies and their confirmation. `PassiveStandby.next_role` decides.

Time is not modelled: whatever a replica measures by a clock (how long it is up, asked, not read, or one of two leaders)
may be short or long in any order, so that every role that it could take at some time is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from kigen_lab.simulate.standby.virtual_replica import Files

from kigen.replicas.passive_election import BOTH_S, GRACE_S, UNFOLLOWED_S, UNREACHED_S
from kigen.replicas.replica_names import replica_name
from kigen.replicas.roles import COPIES, DONE, LEADS, UNDECIDED, OtherReplica, ThisReplica

if TYPE_CHECKING:
    from protocol.chain import Chain

Act = Callable[["Chain"], object]


@dataclass
class PassivePair:
    """What a chain does not hold of the two replicas. All of it but files is gone with a process."""

    roles: list[str] = field(default_factory=lambda: [UNDECIDED, UNDECIDED])
    saw_other_lead: list[bool] = field(default_factory=lambda: [False, False])
    offered: list[Files | None] = field(default_factory=lambda: [None, None])  # by the leader
    unconfirmed: list[int | None] = field(default_factory=lambda: [None, None])  # start of the input of a fetched copy

    def leads(self, index: int) -> bool:
        return self.roles[index] == LEADS

    def back(self, index: int) -> None:
        self.roles[index], self.saw_other_lead[index] = UNDECIDED, False
        self.offered[index] = self.unconfirmed[index] = None

    def copy(self) -> PassivePair:
        offered = [None if files is None else files.copy() for files in self.offered]
        return PassivePair(list(self.roles), list(self.saw_other_lead), offered, list(self.unconfirmed))

    def key(self) -> tuple[object, ...]:
        offered = tuple(None if files is None else files.key() for files in self.offered)
        return tuple(self.roles), tuple(self.saw_other_lead), offered, tuple(self.unconfirmed)

    def decide(self, chain: Chain, place: int) -> None:
        """Begins with the first replica as the leader, which both know."""
        self.take_role(chain, place, 0, LEADS)
        self.take_role(chain, place, 1, COPIES)
        self.saw_other_lead[1] = True

    # --- moves ------------------------------------------------------------------------------------------------------

    def moves(self, chain: Chain, place: int) -> Iterator[tuple[str, Act]]:
        for index, me in enumerate(chain.pairs[place]):
            other = chain.pairs[place][1 - index]
            if not me.up:
                continue
            if other.up and self.leads(1 - index) and not self.saw_other_lead[index]:
                yield f"{me.name} sees the other lead", lambda w, i=index: w.passive[place].see(i)
            for role in self._next_roles(chain, place, index):
                yield f"{me.name} {role}", lambda w, i=index, r=role: w.passive[place].take_role(w, place, i, r)
            if self.roles[index] == COPIES and other.up and self.leads(1 - index):
                if self.offered[1 - index] is not None:
                    yield f"{me.name} fetches a copy", lambda w, i=index: w.passive[place].fetch(w, place, i)
                if self.unconfirmed[index] is not None:
                    yield f"{me.name} confirms a copy", lambda w, i=index: w.passive[place].confirm(w, place, i)

    def copies(self, chain: Chain, place: int) -> Iterator[tuple[str, Act]]:
        for index, me in enumerate(chain.pairs[place]):
            if me.up and self.leads(index) and me.files.begun is None and me.input.end >= me.files.needs:
                yield f"{me.name} offers a copy", lambda w, i=index: w.passive[place].offer(w, place, i)

    def _next_roles(self, chain: Chain, place: int, index: int) -> set[str]:
        """Lists the roles that this replica may take now, however long anything has lasted."""
        me, other = chain.pairs[place][index], chain.pairs[place][1 - index]
        asked = any(one.units is None and one.up and one.choice.index == index for one in chain.readers(place))
        followed = [bool(chain.followers(place, i)) for i in (index, 1 - index)]
        role = DONE if other.over else self.roles[1 - index]
        there = OtherReplica(other.up or other.over, role, _position(other.files), followed[1])
        both = self.roles[index] == LEADS and other.up and role == LEADS
        found = set()
        for up_s, asked_s, unfollowed_s, both_s in product(
            (0.0, GRACE_S),
            (0.1, UNREACHED_S) if asked else (0.0,),
            (0.0,) if followed[0] else (0.1, UNFOLLOWED_S),
            (0.1, BOTH_S) if both else (0.0,),
        ):
            this = ThisReplica(
                index,
                self.roles[index],
                _position(me.files),
                up_s,
                asked_s,
                self.saw_other_lead[index],
                unfollowed_s,
                both_s,
            )
            found.add(me.kind.next_role(this, there)[0])
        return found - {self.roles[index]}

    # --- what they do -----------------------------------------------------------------------------------------------

    def see(self, index: int) -> None:
        self.saw_other_lead[index] = True

    def take_role(self, chain: Chain, place: int, index: int, role: str) -> None:
        me = chain.pairs[place][index]
        self.roles[index] = role
        self.offered[index] = self.unconfirmed[index] = None
        me.leading.leads = role == LEADS
        if role == LEADS:
            chain.opened(me.output, place + 1)
        elif role == COPIES:  # its run stops; a batch that was under way is made again from the files
            me.written, me.units = False, None
            chain.unfollow(place, index)
        elif role == DONE:
            me.over, me.up, me.units = True, False, None

    def offer(self, chain: Chain, place: int, index: int) -> None:
        self.offered[index] = chain.pairs[place][index].files.without_input()

    def fetch(self, chain: Chain, place: int, index: int) -> None:
        """The copy takes the place of all files that this replica had."""
        files, self.offered[1 - index] = self.offered[1 - index], None
        assert files is not None
        chain.pairs[place][index].files = files
        self.unconfirmed[index] = files.input.start

    def confirm(self, chain: Chain, place: int, index: int) -> None:
        """The leader acknowledges for both replicas what the copy does not need."""
        start, self.unconfirmed[index] = self.unconfirmed[index], None
        assert start is not None
        node = chain.pairs[place][index].node
        for server, serves in chain.servers(node):
            for replica in (0, 1) if serves else ():
                server.ack(replica_name(node, replica), start)


def _position(files: Files) -> int:
    return files.input.start + files.output.end
