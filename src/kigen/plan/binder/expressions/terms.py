"""Represents a term: a piece of the user's text whose names are resolved to positions.

DuckDB gets the user's own tokens with every column replaced by c0, c1, ... Nothing is generated again, so DuckDB's
grammar and precedence decide what the text means. Invariant: texts that differ only in the case of words, blanks and
comments give equal SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from kigen.language.app_text import Source, Span

_OPERATORS = frozenset("<>=!~^@&|#*/%+-:?")

FIRST_CALL = 1 << 40  # position of the first call with OVER; those of columns are below
_CALL = "\0over "

Place = Callable[[int], int]  # from a position in the scope to a column of the node below the expression


def name_of_call(number: int) -> str:
    """Returns the name of the column that stands for a call with OVER (kigen.plan.binder.over)."""
    return f"{_CALL}{number}"


def position_of_call(name: str) -> int | None:
    """Returns the position of that column; None for every other name."""
    return FIRST_CALL + int(name.removeprefix(_CALL)) if name.startswith(_CALL) else None


@dataclass(frozen=True)
class Ref:
    """A replacement for a span of the text: a position, or another term (an alias of the SELECT list)."""

    span: Span
    target: int | Term


@dataclass(frozen=True)
class Piece:
    text: str
    span: Span


@dataclass(frozen=True)
class Sql:
    """Generated SQL, with the source text that each part of it comes from."""

    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return " ".join(p.text for p in self.pieces)

    def source_span(self, start: int, length: int) -> Span | None:
        """Returns the place in the app file of a part of `text`."""
        at, spans = 0, []
        for piece in self.pieces:
            if at < start + length and start < at + len(piece.text):
                spans.append(piece.span)
            at += len(piece.text) + 1
        return (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else None


@dataclass(frozen=True)
class Term:
    source: Source
    span: Span
    refs: tuple[Ref, ...]  # in the order of the text

    def positions(self) -> frozenset[int]:
        found: set[int] = set()
        for ref in self.refs:
            found |= {ref.target} if isinstance(ref.target, int) else ref.target.positions()
        return frozenset(found)

    def part(self, span: Span) -> Term:
        return Term(self.source, span, tuple(r for r in self.refs if span[0] <= r.span[0] and r.span[1] <= span[1]))

    def sql(self, place: Place = lambda position: position) -> Sql:
        return Sql(tuple(self._pieces(place)))

    def _pieces(self, place: Place) -> Iterator[Piece]:
        refs = {ref.span[0]: ref for ref in self.refs}
        skip_to = -1
        for span, kind in _joined(self.source, self.span):
            if span[0] < skip_to:
                continue
            ref = refs.get(span[0])
            if ref is None:
                yield Piece(self._word(span, kind), span)
                continue
            skip_to = ref.span[1]
            if isinstance(ref.target, int):
                yield Piece(f"c{place(ref.target)}", ref.span)
            else:
                yield Piece("(", ref.span)
                for piece in ref.target._pieces(place):
                    yield Piece(piece.text, ref.span)
                yield Piece(")", ref.span)

    def _word(self, span: Span, kind: TokenType) -> str:
        """Returns a token as SQL. The name of a function that the app declares becomes the name of its code."""
        raw = self.source.text[span[0] : span[1]]
        call = self.source.functions.get(raw.strip('"').lower())
        if call is not None and self.source.text[span[1] :].lstrip().startswith("("):
            return call
        return _normal(raw, kind)

    @property
    def text(self) -> str:
        return self.source.slice(self.span)


def _joined(source: Source, span: Span) -> Iterator[tuple[Span, TokenType]]:
    """Yields the tokens of a span; joins those that sqlglot cuts in two (`<<`, `!~`, `.5`)."""
    open_span: Span | None = None
    kind = TokenType.VAR
    for token in source.tokens_in(span):
        if open_span is not None:
            both = source.text[open_span[0] : token.end + 1]
            fraction = both.startswith(".") and token.token_type == TokenType.NUMBER  # `.5`
            if open_span[1] == token.start and (fraction or all(c in _OPERATORS for c in both)):
                open_span = (open_span[0], token.end + 1)
                continue
            yield open_span, kind
        open_span, kind = (token.start, token.end + 1), token.token_type
    if open_span is not None:
        yield open_span, kind


def _normal(raw: str, kind: TokenType) -> str:
    if kind == TokenType.IDENTIFIER or "'" in raw or "$" in raw or '"' in raw:
        return raw
    return " ".join(raw.lower().split())


def same(sql: str) -> str:
    """Returns the text without outer parentheses: two expressions are the same if these texts are equal."""
    while sql.startswith("( ") and sql.endswith(" )") and _wraps(sql):
        sql = sql[2:-2]
    return sql


def _wraps(sql: str) -> bool:
    depth = 0
    words = sql.split(" ")
    for i, word in enumerate(words):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0:
            return i == len(words) - 1
    return False
