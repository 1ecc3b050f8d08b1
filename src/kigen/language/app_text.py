"""Holds the text of an app file and finds places in it.

Invariant: a `Span` is a half-open pair of character offsets into `Source.text`; everything that is parsed carries one,
so every error can underline its cause.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from kigen.language.errors import CqlError, CqlWarning

Span = tuple[int, int]


@dataclass(frozen=True)
class Piece:
    """A part of an expanded text, and the place in a file that it comes from. A piece that is not `copied` is the value
    of a parameter."""

    text: str
    source: Source
    span: Span
    copied: bool


@dataclass(eq=False)
class Source:
    """The text of an app file. With `pieces`, the text is theirs: included files, and values of parameters."""

    text: str
    file: str = "<app>"
    tokens: list[Token] = field(default_factory=list)
    pieces: tuple[Piece, ...] = ()
    # Functions that the app declares: from the name as users write it, in lower case, to the name in expressions.
    functions: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _piece_starts(self) -> list[int]:
        starts = [0]
        for piece in self.pieces:
            starts.append(starts[-1] + len(piece.text))
        return starts[:-1]

    def _origin(self, span: Span) -> tuple[Source, Span]:
        """Returns the file that a place of the text comes from, and the place there."""
        if not self.pieces:
            return self, span
        at = max(0, bisect_right(self._piece_starts, span[0]) - 1)
        piece, begin = self.pieces[at], self._piece_starts[at]
        if not piece.copied:
            return piece.source, piece.span
        start = piece.span[0] + span[0] - begin
        last = max(at, bisect_right(self._piece_starts, max(span[0], span[1] - 1)) - 1)
        end = self.pieces[last]
        if end.source is not piece.source:
            return piece.source, (start, piece.span[1])
        inside = end.span[0] + span[1] - self._piece_starts[last] if end.copied else end.span[1]
        return piece.source, (start, inside)

    def file_at(self, span: Span) -> str:
        """Returns the file that a place of the text comes from."""
        return self._origin(span)[0].file

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(i + 1 for i, c in enumerate(self.text) if c == "\n")]

    @cached_property
    def _token_starts(self) -> list[int]:
        return [token.start for token in self.tokens]

    def error(self, span: Span, message: str, hint: str | None = None) -> CqlError:
        source, place = self._origin(span)
        return CqlError(message, source.file, *source._place(place), hint, source._line(place))

    def warning(self, span: Span, message: str, hint: str | None = None) -> CqlWarning:
        source, place = self._origin(span)
        return CqlWarning(message, source.file, *source._place(place), hint, source._line(place))

    def _row(self, span: Span) -> int:
        return bisect_right(self._line_starts, min(span[0], len(self.text))) - 1

    def _line(self, span: Span) -> str:
        return self.text[self._line_starts[self._row(span)] :].split("\n", 1)[0].rstrip("\r")

    def _place(self, span: Span) -> tuple[int, int, int]:
        """Returns line and column, from 1, and how many characters to underline: at most to the end of the line."""
        start = min(span[0], len(self.text))
        row = self._row(span)
        begin = self._line_starts[row]
        length = max(1, min(span[1], begin + len(self._line(span))) - start)
        return row + 1, start - begin + 1, length

    def tokens_in(self, span: Span) -> list[Token]:
        first = bisect_right(self._token_starts, span[0] - 1)
        last = bisect_right(self._token_starts, span[1] - 1)
        return self.tokens[first:last]

    def slice(self, span: Span) -> str:
        """Returns the source text of a span on one line, without comments and line breaks."""
        parts: list[str] = []
        previous: Token | None = None
        for token in self.tokens_in(span):
            if previous is not None and token.start > previous.end + 1:
                parts.append(" ")
            parts.append(
                " ".join(self.text[token.start : token.end + 1].split())
                if not _quoted(self, token)
                else self.raw(token)
            )
            previous = token
        return "".join(parts)

    def raw(self, token: Token) -> str:
        return self.text[token.start : token.end + 1]


def _quoted(source: Source, token: Token) -> bool:
    return source.text[token.start] in "'\"$" or source.text[token.end] == "'"


def span_of(node: exp.Expr) -> Span | None:
    """Returns the place of a parsed expression as the parser recorded it, or as its operands imply it."""
    span: Span | None = node.meta.get("span")
    if span is not None:
        return span
    if isinstance(node, exp.Identifier | exp.Star | exp.Literal) and "start" in node.meta:
        return node.meta["start"], node.meta["end"] + 1
    if isinstance(node, exp.Column | exp.Table | exp.Binary | exp.Alias):
        places = [s for s in (span_of(child) for child in node.iter_expressions()) if s is not None]
        if places:
            return min(p[0] for p in places), max(p[1] for p in places)
    return None
