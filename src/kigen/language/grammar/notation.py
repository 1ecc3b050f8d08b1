"""Reads the notation in which the grammar is written.

A rule is `name: alternatives`, and goes on in lines that begin with a blank. WORDS in capitals and "quoted signs" stand
for themselves, names in small letters for their rules. `a | b` is a choice, `[a]` may be left out, `(a b)` is a group,
`a ...` is one or more, and `a ,...` is one or more with commas between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(r'\s*("[^"]+"|,\.\.\.|\.\.\.|[A-Z]+|[a-z_]+|[|()\[\]])')


@dataclass(frozen=True)
class Literal:
    """A word in capitals, or a sign."""

    text: str


@dataclass(frozen=True)
class Reference:
    """What another rule says, or a kind of token."""

    name: str


@dataclass(frozen=True)
class Sequence:
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Choice:
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Optional:
    item: Item


@dataclass(frozen=True)
class Repeat:
    """One or more. `separator` stands between two of them."""

    item: Item
    separator: str | None = None


Item = Literal | Reference | Sequence | Choice | Optional | Repeat


def read_rules(text: str) -> dict[str, Item]:
    """Returns the rules by name, in their order. Raises ValueError if the notation is broken."""
    found: dict[str, Item] = {}
    for part in re.split(r"\n(?=\S)", text.strip()):
        name, _, body = part.partition(":")
        found[name.strip()] = _Reader(name, body).whole()
    return found


class _Reader:
    def __init__(self, rule: str, body: str) -> None:
        self._rule, self._place = rule, 0
        self._tokens = _TOKEN.findall(body)
        if _TOKEN.sub("", body).strip():
            raise ValueError(f"rule {rule}: cannot read {_TOKEN.sub('', body).strip()!r}")

    def whole(self) -> Item:
        item = self._choice()
        if self._place < len(self._tokens):
            raise ValueError(f"rule {self._rule}: unexpected {self._tokens[self._place]}")
        return item

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _next(self) -> str:
        if self._place == len(self._tokens):
            raise ValueError(f"rule {self._rule}: something is not closed at its end")
        self._place += 1
        return str(self._tokens[self._place - 1])

    def _choice(self) -> Item:
        items = [self._sequence()]
        while self._peek() == "|":
            self._next()
            items.append(self._sequence())
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def _sequence(self) -> Item:
        items: list[Item] = []
        while self._peek() not in ("", "|", ")", "]"):
            items.append(self._repeated())
        if not items:
            raise ValueError(f"rule {self._rule}: an empty alternative")
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _repeated(self) -> Item:
        item = self._single()
        if self._peek() in ("...", ",..."):
            return Repeat(item, "," if self._next() == ",..." else None)
        return item

    def _single(self) -> Item:
        token = self._next()
        if token in ("(", "["):
            inner = self._choice()
            if self._next() != {"(": ")", "[": "]"}[token]:
                raise ValueError(f"rule {self._rule}: {token} is not closed")
            return inner if token == "(" else Optional(inner)
        if token.startswith('"'):
            return Literal(token[1:-1])
        return Literal(token) if token.isupper() else Reference(token)
