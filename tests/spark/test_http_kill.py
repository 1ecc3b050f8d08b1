"""Batches over HTTP to a run that is killed and started again: nothing lost, nothing twice."""

from __future__ import annotations

import contextlib
import csv
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from kills import jvm_of

APP = """CREATE STREAM posted (n BIGINT) FROM http ();
CREATE QUERY seen AS ISTREAM(SELECT n FROM posted [NOW]);
CREATE QUERY total DEADLINE 2 SECONDS AS SELECT COUNT(*) AS n FROM posted [RANGE 2 SECONDS];
"""
_ROWS = 20  # per batch
_KILLS = 10


class Served:
    """A command that serves, started again after each kill."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.checkpoint = folder, folder / "ck"
        (folder / "app.cql").write_text(APP, encoding="utf-8")
        self.process: subprocess.Popen[bytes] | None = None
        self.errors = folder / "errors.txt"
        self.url = ""

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "kigen.cli.main",
            "run",
            "--serve",
            "127.0.0.1:0",
            str(self.folder / "app.cql"),
        ]
        command += ["--output", str(self.folder / "out"), "--checkpoint", str(self.checkpoint)]
        with self.errors.open("w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)
        until = time.monotonic() + 200
        while not (found := re.search(r"serving (http://\S+) \(token: (\S+)\)", self.errors.read_text())):
            assert self.process.poll() is None, self.errors.read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        self.url, self.token = found[1], Path(found[2]).read_text().strip()

    def kill(self) -> None:
        assert self.process is not None
        if self.process.poll() is not None:
            return
        jvm = jvm_of(self.checkpoint)
        self.process.kill()
        self.process.wait()
        if jvm is not None:
            with contextlib.suppress(ProcessLookupError):  # it ended with the command
                os.kill(jvm, signal.SIGKILL)

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(200)


class Sender(threading.Thread):
    """Posts numbered batches and repeats each one until it is acknowledged."""

    def __init__(self, served: Served) -> None:
        super().__init__(daemon=True)
        self.served, self.acknowledged, self.repeated = served, 0, 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.is_set():
            first = self.acknowledged * _ROWS
            body = "".join(f'{{"n": {n}}}\n' for n in range(first, first + _ROWS))
            try:
                answer = httpx.post(
                    f"{self.served.url}/streams/posted",
                    content=body,
                    headers={
                        "Authorization": f"Bearer {self.served.token}",
                        "Content-Type": "application/x-ndjson",
                        "Idempotency-Key": f"batch {self.acknowledged}",
                    },
                    timeout=60,
                )
            except httpx.HTTPError:
                time.sleep(0.05)
                continue
            if answer.status_code == 200:
                self.acknowledged += 1
                self.repeated += answer.json()["repeated"]
                time.sleep(0.01)
            else:
                assert answer.status_code in (429, 503), answer.text
                time.sleep(0.1)


def seen(folder: Path) -> list[int]:
    path = folder / "out" / "seen.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [int(row["n"]) for row in csv.DictReader(file)]


@pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="make soak; test_live_change_kill is its short form")
@pytest.mark.timeout(0)
def test_posted_batches_survive_kills_once(tmp_path: Path) -> None:
    rng = random.Random(18)
    served = Served(tmp_path)
    try:
        served.start()
        sender = Sender(served)
        sender.start()
        for _ in range(_KILLS):
            goal, until = len(seen(tmp_path)) + rng.randrange(1, 500), time.monotonic() + 200
            while len(seen(tmp_path)) < goal:
                assert time.monotonic() < until, served.errors.read_text()
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 1.0))
            served.kill()
            served.start()
        before, until = sender.acknowledged, time.monotonic() + 200
        while sender.acknowledged < before + 5:  # the last one, too, takes batches
            assert time.monotonic() < until, served.errors.read_text()
            time.sleep(0.02)
        sender.done.set()
        sender.join()
        sent = sender.acknowledged * _ROWS
        until = time.monotonic() + 200
        while len(seen(tmp_path)) < sent:
            assert time.monotonic() < until, f"{len(seen(tmp_path))} of {sent}: {served.errors.read_text()}"
            time.sleep(0.1)
        assert served.stop() == 0, served.errors.read_text()
    finally:
        served.kill()
    found = seen(tmp_path)
    assert sorted(found) == list(range(len(found))), "every tuple once"
    assert sent <= len(found) <= sent + _ROWS, "at most one batch more, whose answer was lost"
