"""Writes docs/reference/api.md from the docstrings of the public library: `python scripts/make_api_page.py`.

The examples on the page are the doctests of the docstrings. tests/engine/test_api_page.py runs them on the two files
below, and checks that the page is up to date.
"""

from __future__ import annotations

import builtins
import inspect
import re
from pathlib import Path
from typing import Any

import kigen

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"
READINGS = """\
room,temp,ts
kitchen,20,2026-01-01T00:00:00Z
office,19,2026-01-01T00:00:05Z
kitchen,24,2026-01-01T00:00:08Z
office,19,2026-01-01T00:00:12Z
"""
ROOMS = """\
CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 'readings.csv');
CREATE QUERY hot AS SELECT room, AVG(temp) AS mean FROM readings [RANGE 10 SECONDS] GROUP BY room;
"""
INTRO = f"""\
# Python library

<!-- Made by scripts/make_api_page.py from the docstrings. Edit those instead. -->

Everything here is imported from `kigen`.
`import kigen` loads neither Spark nor the rest of the library: a name is loaded when it is first used.

The examples run in a directory with two files, `readings.csv`:

```csv
{READINGS}```

and `rooms.cql`:

```sql
{ROOMS}```

They begin with these lines:

```python
import kigen

engine = kigen.Engine()
spark = engine.spark
```
"""
FUNCTIONS = ("check", "explain")
CLASSES = ("Engine", "RunOptions", "RunResult", "Run", "AppChange", "Progress", "QueryProgress")
ATTRIBUTES_ONLY = ("RunOptions",)  # its properties are for the engine
_SECTION = re.compile(r"^(Args|Attributes|Raises):$")
_ENTRY = re.compile(r"^    (\w[\w, ]*): (.*)$")
_SENTENCE_END = re.compile(r"(?<=[.]) (?=[A-Z`\"])")


def public_errors() -> list[str]:
    """Names of the errors that `kigen` exports."""
    exported = [(name, getattr(kigen, name)) for name in kigen.__all__]
    return [name for name, value in exported if isinstance(value, type) and issubclass(value, Exception)]


def page() -> str:
    """Returns the page as Markdown."""
    parts = [INTRO, "## Functions\n"]
    parts += [_function(getattr(kigen, name), f"kigen.{name}", "###") for name in FUNCTIONS]
    parts += [_class(name) for name in CLASSES]
    parts += [_errors()]
    return "\n".join(parts)


def _class(name: str) -> str:
    cls = getattr(kigen, name)
    out = [f"## {name}\n", _docstring(cls)]
    for member, value in members(cls).items():
        if member.startswith("_") or not inspect.getdoc(value) or name in ATTRIBUTES_ONLY:
            continue
        if inspect.isfunction(value):
            out.append(_function(value, f"{name}.{member}", "###"))
        elif isinstance(value, property):
            returned = _annotation(inspect.signature(_getter(value)).return_annotation)
            out.append(f"### {name}.{member}\n\n```python\n{member}: {returned}\n```\n\n{_docstring(value)}")
    return "\n".join(out)


def members(cls: type) -> dict[str, Any]:
    """Returns the members of a class and of its bases in Kigen."""
    bases = [base for base in cls.__mro__ if base.__module__.startswith("kigen")]
    found: dict[str, Any] = {}
    for base in bases:
        found |= {name: value for name, value in vars(base).items() if name not in found}
    return found


def _getter(value: property) -> Any:
    assert value.fget is not None
    return value.fget


def _function(function: Any, title: str, level: str) -> str:
    return f"{level} {title}\n\n```python\n{_signature(function)}\n```\n\n{_docstring(function)}"


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    shown: list[str] = []
    for name, parameter in signature.parameters.items():
        if name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in shown):
            shown.append("*")
        name = f"*{name}" if parameter.kind is parameter.VAR_POSITIONAL else name
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        shown.append(f"{name}: {_annotation(parameter.annotation)}{default}")
    returned = _annotation(signature.return_annotation)
    line = f"{function.__name__}({', '.join(shown)}) -> {returned}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{function.__name__}(", *(f"    {part}," for part in shown), f") -> {returned}"])


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return text.replace(" | App", "")  # a plan made by hand is not part of the public library


def _docstring(documented: Any) -> str:
    """Returns a docstring as Markdown: one sentence per line, a list for each section, a block for the example."""
    out: list[str] = []
    for block in re.split(r"\n\n+", inspect.getdoc(documented) or ""):
        lines = block.splitlines()
        if lines[0].startswith(">>>"):
            out.append("```pycon\n" + "\n".join(lines).replace("<BLANKLINE>", "") + "\n```")
        elif _SECTION.match(lines[0]):
            out.append(f"**{lines[0][:-1]}**\n\n" + "\n".join(_entries(lines[1:])))
        else:
            out.append(_sentences(lines))
    return "\n\n".join(out) + "\n"


def _entries(lines: list[str]) -> list[str]:
    entries: list[tuple[str, list[str]]] = []
    for line in lines:
        entry = _ENTRY.match(line)
        if entry:
            entries.append((entry[1], [entry[2]]))
        else:
            entries[-1][1].append(line.strip())
    return [f"- {_names(names)}: " + _sentences(text).replace("\n", "\n  ") for names, text in entries]


def _names(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def _sentences(lines: list[str]) -> str:
    return _SENTENCE_END.sub("\n", " ".join(line.strip() for line in lines))


def _errors() -> str:
    out = [
        "## Errors\n",
        "Each error also inherits a builtin, so that `except ValueError` and its like work.",
        "All of them can be pickled.\n",
        "| error | inherits | meaning |",
        "|---|---|---|",
    ]
    for name in public_errors():
        error = getattr(kigen, name)
        ours = error.__bases__[0].__name__
        bases = [c.__name__ for c in error.__mro__[1:] if getattr(builtins, c.__name__, None) is c]
        inherited = ours if ours in kigen.__all__ else bases[0]
        meaning = " ".join((inspect.getdoc(error) or "").split(">>>")[0].split())
        out.append(f"| `{name}` | `{inherited}` | {meaning} |")
    examples = [name for name in public_errors() if ">>>" in (inspect.getdoc(getattr(kigen, name)) or "")]
    for name in examples:
        example = (inspect.getdoc(getattr(kigen, name)) or "").partition(">>>")
        out.append(f"\n### {name}\n\n```pycon\n>>>{example[2]}\n```")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
