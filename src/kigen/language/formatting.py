"""Formats app files: one layout for all, so that a diff shows what changed.

Keywords that cannot be names are written in capitals, a clause begins a line, and blanks are single. Everything else
stays as the user wrote it. Invariant: the formatted text has the tokens and comments of the original, in their order;
where that does not hold, the text is left as it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from kigen.language.dialect import Cql

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_KEYWORDS = frozenset({
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "LIMIT", "OFFSET", "QUALIFY", "UNION",
    "ALL", "EXCEPT", "INTERSECT", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "ON", "USING", "AND", "OR", "NOT",
    "IN", "IS", "NULL", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "CREATE", "CAST", "WITH",
})  # fmt: skip
_QUERY_CLAUSES = frozenset(
    {"FROM", "WHERE", "GROUP", "GROUP BY", "HAVING", "ORDER", "ORDER BY", "LIMIT", "QUALIFY", "UNION", "UNION ALL"}
    | {"EXCEPT", "INTERSECT", "INTO", "SELECT"}
)
_STREAM_CLAUSES = frozenset(
    {"TIMESTAMP", "FROM", "LATENESS", "IDLE", "AHEAD", "ON", "SHED", "BUFFER", "LATE", "KEY", "REFRESH"}
)
_HEADS = frozenset({"CREATE", "STREAM", "TABLE", "QUERY", "VIEW"})
_BINDS_LEFT = frozenset({",", ";", ")", "]", "."})
_OPENS = frozenset({"(", "[", "."})


def format_app(text: str) -> str:
    """Returns the text of an app file in the usual layout. Text that cannot be read as tokens is returned as it is."""
    try:
        tokens = list(Cql().tokenize(text))
        made = _Layout(text, tokens).made()
        same = _content(made, list(Cql().tokenize(made))) == _content(text, tokens)
    except TokenError:
        return text
    return made if same else text


def _content(text: str, tokens: list[Token]) -> list[str]:
    """Returns what must not change: tokens and comments in their order, keywords in capitals."""
    found: list[str] = []
    done = 0
    for token in tokens:
        found += _comments(text[done : token.start])
        word = " ".join(_word(text, token).split())
        if found and found[-1] == "$" and done == token.start:
            found[-1] = f"${word}"
            done = token.end + 1
            continue
        found.append(word.upper() if set(word.upper().split()) <= _KEYWORDS | _HEADS else word)
        done = token.end + 1
    return [*found, *_comments(text[done:])]


def _comments(gap: str) -> list[str]:
    return [comment.rstrip() for comment in _COMMENT.findall(gap)]


def _word(text: str, token: Token) -> str:
    return text[token.start : token.end + 1]


@dataclass
class _Layout:
    text: str
    tokens: list[Token]
    lines: list[str] = field(default_factory=lambda: [""])
    _depth: int = 0  # of parentheses and brackets
    _kind: str = ""  # what the statement creates; empty before it is known
    _in_query: bool = False  # after the AS of CREATE QUERY or CREATE VIEW
    _begins: bool = True  # a statement begins

    def made(self) -> str:
        done = 0
        for token in self.tokens:
            gap = self.text[done : token.start]
            self._gap(gap, token)
            self._token(token, glued=not gap and done > 0)
            done = token.end + 1
        self._gap(self.text[done:], None)
        return "\n".join(line.rstrip() for line in self.lines).strip("\n") + "\n"

    def _gap(self, gap: str, token: Token | None) -> None:
        """Writes the comments before a token: at the end of the line if they were there, else on lines of their own.
        Keeps a blank line between statements, and line breaks within parentheses and lists."""
        done = 0
        for found in _COMMENT.finditer(gap):
            before = gap[done : found.start()]
            if "\n" in before or self.lines == [""]:
                self._blank(before)
                self._line(self._indent() if not self._begins else "")
                self.lines[-1] += found[0].rstrip()
            else:
                self.lines[-1 if self.lines[-1].strip() else -2] += f" {found[0].rstrip()}"
            done = found.end()
            if found[0].startswith("--") or "\n" in gap[done:]:
                self._line(self._indent() if not self._begins else "")
        if token is not None:
            self._blank(gap[done:])
            before, listed = self.lines[-1].strip(), self._depth or self.lines[-1].rstrip().endswith(",")
            if "\n" in gap[done:] and not self._begins and before and listed:
                self._line("  " + self._indent())

    def _blank(self, gap: str) -> None:
        """Begins a paragraph, if the user left a line blank between statements."""
        if self._begins and gap.count("\n") > 1 and any(self.lines):
            self._line("")
            if len(self.lines) > 1 and self.lines[-2].strip():
                self.lines.append("")

    def _line(self, indent: str) -> None:
        if self.lines[-1].strip():
            self.lines.append(indent)
        else:
            self.lines[-1] = indent

    def _indent(self) -> str:
        return "  " * (1 + self._depth)

    def _token(self, token: Token, glued: bool) -> None:
        raw = _word(self.text, token)
        upper = " ".join(raw.upper().split())
        parameter = glued and self.lines[-1].endswith("$")  # its name may be that of a keyword, as in $limit
        quoted = parameter or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        head = not quoted and not self._in_query and upper in _HEADS and self._kind in ("", "CREATE")
        word = upper if not quoted and (head or set(upper.split()) <= _KEYWORDS) and not self._names() else raw
        if self._breaks(upper, quoted):
            self._line(self._indent())
        if word in (")", "]"):
            self._depth -= 1
        before = self.lines[-1]
        if (before.strip() and not glued and word not in _BINDS_LEFT and before[-1] not in _OPENS) or (
            glued and before.endswith(",") and word not in _BINDS_LEFT
        ):
            self.lines[-1] += " "
        self.lines[-1] += word
        self._follow(word, upper, quoted)

    def _names(self) -> bool:
        """Whether the word before makes this one a name: s.key, or AS end."""
        before = self.lines[-1].rstrip()
        return before.endswith(".") or bool(self._in_query and re.search(r"\bAS$", before))

    def _breaks(self, upper: str, quoted: bool) -> bool:
        if quoted or self._depth or self._begins:
            return False
        if self._in_query:
            return upper in _QUERY_CLAUSES
        return (
            self._kind in ("STREAM", "TABLE") and upper in _STREAM_CLAUSES and not self.lines[-1].endswith(self._kind)
        )

    def _follow(self, word: str, upper: str, quoted: bool) -> None:
        self._begins = False
        if word in ("(", "["):
            self._depth += 1
        elif word == ";" and not self._depth:
            self._kind, self._in_query, self._begins = "", False, True
            self.lines.append("")
        elif quoted or self._depth:
            return
        elif upper == "CREATE" and not self._kind:
            self._kind = "CREATE"
        elif self._kind == "CREATE" and upper in _HEADS:
            self._kind = upper
        elif upper == "AS" and self._kind in ("QUERY", "VIEW") and not self._in_query:
            self._in_query = True
            self._line(self._indent())
