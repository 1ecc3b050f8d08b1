"""Keeps the secret for hashing the keys of rows: made once per checkpoint, readable only by its owner.

It is part of the checkpoint because rows may come out in the order of their keys, and a replayed batch must give the
same order.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from kigen.durable import DamagedFile, move, sync_directory
from kigen.links import write_private

_FILE = "keys.secret"


def key_secret(checkpoint: Path, sync: bool) -> int:
    """Returns the secret of the checkpoint, a number of 64 bits; creates it if there is none yet."""
    file = checkpoint / _FILE
    if not file.exists():
        fresh = checkpoint / f"{_FILE}.{os.getpid()}"
        fresh.unlink(missing_ok=True)
        write_private(fresh, f"{secrets.randbits(64):016x}")
        move(fresh, file, sync)
        if sync:
            sync_directory(checkpoint)
    try:
        return int(file.read_text(encoding="ascii"), 16)
    except ValueError as error:
        todo = "Restore it from a backup, or start from the beginning with another --checkpoint directory"
        raise DamagedFile(str(file), "it does not hold a secret", todo) from error


def run_name(secret: int) -> str:
    """Returns a name for all runs on the checkpoint, which may be shown: the secret cannot be computed from it."""
    return hashlib.blake2b(secret.to_bytes(8, "little"), digest_size=8, person=b"kigen run").hexdigest()
