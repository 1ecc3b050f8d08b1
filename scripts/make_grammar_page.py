"""Writes docs/reference/grammar.md and the highlighting for editors from the rules of the grammar:
`python scripts/make_grammar_page.py`. tests/language/test_grammar.py checks that both are up to date.
"""

from __future__ import annotations

import json
from pathlib import Path

from kigen.language.grammar import Choice, Item, Literal, Optional, Reference, Repeat, Sequence, keywords, rules
from kigen.plan.binder.expressions import allowed_functions

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "grammar.md"
EDITOR = ROOT / "editors" / "vscode" / "syntaxes" / "cql.tmLanguage.json"
WIDTH = 100
TYPES = {"DECIMAL", "STRUCT"} | {
    item.text for item in getattr(rules()["plain_type"], "items", ()) if isinstance(item, Literal)
}
UNITS = {item.text for item in getattr(rules()["unit"], "items", ()) if isinstance(item, Literal)}
CONSTANTS = {"TRUE", "FALSE", "NULL"}
OTHERS = TYPES | UNITS | CONSTANTS  # keywords with a colour of their own
INTRO = """\
# Grammar

<!-- Made by scripts/make_grammar_page.py from src/kigen/language/grammar/rules.py: edit the rules instead. -->

This page shows what can be written, and [the language](language.md) what it means.
Read a diagram from left to right along any line.
Words in capitals and signs stand for themselves, in large or small letters; `<words>` stand for another diagram.
A line below others that leads back (`◄`) repeats what is above it.

| kind of token | examples |
|---|---|
| `<name>` | `speed`, `"Odd name"`: a name that is also a keyword, or has other signs, stands in double quotes |
| `<number>`, `<count>` | `10`, `2.5`; a count is a whole number |
| `<string>`, `<file>` | `'kitchen'`, `'it''s'` |
| `<parameter>` | `$limit`, whose value `--set limit=3` or `params` gives; it may stand for a number or a string |

A comment begins with `--` and ends with the line, or stands between `/*` and `*/`.
A clause of a statement is written at most once.
"""

Drawing = tuple[list[str], int]  # lines of one width, and the line that goes in on the left and out on the right


def draw(item: Item) -> Drawing:
    """Draws an item as a railroad."""
    match item:
        case Literal(text):
            return [f" {text} "], 0
        case Reference(name):
            return [f" <{name}> "], 0
        case Sequence(items):
            return _beside([draw(inner) for inner in items])
        case Choice(items):
            return _choice([draw(inner) for inner in items])
        case Optional(inner):
            return _choice([(["─"], 0), draw(inner)])
        case Repeat(inner, separator):
            back = f"◄ {separator} " if separator else "◄"
            return _loop(draw(inner), back)


def _beside(parts: list[Drawing]) -> Drawing:
    above = max(entry for _, entry in parts)
    below = max(len(lines) - entry for lines, entry in parts)
    rows = [""] * (above + below)
    for place, (lines, entry) in enumerate(parts):
        shift = above - entry
        for number in range(len(rows)):
            inside = 0 <= number - shift < len(lines)
            text = lines[number - shift] if inside else " " * len(lines[0])
            joint = "" if place == 0 else ("─" if number == above else " ")
            rows[number] += joint + text
    return rows, above


def _choice(parts: list[Drawing]) -> Drawing:
    width = max(len(lines[0]) for lines, _ in parts)
    rows: list[str] = []
    entries: list[int] = []
    for lines, entry in parts:
        entries.append(len(rows) + entry)
        for number, line in enumerate(lines):
            fill = "─" if number == entry else " "
            rows.append(f"{fill}{line}{fill * (width - len(line))}{fill}")
    first, last = entries[0], entries[-1]
    made = []
    for number, row in enumerate(rows):
        if number == first:
            left, right = "┬", "┬"
        elif number in entries:
            left, right = ("└", "┘") if number == last else ("├", "┤")
        else:
            left, right = ("│", "│") if first < number < last else (" ", " ")
        made.append(left + row + right)
    return made, first


def _loop(part: Drawing, back: str) -> Drawing:
    lines, entry = part
    width = max(len(lines[0]), len(back))
    made = []
    for number, line in enumerate(lines):
        fill = "─" if number == entry else " "
        edge = "┬" if number == entry else ("│" if number > entry else " ")
        made.append(f"{edge}{fill}{line}{fill * (width - len(line))}{fill}{edge}")
    made.append(f"└─{back}{'─' * (width - len(back))}─┘")
    return made, entry


def diagram(item: Item) -> str:
    """Draws a rule, in several rows if it is wide."""
    rows: list[list[Item]] = [[]]
    for part in item.items if isinstance(item, Sequence) else (item,):
        rows[-1].append(part)
        if len(rows[-1]) > 1 and len(_beside([draw(p) for p in rows[-1]])[0][0]) > WIDTH:
            rows.append([rows[-1].pop()])
    made = []
    for number, row in enumerate(rows):
        lines, entry = _beside([draw(part) for part in row])
        start, end = ("├─" if number == 0 else "►─"), ("─┤" if number == len(rows) - 1 else "─►")
        made += [f"{start}{text}{end}" if i == entry else f"  {text}" for i, text in enumerate(lines)]
    return "\n".join(line.rstrip() for line in made)


def page() -> str:
    parts = [INTRO]
    for name, item in rules().items():
        parts.append(f"## {name}\n\n```text\n{diagram(item)}\n```\n")
    return "\n".join(parts)


def _any_of(words: set[str] | frozenset[str]) -> str:
    return rf"(?i)\b({'|'.join(sorted(words))})\b"


def editor() -> str:
    """Returns a TextMate grammar, which VS Code, Sublime Text, JetBrains' editors and GitHub read."""
    functions = {name for name in allowed_functions.ALLOWED if name.isidentifier()}
    patterns = [
        {"name": "comment.line.double-dash.cql", "match": r"--.*$"},
        {"name": "comment.block.cql", "begin": r"/\*", "end": r"\*/"},
        {"name": "string.quoted.single.cql", "begin": "'", "end": "'(?!')"},
        {"name": "variable.other.quoted.cql", "begin": '"', "end": '"'},
        {"name": "variable.parameter.cql", "match": r"\$[A-Za-z_]\w*"},
        {"name": "constant.numeric.cql", "match": r"\b\d[\d_]*(\.\d+)?([eE][+-]?\d+)?\b"},
        {"name": "constant.language.cql", "match": _any_of(CONSTANTS)},
        {"name": "storage.type.cql", "match": _any_of(TYPES)},
        {"name": "constant.other.unit.cql", "match": _any_of(UNITS)},
        {"name": "keyword.control.cql", "match": _any_of(keywords() - OTHERS)},
        {"name": "support.function.cql", "match": _any_of(functions) + r"(?=\s*\()"},
        {"name": "keyword.operator.cql", "match": r"<>|!=|<=|>=|::|\|\||//|[-+*/%=<>]"},
    ]
    made = {"name": "CQL", "scopeName": "source.cql", "fileTypes": ["cql"], "patterns": patterns}
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def files() -> dict[Path, str]:
    return {PAGE: page(), EDITOR: editor()}


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
