"""Edits the text of an app by whole statements. Pure: what is wrong with a statement is for others to find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from kigen.language.app_text import Source, Span
from kigen.language.dialect import Cql
from kigen.language.statements import STATEMENTS


@dataclass(frozen=True)
class StatementText:
    """The place of a statement, with its semicolon, and what it declares."""

    kind: str  # STREAM, TABLE, QUERY, VIEW, FUNCTION or INCLUDE
    name: str
    name_span: Span
    span: Span


def statements_in(text: str) -> list[StatementText]:
    """Returns the statements of a text, in order. A text that cannot be cut into words has none."""
    return list(_statements(text))


def _statements(text: str) -> Iterator[StatementText]:
    try:
        tokens = list(Cql().tokenize(text))
    except TokenError:
        return
    groups = [(end, list(group)) for end, group in groupby(tokens, key=lambda t: t.token_type == TokenType.SEMICOLON)]
    for place, (is_end, words) in enumerate(groups):
        first = words[0].text.upper()
        if is_end or len(words) < 2:
            continue
        following = groups[place + 1][1] if place + 1 < len(groups) else None
        end = (following[0] if following else words[-1]).end + 1
        if first == "INCLUDE":
            yield StatementText(first, words[1].text, (words[1].start, words[1].end + 1), (words[0].start, end))
        elif first == "CREATE" and len(words) > 2 and words[1].text.upper() in STATEMENTS:
            name = words[2]
            yield StatementText(words[1].text.upper(), name.text, (name.start, name.end + 1), (words[0].start, end))


def without_statements(text: str, dropped: Iterable[StatementText]) -> str:
    """Returns the text without these statements."""
    for one in sorted(dropped, key=lambda s: s.span, reverse=True):
        before, after = text[: one.span[0]], text[one.span[1] :]
        text = before.rstrip(" ") + after.lstrip(" ").removeprefix("\n")
    return text


def joined(before: str, after: str) -> str:
    """Returns both texts as one. The first may lack its last semicolon."""
    ends = before.rstrip()
    try:
        tokens = list(Cql().tokenize(ends))
    except TokenError:
        tokens = []
    if tokens and tokens[-1].token_type != TokenType.SEMICOLON:
        at = tokens[-1].end + 1
        ends = f"{ends[:at]};{ends[at:]}"  # a comment may follow
    return f"{ends}\n{after.lstrip(chr(10))}" if ends else after


def place_error(text: str, file: str, span: Span, message: str, hint: str | None = None) -> Exception:
    """Returns an error at a place of the text."""
    return Source(text, file).error(span, message, hint)
