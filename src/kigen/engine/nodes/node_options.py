"""Options of a node's run, and the secrets by which nodes know each other. Nothing here runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kigen.durable import POWER
from kigen.engine.defaults import EPOCH_S
from kigen.engine.nodes.adoption import Version
from kigen.links import READER, TOKEN, Address, LinkRefused, Security, read_secret, secret_in, write_private
from kigen.placement.cutting import NodePart
from kigen.placement.nodes_file.entries import NodesFile, NodesFileError
from kigen.plan.logical import App
from kigen.spark.defaults import DEFAULT_MEMORY

READER_TOKEN = "reader.token"  # below a node's folder
_COPIED_INLINE_BYTES = 2048  # of a snapshot within the state: more would travel with every batch


@dataclass(frozen=True)
class NodeOptions:
    state: Path
    output: str | None = None
    policy: str | None = None
    duration_s: float | None = None
    memory: str = DEFAULT_MEMORY  # of this node's workers
    follows: Version | None = None  # the version of the placed app; None: the node's app cannot change
    keep_changes_s: float | None = None  # for how long changes are kept for readers over HTTP; None: not at all

    def run_options(self, copied_s: float | None = None, durability: str = POWER) -> dict[str, Any]:
        """`copied_s`: the checkpoint is copied at the end of an epoch, every so many seconds. Snapshots then lie in
        files, which travel once, and nothing names a folder."""
        chosen: dict[str, Any] = {"durability": durability, **({} if self.policy is None else {"policy": self.policy})}
        if copied_s is not None:
            chosen["inline_bytes"] = _COPIED_INLINE_BYTES
            chosen["epoch_s"] = min(EPOCH_S, copied_s / 2)  # a copy is made between two epochs
        output = None if copied_s is not None else self.output
        fixed = {"drain": False, "keep_results": False, "partitions": 1, "keep_changes_s": self.keep_changes_s}
        return {**fixed, "output": output, "duration_s": self.duration_s, "memory": self.memory, **chosen}


def replicated(part: NodePart) -> App:
    """Returns the app as both replicas of a node run it. They drop nothing: each would drop other tuples."""
    queries = tuple(replace(query, firm=False, drop_us=None) for query in part.app.queries)
    return replace(part.app, replicated=True, sharing=False, queries=queries)


def security_of(nodes: NodesFile, name: str | None, state: Path) -> Security:
    """Reads a node's own certificate and key, the shared token, and every node's certificate as a root to trust.

    `name` None: for a process that only asks. Without a token_file the token lies in the state directory, where the
    first node puts it: nodes of one machine find it there.
    """
    folder, entry = Path(nodes.file).parent, None if name is None else nodes.entry(name)
    token = None if nodes.token_file is None else folder / nodes.token_file
    certificate = None if entry is None or entry.certificate is None else folder / entry.certificate
    key = None if entry is None or entry.key is None else folder / entry.key
    trusted = [folder / n.certificate for n in nodes.nodes if n.certificate is not None]
    try:
        own = Security.from_files(token, certificate, key)
        secret = own.token or _own_secret(nodes, name, state)
        return Security(secret, own.certificate, own.key, b"\n".join(file.read_bytes() for file in trusted))
    except LinkRefused as error:
        raise NodesFileError(nodes.file, (f"token_file, key: {error}",)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise NodesFileError(nodes.file, (_unreadable(error, token),)) from error


def _own_secret(nodes: NodesFile, name: str | None, state: Path) -> str:
    """Reads or makes the token of this state directory. Nodes that other machines reach get none: the user must give
    the same token to all of them."""
    if name is None:
        return read_secret(state / TOKEN) if (state / TOKEN).exists() else ""
    alone = all(Address.parse(address).is_loopback for entry in nodes.nodes for address in entry.addresses)
    return secret_in(state) if alone else ""


def reader_token(security: Security, folder: Path) -> str:
    """Writes the token with which the node's own Spark reads its queues to a file; only the name of the file travels
    to workers."""
    file = folder / READER_TOKEN
    folder.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    write_private(file, security.only(READER).token)
    return str(file)


def _unreadable(error: Exception, token: Path | None) -> str:
    if not isinstance(error, OSError):
        return f"token_file: {token} is not text: write 16 characters or more into it"
    if token is not None and str(error.filename) == str(token):
        return (
            f"token_file: {token} cannot be read ({error.strerror}): write 16 characters or more into it, the "
            "same on every machine"
        )
    return f"certificate, key: {error.filename} cannot be read ({error.strerror}): put it there, or write where it is"
