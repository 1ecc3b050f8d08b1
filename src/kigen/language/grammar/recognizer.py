"""Decides whether tokens follow the rules, and which words may come next.

All readings are followed at once: a rule gives, for a place, every place at which it can end. Rules do not begin with
themselves. Cost: rules times places, kept in a table per text; for app files and input lines, not for data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot.tokenizer_core import Token, TokenType

from kigen.language.dialect import Cql, CqlBaseParser
from kigen.language.grammar.notation import Choice, Item, Literal, Optional, Reference, Repeat, Sequence
from kigen.language.grammar.rules import rules

Word = tuple[str, TokenType]  # text, and its kind
_NEVER_NAMES = frozenset({"SELECT", "FROM", "WHERE", "ON", "USING", "JOIN", "INTO", "LIMIT", "CREATE", "CASE", "CAST"})


def _is_name(word: Word) -> bool:
    text, kind = word
    if kind == TokenType.IDENTIFIER:
        return True
    return kind in CqlBaseParser.NAME_TOKENS and text.upper() not in _NEVER_NAMES and text[:1] not in "'$"


LEXICAL: dict[str, Callable[[Word], bool]] = {
    "name": _is_name,
    "number": lambda word: word[1] in (TokenType.NUMBER, TokenType.PARAMETER),
    "count": lambda word: (word[1] == TokenType.NUMBER and word[0].isdigit()) or word[1] == TokenType.PARAMETER,
    "string": lambda word: word[1] in (TokenType.STRING, TokenType.PARAMETER),
    "file": lambda word: word[1] == TokenType.STRING,
    "parameter": lambda word: word[0].startswith("$"),
}  # kinds of tokens that the rules use


def words_of(text: str) -> list[Word]:
    """Returns the tokens of a text; a keyword of several words is several."""
    found: list[Word] = []
    tokens: list[Token] = list(Cql().tokenize(text))
    for token in tokens:
        written = text[token.start : token.end + 1]
        if found and found[-1][0] == "$" and token.start and text[token.start - 1] == "$":
            found[-1] = ("$" + token.text, TokenType.PARAMETER)
        elif token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER) and re.search(r"\s", written):
            found += [
                (part, TokenType.VAR if len(written.split()) == 1 else token.token_type) for part in written.split()
            ]
        else:
            found.append((token.text if token.token_type != TokenType.PARAMETER else "$", token.token_type))
    return found


class Recognizer:
    """Reads one text."""

    def __init__(self, text: str, grammar: Mapping[str, Item] | None = None) -> None:
        self._rules = rules() if grammar is None else grammar
        self._words = words_of(text)
        self._ends: dict[tuple[Item, int], frozenset[int]] = {}
        self.expected: set[str] = set()  # what may come after the last token: words, signs and names of LEXICAL
        self.furthest = 0  # how many tokens some reading has taken

    def accepts(self, rule: str = "app") -> bool:
        return len(self._words) in self._read(Reference(rule), 0)

    def next_words(self, rule: str = "app") -> set[str]:
        """Returns what may come after the text: words, signs, and names of LEXICAL."""
        self.accepts(rule)
        return set(self.expected)

    @property
    def stopped_at(self) -> str:
        """Returns the tokens at which the last reading ended."""
        return " ".join(text for text, _ in self._words[max(0, self.furthest - 3) : self.furthest + 3])

    def _read(self, item: Item, place: int) -> frozenset[int]:
        known = (item, place)
        if known not in self._ends:
            self._ends[known] = frozenset(self._find(item, place))
        return self._ends[known]

    def _find(self, item: Item, place: int) -> set[int] | frozenset[int]:
        match item:
            case Literal(text):
                return self._token(text, place, lambda word: self._is_literal(word, text))
            case Reference(name) if name in LEXICAL:
                return self._token(name, place, LEXICAL[name])
            case Reference(name):
                return self._read(self._rules[name], place)
            case Choice(items):
                return {end for inner in items for end in self._read(inner, place)}
            case Optional(inner):
                return {place, *self._read(inner, place)}
            case Sequence(items):
                ends = {place}
                for inner in items:
                    ends = {end for start in ends for end in self._read(inner, start)}
                return ends
            case Repeat(inner, separator):
                ends, new = set[int](), set(self._read(inner, place))
                while new:
                    ends |= new
                    starts = new
                    if separator is not None:
                        starts = {e for s in new for e in self._read(Literal(separator), s)}
                    new = {end for start in starts for end in self._read(inner, start)} - ends
                return ends

    def _token(self, wanted: str, place: int, fits: Callable[[Word], bool]) -> set[int]:
        if place == len(self._words):
            self.expected.add(wanted)
            return set()
        if not fits(self._words[place]):
            return set()
        self.furthest = max(self.furthest, place + 1)
        return {place + 1}

    @staticmethod
    def _is_literal(word: Word, text: str) -> bool:
        return word[1] not in (TokenType.STRING, TokenType.IDENTIFIER) and word[0].upper() == text
