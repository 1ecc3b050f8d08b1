"""Access control of a server: tokens per role, derived from one secret, and the file that holds the secret.

All nodes of an app share one secret, which never travels. A caller proves its role with a token that is derived from
the secret and valid for that role only (HMAC-SHA-256). So Spark's workers can only read, and `kigen status` can only
ask; neither can trim or fence. Invariant: no server answers a call without a token of a role that may make it, not even
on loopback. A secret file that others can read is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from kigen.links.errors import LinkRefused

SHORTEST_SECRET = 16
TOKEN = "token"  # name of the file in a state directory
_BYTES = 32

STATUS, READER, PRODUCER, NEIGHBOUR, REPLICA, OPERATOR = (
    "status",
    "reader",
    "producer",
    "neighbour",
    "replica",
    "operator",
)
READ, APPEND = "read", "append"  # DoGet and DoPut, besides the actions of `protocol`
_ASKS = frozenset({"hello", "about", "streams", "status"})
_READS = _ASKS | {READ, "open_reader", "ack"}
MAY: dict[str, frozenset[str] | None] = {
    STATUS: _ASKS,
    READER: _READS,
    PRODUCER: _ASKS | {APPEND, "leave", "open_producer", "progress"},
    NEIGHBOUR: _READS | {"require"},  # a node whose replicas agree on the readers whose acks count
    REPLICA: _ASKS | {"copy_news", "copy_list", "copy_pieces", "copy_done"},
    OPERATOR: None,  # everything, including skip and trim
}


def token_of(secret: str, role: str) -> str:
    """Derives the token of a role."""
    return hmac.new(secret.encode(), f"kigen {role}".encode(), hashlib.sha256).hexdigest()


def role_of(secret: str, bearer: str) -> str | None:
    """Returns the role that a caller has proved, or None."""
    role, colon, token = bearer.removeprefix("Bearer ").partition(":")
    if not colon or role not in MAY:
        return None
    return role if hmac.compare_digest(token.encode(), token_of(secret, role).encode()) else None


def require_role(role: str, call: str) -> None:
    """Raises LinkRefused if the role may not make this call."""
    allowed = MAY[role]
    if allowed is not None and call not in allowed:
        able = ", ".join(name for name, calls in MAY.items() if calls is None or call in calls)
        raise LinkRefused(f"the role '{role}' may not call '{call}': a token of {able} is required")


def new_secret() -> str:
    """Returns a new random secret."""
    return secrets.token_hex(_BYTES)


def read_secret(file: Path) -> str:
    """Reads a secret from a file that only its owner can read. Raises LinkRefused or OSError."""
    require_private(file)
    secret = file.read_text(encoding="utf-8").strip()
    if len(secret) < SHORTEST_SECRET:
        raise LinkRefused(f"{file} holds {len(secret)} characters: at least {SHORTEST_SECRET} are required")
    return secret


def secret_in(folder: Path) -> str:
    """Returns the secret of a state directory. Creates it (mode 0600) if needed; concurrent processes get the same
    one.
    """
    file = folder / TOKEN
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{TOKEN}.{os.getpid()}.{secrets.token_hex(4)}"
        write_private(temporary, new_secret())
        try:
            os.link(temporary, file)  # the first process wins
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    return read_secret(file)


def write_private(file: Path, text: str) -> None:
    """Creates a file that nobody else can read at any time."""
    with os.fdopen(
        os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="utf-8"
    ) as out:
        out.write(text + "\n")
        out.flush()
        os.fsync(out.fileno())


def require_private(file: Path) -> None:
    """Raises LinkRefused if others can read or change a secret file."""
    found = file.stat()
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = stat.S_IMODE(found.st_mode)
        raise LinkRefused(
            f"{file} can be read or changed by others (mode {mode:04o}): run chmod 600 {file} and create a new secret"
        )
    if found.st_uid not in (os.getuid(), 0):
        raise LinkRefused(f"{file} belongs to another user (number {found.st_uid}): it must be yours")
