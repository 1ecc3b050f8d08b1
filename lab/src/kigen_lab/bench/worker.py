"""Runs a contestant in its own process with its own Spark, so that settings of one side do not affect the other.

Requests and answers are lines of JSON on the worker's standard input and output. What Spark or a library prints goes to
a log next to the results. The process starts once, so no measurement includes the start of Spark. It ends when its
input ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

Answer = dict[str, Any]
Handler = Callable[[dict[str, Any]], Answer]


class ContestantFailed(RuntimeError):
    """A contestant could not do what it was asked to. Ends the benchmark with exit code 1."""


class Contestant:
    """A worker process. `module` is run with `python -m` and answers requests with `serve`."""

    def __init__(self, module: str, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.name, self._log = module.rpartition(".")[2], log
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONWARNINGS": "ignore",
        }
        with open(log, "ab") as target:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=target,
                env=environment,
                start_new_session=True,  # Ctrl-C reaches only the benchmark, which then ends its contestants
            )

    def ask(self, **request: Any) -> Answer:
        """Sends a request and returns its answer. Raises ContestantFailed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ContestantFailed(f"{self.name} ended with exit code {self._process.wait()} (log: {self._log})")
        answer: Answer = json.loads(line)
        if "error" in answer:
            raise ContestantFailed(f"{self.name}: {answer['error']} (log: {self._log})")
        return answer

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(handlers: dict[str, Handler], end: Callable[[], None]) -> None:
    """Answers requests `{"do": name, ...}` until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # other output must not look like an answer
    try:
        for line in sys.stdin:
            request = json.loads(line)
            try:
                answer = handlers[request.pop("do")](request)
            except Exception as error:
                traceback.print_exc()
                answer = {
                    "error": f"{type(error).__name__}: "
                    f"{str(error).strip().splitlines()[0] if str(error).strip() else ''}"
                }
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    finally:
        end()
    answers.flush()
    os._exit(0)  # DuckDB's bindings would complain about objects that Spark's threads hold
