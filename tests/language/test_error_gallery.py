"""Tests every error of the gallery: the exact text underlined (between « and »), the message (!) and the hint (?).

`errors.txt` holds one app statement per block. If there are errors in several places, the messages follow in the order
of the text.
"""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from kigen.language import CqlError, CqlErrors
from kigen.plan import bind

STREAMS = """\
CREATE STREAM s (a BIGINT, b DOUBLE, c STRING, d BOOLEAN, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');
CREATE STREAM t (a BIGINT, e BIGINT) FROM synthetic (rate = 5);
CREATE QUERY rel AS SELECT a FROM s [NOW];
CREATE QUERY str AS ISTREAM(SELECT a FROM s [NOW]);
"""
FIRST_LINE = STREAMS.count("\n") + 1


@dataclass(frozen=True)
class Entry:
    marked: str
    messages: tuple[str, ...]
    hints: tuple[str, ...]


def entries() -> list[Entry]:
    blocks = Path(__file__).with_name("errors.txt").read_text(encoding="utf-8").strip().split("\n\n")
    found = []
    for block in blocks:
        lines = block.split("\n")
        text = "\n".join(line for line in lines if line[:2] not in ("! ", "? "))
        messages = tuple(line[2:] for line in lines if line.startswith("! "))
        hints = tuple(line[2:] for line in lines if line.startswith("? "))
        found.append(Entry(text, messages, hints))
    return found


def errors_of(text: str) -> list[CqlError]:
    with pytest.raises(CqlErrors) as caught:
        bind(STREAMS + text, "app.sql")
    return caught.value.errors


@pytest.mark.parametrize("entry", entries(), ids=lambda e: re.sub(r"\W+", "_", e.marked)[:60])
def test_error(entry: Entry) -> None:
    text = entry.marked.replace("«", "").replace("»", "")
    errors = errors_of(text)
    assert [e.message for e in errors] == list(entry.messages)
    assert [e.hint for e in errors] == list(entry.hints)
    marked = text
    for error in sorted(errors, key=lambda e: (e.line, e.column), reverse=True):
        lines = marked.split("\n")
        row, start = error.line - FIRST_LINE, error.column - 1
        line = lines[row]
        lines[row] = f"{line[:start]}«{line[start : start + error.length]}»{line[start + error.length :]}"
        marked = "\n".join(lines)
    assert marked == entry.marked


def test_the_gallery_is_large() -> None:
    assert len(entries()) > 120


def test_render_shows_place_line_carets_and_hint() -> None:
    (error,) = errors_of("CREATE QUERY q AS\n  SELECT tmp FROM s [ROWS 5] JOIN t [NOW] ON s.a = t.ee;")
    assert error.render().split("\n") == [
        "app.sql:6:54: unknown column ee in t",
        "    6 |   SELECT tmp FROM s [ROWS 5] JOIN t [NOW] ON s.a = t.ee;",
        "      |                                                      ^^",
        "  hint: did you mean e?",
    ]
    assert error.underlined == "ee"


def test_tabs_keep_the_carets_in_place() -> None:
    (error,) = errors_of("CREATE QUERY q AS\n\tSELECT\tx FROM s [NOW];")
    assert error.render().split("\n")[1:3] == ["    6 | \tSELECT\tx FROM s [NOW];", "      | \t      \t^"]


def test_errors_survive_pickling() -> None:
    with pytest.raises(CqlErrors) as caught:
        bind("CREATE QUERY q AS SELECT x FROM s [NOW];\nSELECT 1;", "app.sql")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, CqlErrors)
    assert copy.render() == caught.value.render()
    one = pickle.loads(pickle.dumps(caught.value.errors[0]))
    assert (one.file, one.line, one.column, one.length, one.hint) == ("app.sql", 1, 33, 1, "streams and queries: q")
    assert isinstance(one, ValueError)


def test_all_errors_of_a_file_at_once() -> None:
    errors = errors_of(
        "CREATE STREAM v (a FOO) FROM kafka;\n"
        "CREATE QUERY one AS SELECT x, y FROM s [NOW] WHERE z > 1 AND zz < 2;\n"
        "CREATE QUERY two AS SELECT FROM WHERE;\n"
        "CREATE QUERY three AS SELECT a FROM v [ROWS 0];\n"
        "CREATE QUERY four AS SELECT a FROM one;\n"
        "CREATE QUERY five AS SELECT a FROM nowhere [NOW], nothing [NOW];\n"
        "CREATE QUERY six AS SELECT p FROM s [NOW] UNION ALL SELECT r FROM t [NOW];\n"
    )
    assert [(e.line - FIRST_LINE + 1, e.underlined) for e in errors] == [
        *[(1, "FOO"), (1, "kafka"), (2, "x"), (2, "y"), (2, "z"), (2, "zz"), (3, "WHERE"), (4, "0")],
        *[(6, "nowhere"), (6, "nothing"), (7, "p"), (7, "r")],
    ]
