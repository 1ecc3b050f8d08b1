"""Starts a PostgreSQL server of our own, in a temporary directory, on a free port of this machine only."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from kigen_lab.servers.errors import ServerMissing
from kigen_lab.servers.ports import free_ports


class PostgresServer:
    """A server that can be stopped, killed and started again; its data stay."""

    def __init__(self, fsync: bool = False) -> None:
        self._bin, self._fsync = _programs(), fsync
        self.home = Path(tempfile.mkdtemp(prefix="kigen-pg-"))
        self._as: dict[str, Any] = {}
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            nobody = pwd.getpwnam("nobody")
            os.chown(self.home, nobody.pw_uid, nobody.pw_gid)
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            "initdb", "-D", str(self.home / "data"), "-U", "kigen", "-A", "trust", "-N", "--no-locale", "-E", "UTF8"
        )

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [f"{self._bin}/{program}", *arguments],
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
            **self._as,
        )
        assert done.returncode == 0, done.stderr

    @property
    def pid(self) -> int:
        assert self._process is not None, "start first"
        return self._process.pid

    @property
    def url(self) -> str:
        return f"postgresql://kigen@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        settings = [
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            f"port={self.port}",
            "-c",
            f"unix_socket_directories={self.home}",
            "-c",
            f"fsync={'on' if self._fsync else 'off'}",
        ]
        with open(self.home / "log", "ab") as log:
            self._process = subprocess.Popen(
                [f"{self._bin}/postgres", "-D", str(self.home / "data"), *settings],
                cwd=self.home,
                stdout=log,
                stderr=log,
                **self._as,
            )
        until = time.monotonic() + 120
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < until, (self.home / "log").read_text()
                time.sleep(0.05)

    def stop(self) -> None:
        """Ends the server at once, as a crash would; the next start recovers."""
        if self._process is not None:
            self._process.send_signal(3)  # immediate shutdown
            self._process.wait(30)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(query).fetchall()

    def do(self, statement: str) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(statement)


def _programs() -> str:
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")) or [shutil.which("initdb") or ""]
    if not found[-1]:
        raise ServerMissing("a PostgreSQL server is missing: run make setup, or apt-get install postgresql")
    return str(Path(found[-1]).parent)
