"""Puts included files and the values of parameters into the text of an app.

`INCLUDE 'file.cql';` stands for the statements of that file, and `$name` for a value that is given when the app is
read. Invariant: every character of the expanded text knows the file and the place that it comes from, so that errors
point at what the user wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from kigen.language.app_text import Piece, Source, Span
from kigen.language.dialect import Cql
from kigen.language.errors import CqlError, suggest

Value = str | int | float | bool | datetime | None
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def value_of(text: str) -> Value:
    """Returns the value that `--set name=text` means: a number, true or false, else the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if any(c in text for c in ".eE") else int(text)
    quoted = len(text) > 1 and text[0] == text[-1] == "'"
    return text[1:-1].replace("''", "'") if quoted else text


def literal(value: Value) -> str:
    """Writes a value as CQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        return f"TIMESTAMP '{moment.isoformat(' ')}'"
    if isinstance(value, int | float):
        return repr(value)
    quoted = str(value).replace("'", "''")
    return f"'{quoted}'"


@dataclass
class Expansion:
    """Expands one app. `source` then has the text and where it comes from, and `errors` what is wrong."""

    params: Mapping[str, Value]
    errors: list[CqlError] = field(default_factory=list)
    _pieces: list[Piece] = field(default_factory=list)
    _used: set[str] = field(default_factory=set)
    _seen: dict[str, str] = field(default_factory=dict)  # names of parameters as written

    def expand(self, text: str, file: str, directory: str) -> Source:
        own = Source(text, file)
        self._file(own, Path(directory), ())
        unknown = [name for name in self.params if name.lower() not in self._used]
        for name in unknown if not self.errors else ():
            hint = suggest(name, sorted(self._seen), "parameters here") if self._seen else "leave it out"
            self.errors.append(own.error((0, 1), f"the app has no parameter ${name}", hint))
        if all(piece.copied and piece.source is own for piece in self._pieces):
            return own
        return Source("".join(piece.text for piece in self._pieces), file, pieces=tuple(self._pieces))

    def _file(self, source: Source, directory: Path, opened: tuple[Path, ...]) -> None:
        try:
            tokens = list(Cql().tokenize(source.text))
        except TokenError:  # the parser says what is wrong
            self._copy(source, (0, len(source.text)))
            return
        done = 0
        for span, what in self._places(tokens):
            self._copy(source, (done, span[0]))
            done = span[1]
            if isinstance(what, Token):
                self._include(source, span, what.text, directory, opened)
            else:
                self._parameter(source, span, what)
        self._copy(source, (done, len(source.text)))

    @staticmethod
    def _places(tokens: list[Token]) -> Iterator[tuple[Span, Token | str]]:
        """Yields the places of parameters, with their names, and of INCLUDE, with the token of its file."""
        for i, token in enumerate(tokens[:-1]):
            after = tokens[i + 1]
            begins = i == 0 or tokens[i - 1].token_type == TokenType.SEMICOLON
            if token.token_type == TokenType.PARAMETER and after.start == token.end + 1 and after.text.isidentifier():
                yield (token.start, after.end + 1), after.text
            elif begins and token.text.upper() == "INCLUDE" and after.token_type == TokenType.STRING:
                yield (token.start, after.end + 1), after

    def _copy(self, source: Source, span: Span) -> None:
        if span[1] > span[0]:
            self._pieces.append(Piece(source.text[span[0] : span[1]], source, span, True))

    def _parameter(self, source: Source, span: Span, name: str) -> None:
        values = {given.lower(): value for given, value in self.params.items()}
        self._seen.setdefault(name, name)
        self._used.add(name.lower())
        if name.lower() not in values:
            hint = f"write --set {name}=value, or params={{'{name}': value}} in Python"
            self.errors.append(source.error(span, f"parameter ${name} has no value", hint))
            return
        self._pieces.append(Piece(literal(values[name.lower()]), source, span, False))

    def _include(self, source: Source, span: Span, name: str, directory: Path, opened: tuple[Path, ...]) -> None:
        path = (directory / name).resolve()
        if path in opened or len(opened) > 50:
            files = " -> ".join(p.name for p in (*opened, path))
            self.errors.append(source.error(span, f"files include each other in a cycle: {files}", "leave one out"))
            return
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)
            hint = "write the path of a CQL file, relative to this file"
            self.errors.append(source.error(span, f"cannot include {name}: {reason}", hint))
            return
        included = Source(text, str(path) if Path(name).is_absolute() else str(Path(source.file).parent / name))
        self._file(included, path.parent, (*opened, path))
        self._pieces.append(Piece("\n", source, span, False))
