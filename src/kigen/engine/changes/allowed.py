"""Decides what a change that comes from outside may name: functions, files and secrets that the start has allowed.

Statements over HTTP come from whoever has the token. They may name what the running app names already, and what
`--allow` lists. Invariant: no code is looked up and no file is opened for a statement before this has passed it.

| entry of `--allow` | allows |
|---|---|
| `module:function` | CREATE FUNCTION ... AS 'module:function' |
| `$NAME` | options `..._env` with this environment variable |
| anything else | the path, and what is below it |
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kigen.language import CqlErrors, parse_app
from kigen.language.app_text import Source
from kigen.language.declarations import FunctionDecl
from kigen.language.editing import statements_in
from kigen.plan.connectors.option_kinds import PATH
from kigen.plan.connectors.registry import connector_named
from kigen.plan.logical import App, Connector

_FUNCTION = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*")
_HANDED_ON = ("config",)  # goes to the client of a broker as it is: it may name files, or code


class NotAllowed(ValueError):
    """A change names something that the start of the run did not allow."""


@dataclass(frozen=True)
class Allowed:
    """What `--allow` lists."""

    functions: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()

    @staticmethod
    def parse(entries: Sequence[str], base: str | None = None) -> Allowed:
        """Reads the entries. Relative paths start at `base`, or at the current directory."""
        functions = frozenset(one for one in entries if _FUNCTION.fullmatch(one))
        variables = frozenset(one[1:] for one in entries if one.startswith("$"))
        paths = [one for one in entries if one not in functions and not one.startswith("$")]
        return Allowed(
            functions, variables, tuple(os.path.realpath(os.path.join(base or os.getcwd(), one)) for one in paths)
        )

    def check_text(self, text: str, file: str, running: App) -> None:
        """Refuses INCLUDE and unknown functions, before anything of the text is looked up. Raises NotAllowed, or
        CqlErrors if it cannot be parsed."""
        source = Source(text, file)
        for one in statements_in(text):
            if one.kind == "INCLUDE":
                raise NotAllowed(
                    str(source.error(one.name_span, "INCLUDE reads a file here", "send the text of that file instead"))
                )
        found = parse_app(text, file)
        if found.errors:
            raise CqlErrors(found.errors)
        known = {f"{f.module}:{f.attribute}" for f in running.functions} | self.functions
        for statement in found.statements:
            if isinstance(statement, FunctionDecl) and statement.target.text not in known:
                target = statement.target
                hint = f"start the run with --allow {target.text}"
                raise NotAllowed(str(source.error(target.span, f"function {target.text} was not allowed", hint)))

    def check_app(self, app: App, running: App) -> None:
        """Refuses connectors that name a file or a secret that is not allowed. Raises NotAllowed."""
        read = {connector for _, connector, writes in connectors_of(running) if not writes}
        written = {connector for _, connector, writes in connectors_of(running) if writes}
        for owner, connector, writes in connectors_of(app):
            if connector not in (written if writes else read):
                self._check(owner, connector, writes, app.directory)

    def _check(self, owner: str, connector: Connector, writes: bool, directory: str) -> None:
        spec = connector_named(connector.name)
        if spec is None or spec.takes_any_option or spec.package is not None:
            raise NotAllowed(f"{owner}: a connector {connector.name} must be declared when the run starts")
        kinds = {**spec.options, **(spec.into_options if writes else spec.options_in("table"))}
        for key, value in connector.options:
            if key in _HANDED_ON:
                raise NotAllowed(f"{owner}: option {key} of {connector.name} must be declared when the run starts")
            if key.endswith("_env") and str(value) not in self.variables:
                raise NotAllowed(
                    f"{owner}: the environment variable {value} was not allowed: start the run with --allow '${value}'"
                )
            if kinds.get(key) is PATH and not self.allows_path(str(value), directory):
                raise NotAllowed(f"{owner}: the path '{value}' was not allowed: start the run with --allow PATH")

    def allows_path(self, path: str, directory: str) -> bool:
        """Whether a path, or every path that a pattern matches, lies at or below an allowed one."""
        fixed = re.split(r"[*?\[]", path, maxsplit=1)[0]
        whole = path if fixed == path else os.path.dirname(fixed)
        if "://" in path or ".." in path[len(fixed) :].split("/"):
            return False
        try:
            real = os.path.realpath(os.path.join(directory, whole))
        except ValueError:  # no file can have this name: a zero character, or half of a surrogate pair
            return False
        return any(real == one or real.startswith(one.rstrip("/") + "/") for one in self.paths)


def connectors_of(app: App) -> Iterator[tuple[str, Connector, bool]]:
    """Yields the connectors of an app: who declares it, the connector, and whether it writes."""
    for stream in app.streams:
        owner = f"stream '{stream.name}'"
        yield owner, stream.source, False
        shed = None if stream.shed is None else stream.shed.into
        for into in (shed, stream.error_into, stream.late_into):
            if into is not None:
                yield owner, into, True
    for query in app.queries:
        owner = f"query '{query.name}'"
        if query.into is not None:
            yield owner, query.into, True
