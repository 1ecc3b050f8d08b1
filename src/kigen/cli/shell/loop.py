"""Reads statements from a terminal or a pipe, shows what they give, and completes words by the grammar."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TextIO

from sqlglot.errors import TokenError

from kigen.connectors import InputError
from kigen.connectors.options import OptionError
from kigen.engine.errors import ArgumentError
from kigen.language import CqlErrors
from kigen.language.grammar import LEXICAL, Recognizer
from kigen.language.grammar.recognizer import words_of
from kigen.lifetimes import EvaluationError

HELP = """\
CREATE ...;           adds a stream, table, view, function or query to this session
SELECT ...;           runs a query, also with ISTREAM, DSTREAM or RSTREAM around it
NAME;                 runs a query of the app
.show                 shows streams, tables and queries
.text                 shows the app as it is now
.save FILE            writes it to a file
.help  .quit          this text; the end (also Ctrl-D)
A statement ends with ; and may have several lines. The tab key completes."""
_SHOWN = 40  # rows of an answer
_ERRORS = (CqlErrors, InputError, OptionError, ArgumentError, EvaluationError, TokenError, OSError)


class Session(Protocol):
    def names(self) -> list[str]: ...
    def described(self) -> list[str]: ...
    def enter(self, statement: str) -> list[dict[str, Any]] | str: ...


def completions(before: str, word: str, names: Iterable[str]) -> list[str]:
    """Returns how `word` may go on, after the text before it: keywords that the grammar allows there, and names."""
    stripped = before.lstrip().upper()
    begun = not stripped or stripped.startswith(("CREATE", "INCLUDE"))
    with suppress(TokenError):
        wanted = Recognizer(before if begun else f"CREATE QUERY q AS {before}").next_words()
        wanted |= {"SELECT", "ISTREAM", "DSTREAM", "RSTREAM", "WITH"} if not stripped else set()
        words = sorted(w for w in wanted if w.isalpha() and w not in LEXICAL)
        found = [w for w in words if w.startswith(word.upper())]
        return found + ([n for n in names if n.lower().startswith(word.lower())] if "name" in wanted else [])
    return []


def shell(session: Session, given: TextIO, out: TextIO, interactive: bool) -> int:
    """Runs until the end of the input. Returns the exit code: 1 if a statement of a pipe failed."""
    failed = False
    for statement in _statements(given, out, session, interactive):
        try:
            if statement.startswith("."):
                if statement.split()[0] in (".quit", ".exit"):
                    break
                out.write(_command(session, statement) + "\n")
            else:
                answer = session.enter(statement)
                out.write((answer if isinstance(answer, str) else shown(answer)) + "\n")
        except _ERRORS as error:
            failed = True
            out.write((error.render() if isinstance(error, CqlErrors) else f"error: {error}") + "\n")
        out.flush()
    return int(failed and not interactive)


def _command(session: Session, line: str) -> str:
    name, _, argument = line.partition(" ")
    text: str | None = getattr(session, "text", None)
    if name == ".show":
        return "\n".join(session.described()) or "nothing yet: write CREATE STREAM ..."
    if name in (".text", ".save") and text is None:
        raise ArgumentError(f"{name} goes with an app file, not with a running app")
    if name == ".text":
        return str(text).rstrip()
    if name == ".save":
        if not argument.strip():
            raise ArgumentError("write .save FILE")
        Path(argument.strip()).write_text(str(text), encoding="utf-8")
        return f"written: {argument.strip()}"
    return HELP if name == ".help" else f"unknown command {name}\n{HELP}"


def shown(rows: Sequence[dict[str, Any]]) -> str:
    """Returns rows as a table of text."""
    if not rows:
        return "no rows"
    names = list(rows[0])
    cells = [[_cell(row[name]) for name in names] for row in rows[:_SHOWN]]
    widths = [max(len(line[i]) for line in [names, *cells]) for i in range(len(names))]
    padded = ([text.ljust(w) for text, w in zip(line, widths, strict=True)] for line in [names, *cells])
    lines = ["  ".join(line).rstrip() for line in padded]
    count = f"{len(rows)} rows" if len(rows) != 1 else "1 row"
    return "\n".join([*lines, count if len(rows) <= _SHOWN else f"{count}, the first {_SHOWN} shown"])


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value.isoformat()).replace("+00:00", "Z") if hasattr(value, "isoformat") else str(value)


def _statements(given: TextIO, out: TextIO, session: Session, interactive: bool) -> Iterator[str]:
    pending: list[str] = []
    if interactive:
        _with_readline(session, pending)
    while True:
        try:
            line = input("   ...> " if pending else "kigen> ") if interactive else given.readline()
        except EOFError:
            out.write("\n")
            return
        except KeyboardInterrupt:  # leaves the statement that was begun
            out.write("\n")
            pending.clear()
            continue
        if not interactive and not line:
            if "".join(pending).strip():
                yield "".join(pending)
            return
        if not pending and line.strip().startswith("."):
            yield line.strip()
            continue
        if line.strip() or pending:
            pending.append(line.rstrip("\n") + "\n")
        if _is_whole("".join(pending)):
            statement = "".join(pending)
            pending.clear()
            yield statement


def _is_whole(text: str) -> bool:
    with suppress(TokenError):  # a string that is not closed goes on
        words = words_of(text)
        return bool(words) and words[-1][0] == ";"
    return False


def _with_readline(session: Session, pending: list[str]) -> None:
    """Turns on history and completion, where Python has readline."""
    try:
        import atexit
        import readline
    except ImportError:  # as on Windows
        return
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "kigen" / "history"
    with suppress(OSError):
        state.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        readline.read_history_file(state)
    readline.set_history_length(5_000)
    atexit.register(_save_history, readline, state)
    found: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            names: list[str] = []
            with suppress(*_ERRORS):
                names = session.names()
            before = "".join(pending) + readline.get_line_buffer()[: readline.get_begidx()]
            found[:] = completions(before, word, names)
        return found[number] + " " if number < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n()[],;=<>+-*/%|")
    readline.parse_and_bind("tab: complete")


def _save_history(readline: Any, path: Path) -> None:
    with suppress(OSError):
        readline.write_history_file(path)
        path.chmod(0o600)


def run_shell(session: Session) -> int:
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    if interactive:
        sys.stdout.write("kigen shell: .help shows what to write, Ctrl-D ends\n")
    return shell(session, sys.stdin, sys.stdout, interactive)
