"""How a node is to be run, and by what it and others know each other. Nothing here runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kigen.links import Security
from kigen.placement.cutting import Part
from kigen.placement.nodes_file import NodesFile, NodesFileError
from kigen.plan.nodes import App

_COPIED_INLINE_BYTES = 2048  # of a snapshot within the state: more would travel with every batch


@dataclass(frozen=True)
class NodeOptions:
    state: Path
    output: str | None = None
    policy: str | None = None
    duration_s: float | None = None

    def run_options(self, copied: bool = False) -> dict[str, Any]:
        """`copied`: the checkpoint is copied again and again. Snapshots lie in files then, which travel once; nothing names a folder."""
        chosen: dict[str, Any] = {} if self.policy is None else {"policy": self.policy}
        if copied:
            chosen["inline_bytes"] = _COPIED_INLINE_BYTES
        output = None if copied else self.output
        return {"drain": False, "output": output, "duration_s": self.duration_s, "keep_results": False, "partitions": 1, **chosen}


def replicated(part: Part) -> App:
    """As both replicas of a node run it."""
    return replace(part.app, replicated=True, sharing=False)


def security_of(nodes: NodesFile, name: str | None) -> Security:
    """A node's own certificate and key (None: of one who only asks), the shared token, and every node's certificate as a root to trust."""
    folder, entry = Path(nodes.file).parent, None if name is None else nodes.entry(name)
    token = None if nodes.token_file is None else folder / nodes.token_file
    certificate = None if entry is None or entry.certificate is None else folder / entry.certificate
    key = None if entry is None or entry.key is None else folder / entry.key
    trusted = [folder / n.certificate for n in nodes.nodes if n.certificate is not None]
    try:
        own = Security.from_files(token, certificate, key)
        return Security(own.token, own.certificate, own.key, b"\n".join(file.read_bytes() for file in trusted))
    except (OSError, UnicodeDecodeError) as error:
        raise NodesFileError(nodes.file, (_unreadable(error, token),)) from error


def _unreadable(error: Exception, token: Path | None) -> str:
    if not isinstance(error, OSError):
        return f"token_file: {token} is not text: write 16 characters or more into it"
    if token is not None and str(error.filename) == str(token):
        return f"token_file: {token} cannot be read ({error.strerror}): write 16 characters or more into it, the same on every machine"
    return f"certificate, key: {error.filename} cannot be read ({error.strerror}): put it there, or write where it is"
