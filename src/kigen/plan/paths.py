"""Finds outputs of an app that would overwrite one of its inputs or another output.

Paths are compared as the file system sees them: symbolic links are followed, two names of one file count as one, and an
input that is a directory or a pattern stands for every name that it would read. Files are looked at, but never opened.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kigen.plan.connectors.registry import connector_named
from kigen.plan.dropped_rows import dropped_outputs
from kigen.plan.logical import LINK, App, Connector

_PART = "part-00000.parquet"  # a file in an output directory of parquet
_BAD_NAME = re.compile(r"[/\\\x00-\x1f\x7f]")
_DROPPED = {"shed": "what stream {} sheds", "errors": "the bad rows of stream {}", "late": "the late rows of stream {}"}
_LONGEST_NAME = 200  # bytes: the names of our files are only a little longer


@dataclass(frozen=True)
class Input:
    owner: str
    path: str  # absolute
    suffixes: tuple[str, ...]

    def files(self) -> list[str]:
        """Returns the files that exist now, with links followed."""
        if os.path.isdir(self.path):
            found = [os.path.join(self.path, name) for name in os.listdir(self.path) if self._is_read(name)]
        elif os.path.exists(self.path) or not glob.has_magic(self.path):
            found = [self.path]
        else:
            found = glob.glob(self.path, recursive=True)
        return [os.path.realpath(path) for path in found]

    def would_read(self, file: str) -> bool:
        """Returns whether a file of this (real) name is, or would become, part of the input."""
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
    key: str  # identifies the output within the app, so that an error can point at the text that declares it

    @property
    def real(self) -> str:
        return os.path.realpath(self.path)

    def meets(self, taken: Input) -> bool:
        if not self.is_folder:
            return taken.would_read(self.real)
        below = [*taken.files(), os.path.realpath(taken.path)]
        return any(_within(path, self.real) for path in below) or taken.would_read(os.path.join(self.real, _PART))

    def is_also(self, other: Output) -> bool:
        """Returns whether both write the same path, or one would write a file where the other needs a folder."""
        mine, theirs = self.real, other.real
        if _same(mine, theirs):
            return True
        inside = [(a, b) for a, b in ((self, other), (other, self)) if _within(b.real, a.real)]
        return any(not a.is_folder or os.path.basename(b.real).startswith("part-") for a, b in inside)


def inputs_of(app: App, app_file: str | None = None) -> list[Input]:
    """Returns the files that the app's streams read, and the app file itself if it is given."""
    found: list[Input] = []
    for stream in app.streams:
        spec = connector_named(stream.source.name)
        if spec is not None and spec.suffixes:
            path = _full(app, str(stream.source.option("path")))
            found.append(Input(f"the input of stream {stream.name}", path, spec.suffixes))
    return found if app_file is None else [*found, Input("the app file itself", os.path.abspath(app_file), ("",))]


def outputs_of(app: App, folder: str | None = None, others: Mapping[str, str] | None = None) -> Iterator[Output]:
    """Yields the outputs of the app. `folder` is that of --output; `others` maps the kinds of further files that the
    run writes, such as a report, to their paths."""
    for query in app.queries:
        if query.into is not None and query.into.name != LINK:
            yield from _output(app, query.into, f"the output of query {query.name}", f"query {query.name}")
    for stream in app.streams:
        for _, kind, into, _ in dropped_outputs(stream):
            yield from _output(app, into, _DROPPED[kind].format(stream.name), f"{kind} {stream.name}")
    for query in app.queries:
        if folder is not None and not query.sent:
            path = os.path.join(os.path.abspath(folder), f"{query.name}.csv")
            yield Output(f"--output of query {query.name}", path, False, f"output {query.name}")
    for what, path in (others or {}).items():
        yield Output(what, os.path.abspath(path), False, what)


def _output(app: App, into: Connector, owner: str, key: str) -> Iterator[Output]:
    path, spec = into.option("path"), connector_named(into.name)
    if isinstance(path, str):
        yield Output(owner, _full(app, path), spec is not None and spec.writes_folder, key)


def conflicts(
    app: App, folder: str | None = None, app_file: str | None = None, others: Mapping[str, str] | None = None
) -> list[tuple[Output, str]]:
    """Returns the outputs that conflict with an input or with another output, each with a message."""
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
    """Returns why a name cannot be the name of a file; None if it can."""
    if _BAD_NAME.search(name):
        return "contains a slash or a character that cannot be printed"
    if name in ("", ".", ".."):
        return "is not a name"
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
    """Returns whether a pattern with * ? [..] and ** would find this file. The part before the first wildcard may be a
    link."""
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
