"""Finds the line in an error of Spark that says what happened, among stack traces and wrapping."""

from __future__ import annotations

import re
from typing import Any

_FRAME = re.compile(r"\s|Driver stacktrace:|\.\.\. \d+ more")  # a line of a stack trace, of Java or Python
_FROM_JAVA = "py4j.protocol.Py4JJavaError"
_WRAPPINGS = (
    re.compile(r"^.*terminated with exception: "),
    re.compile(r"^Job aborted due to stage failure: .*most recent failure: Lost task .*?\): "),
    re.compile(r"^Job aborted due to stage failure: "),
    re.compile(r"^([a-z_]\w*\.)+[A-Z][\w$]*(: |$)"),
    re.compile(r"(SQLSTATE: \w+)$"),
)


def error_cause(error: Any) -> str:
    """Returns the line that says what happened.

    For a Python stack trace that is its last line, else the innermost cause, without Spark's wrapping.
    """
    text = str(error).split("=== Streaming Query ===")[0]
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    traces = [place for place, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    plain = [line for line in lines[traces[-1] + 1 if traces else 0 :] if not _FRAME.match(line)]
    if not plain:
        return type(error).__name__
    java = plain[0].startswith(_FROM_JAVA)  # Python called Java, so the cause is in Java's trace
    if traces and not java:
        return plain[0]
    causes = [line.removeprefix("Caused by: ") for line in plain if line.startswith("Caused by: ")]
    innermost_first = list(reversed(causes))
    candidates = (
        [*innermost_first, *(line.removeprefix(": ") for line in plain[1:2])] if java else [plain[0], *innermost_first]
    )
    found = [words for words in map(_unwrapped, candidates) if words]
    return found[0] if found else plain[0]


def _unwrapped(line: str) -> str:
    """Removes the names of the query, of Spark's task and of Java classes."""
    for wrapping in _WRAPPINGS:
        line = wrapping.sub("", line)
    return line.strip()
