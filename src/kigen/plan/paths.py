"""Which files an app reads and which it writes, and where the two meet: an output must touch neither an input nor
another output.

Paths are compared as the file system sees them: symbolic links are followed, two names of one file are one, and an
input that is a directory or a pattern counts with every name that it would read. Files are looked at, never opened.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kigen.plan.logical import LINK, App, Connector

SUFFIXES = {"csv": (".csv",), "jsonl": (".jsonl", ".ndjson", ".json"), "parquet": (".parquet",)}
_PART = "part-00000.parquet"  # what a directory of parquet holds
_BAD_NAME = re.compile(r"[/\\\x00-\x1f\x7f]")
_LONGEST_NAME = 200  # bytes: a file name of ours is not much longer


@dataclass(frozen=True)
class Input:
    owner: str
    path: str  # absolute
    suffixes: tuple[str, ...]

    def files(self) -> list[str]:
        """Those that are there now, links followed."""
        if os.path.isdir(self.path):
            found = [os.path.join(self.path, name) for name in os.listdir(self.path) if self._is_read(name)]
        elif os.path.exists(self.path) or not glob.has_magic(self.path):
            found = [self.path]
        else:
            found = glob.glob(self.path, recursive=True)
        return [os.path.realpath(path) for path in found]

    def would_read(self, file: str) -> bool:
        """Whether a file of this (real) name is, or would become, part of the input."""
        if any(_same(file, other) for other in self.files()):
            return True
        if os.path.isdir(self.path):
            return os.path.dirname(file) == os.path.realpath(self.path) and self._is_read(os.path.basename(file))
        return glob.has_magic(self.path) and not os.path.exists(self.path) and _matches(self.path, file)

    def _is_read(self, name: str) -> bool:
        return name.endswith(self.suffixes) and not name.startswith((".", "_"))


@dataclass(frozen=True)
class Output:
    owner: str
    path: str  # absolute
    is_folder: bool
    key: str  # tells one output of an app from another, for whoever knows where it was written

    @property
    def real(self) -> str:
        return os.path.realpath(self.path)

    def meets(self, taken: Input) -> bool:
        if not self.is_folder:
            return taken.would_read(self.real)
        below = [*taken.files(), os.path.realpath(taken.path)]
        return any(_within(path, self.real) for path in below) or taken.would_read(os.path.join(self.real, _PART))

    def is_also(self, other: Output) -> bool:
        """Both write the same, or what one takes for a folder is a file to the other."""
        mine, theirs = self.real, other.real
        if _same(mine, theirs):
            return True
        inside = [(a, b) for a, b in ((self, other), (other, self)) if _within(b.real, a.real)]
        return any(not a.is_folder or os.path.basename(b.real).startswith("part-") for a, b in inside)


def inputs_of(app: App, app_file: str | None = None) -> list[Input]:
    found = [
        Input(
            f"the input of stream {stream.name}",
            _full(app, str(stream.source.option("path"))),
            SUFFIXES[stream.source.name],
        )
        for stream in app.streams
        if stream.source.name in SUFFIXES
    ]
    return found if app_file is None else [*found, Input("the app file itself", os.path.abspath(app_file), ("",))]


def outputs_of(app: App, folder: str | None = None, others: Mapping[str, str] | None = None) -> Iterator[Output]:
    """`folder`: that of --output. `others`: more files that the run writes, such as a report, by what they are."""
    for query in app.queries:
        if query.into is not None and query.into.name != LINK:
            yield from _output(app, query.into, f"the output of query {query.name}", f"query {query.name}")
    for stream in app.streams:
        if stream.shed is not None and stream.shed.into is not None:
            yield from _output(app, stream.shed.into, f"what stream {stream.name} sheds", f"stream {stream.name}")
    for query in app.queries:
        if folder is not None and not query.sent:
            path = os.path.join(os.path.abspath(folder), f"{query.name}.csv")
            yield Output(f"--output of query {query.name}", path, False, f"output {query.name}")
    for what, path in (others or {}).items():
        yield Output(what, os.path.abspath(path), False, what)


def _output(app: App, into: Connector, owner: str, key: str) -> Iterator[Output]:
    path = into.option("path")
    if isinstance(path, str):
        yield Output(owner, _full(app, path), into.name == "parquet", key)


def conflicts(
    app: App, folder: str | None = None, app_file: str | None = None, others: Mapping[str, str] | None = None
) -> list[tuple[Output, str]]:
    """Outputs that cannot be, each with what is wrong with it."""
    taken, before, wrong = inputs_of(app, app_file), list[Output](), list[tuple[Output, str]]()
    for output in outputs_of(app, folder, others):
        met = next((i for i in taken if output.meets(i)), None)
        twin = next((o for o in before if output.is_also(o)), None)
        if met is not None:
            wrong.append((output, f"{output.owner} would overwrite {met.owner}: {output.path}"))
        elif twin is not None:
            wrong.append((output, f"{output.owner} and {twin.owner} are the same: {output.path}"))
        before.append(output)
    return wrong


def bad_name(name: str) -> str | None:
    """What keeps a name from being that of a file; None: nothing does."""
    if _BAD_NAME.search(name):
        return "holds a slash or a character that cannot be printed"
    if name in ("", ".", ".."):
        return "is no name"
    return f"is longer than {_LONGEST_NAME} bytes" if len(name.encode(errors="replace")) > _LONGEST_NAME else None


def _full(app: App, path: str) -> str:
    return os.path.abspath(os.path.join(app.directory, path))


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _matches(pattern: str, file: str) -> bool:
    """Whether a pattern with * ? [..] and ** would find this file. The part before the first of them may be a link."""
    parts = pattern.split("/")
    first = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    wanted = "/".join([os.path.realpath("/".join(parts[:first]) or "/"), *parts[first:]])
    out = ""
    for part in wanted.lstrip("/").split("/"):
        out += "(?:/[^/]+)*" if part == "**" else "/" + _one(part)
    return re.fullmatch(out, file) is not None


def _one(part: str) -> str:
    out, at = "", 0
    while at < len(part):
        letter, end = part[at], part.find("]", at + 2)
        if letter == "[" and end > 0:
            inside = part[at + 1 : end].replace("\\", "\\\\")
            out += f"[{'^' + inside[1:] if inside.startswith('!') else inside}]"
            at = end
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(letter, re.escape(letter))
        at += 1
    return out
