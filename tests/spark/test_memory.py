"""Memory sizes and limits, and the messages about memory and dead workers, without Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kigen.engine.errors import ArgumentError
from kigen.engine.options import RunOptions
from kigen.lifetimes.accounting import Holding, Part
from kigen.spark.operator import error_codec
from kigen.spark.session.error_cause import error_cause
from kigen.spark.watch import memory_text, worker_deaths
from kigen.spark.watch.memory import (
    MemoryLimitReached,
    SizeError,
    limit_bytes,
    machine_bytes,
    private_bytes,
    process_start,
    return_freed_memory,
    size_text,
)
from kigen.spark.watch.worker_files import COMPUTING, IDLE, WorkerFiles, WorkerReport

GB = 10**9
JOIN = Holding(
    "join on auction = id",
    ("q15",),
    6_000_009,
    3_600_000_000,
    (Part("bid [UNBOUNDED]", 6_000_009, 3_600_000_000, True, True),),
)
GROUPS = Holding(
    "aggregate count by auction",
    ("a", "b"),
    120_345,
    20_000_000,
    (Part("GROUP BY auction: 120,345 groups", 120_345, 20_000_000, True),),
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GB", 4 * GB),
        ("512MB", 512_000_000),
        ("1.5 gb", 1_500_000_000),
        ("512MiB", 512 << 20),
        ("4g", 4 << 30),
        ("300000000", 300_000_000),
        ("70%", 7 * GB),
        ("100%", 10 * GB),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert limit_bytes(text, 10 * GB) == size


@pytest.mark.parametrize("text", ["", "much", "4 parsecs", "-1GB", "0%", "101%", "10MB", "4GB extra"])
def test_sizes_that_cannot_be_are_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(SizeError, match=r"write"):
        limit_bytes(text, 10 * GB)
    with pytest.raises(ArgumentError, match="memory"):
        RunOptions(memory=text)


def test_a_number_of_bytes_is_a_size_too() -> None:
    assert limit_bytes(2 * GB) == 2 * GB
    assert RunOptions(memory=2 * GB).memory == 2 * GB


@pytest.mark.parametrize(
    ("size", "text"), [(11_240_000_000, "11.2 GB"), (4 * GB, "4 GB"), (512_000_000, "512 MB"), (999, "999 bytes")]
)
def test_sizes_are_shown_in_the_unit_that_suits_them(size: int, text: str) -> None:
    assert size_text(size) == text


def machine(root: Path, groups: str, limits: dict[str, str]) -> int:
    for path, text in {
        "proc/meminfo": "MemTotal: 16000000 kB\nHugePages_Total: 0\n",
        "proc/self/cgroup": groups,
        **limits,
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="ascii")
    return machine_bytes(root)


def test_a_control_group_makes_the_machine_smaller(tmp_path: Path) -> None:
    assert machine(tmp_path / "none", "0::/\n", {}) == 16_000_000 << 10
    inner = {"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "2000000000\n"}
    assert machine(tmp_path / "two", "0::/a/b\n", inner) == 2 * GB
    old = {"sys/fs/cgroup/memory/docker/memory.limit_in_bytes": "3000000000\n"}
    assert machine(tmp_path / "one", "5:memory:/docker\n4:cpu:/x\n", old) == 3 * GB


def test_private_memory_is_what_a_process_has_of_its_own() -> None:
    before = private_bytes()
    taken = bytearray(os.urandom(1 << 20) * 64)
    assert private_bytes() - before == pytest.approx(64 << 20, rel=0.2)
    del taken
    return_freed_memory()
    assert private_bytes() < before + (32 << 20)
    assert private_bytes(2**22 + 1) == 0


def test_a_process_is_known_by_its_start_and_not_by_its_number_alone() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    began = process_start(process.pid)
    assert began > 0
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process_start(process.pid) == 0, "dead, though nobody has asked yet"
    process.communicate()


def test_the_error_names_query_operator_tuples_bytes_window_and_what_to_do() -> None:
    text = memory_text.limit_reached(4_100_000_000, 4 * GB, [GROUPS, JOIN])
    assert text.startswith("query q15 ran out of memory: the workers of the run use 4.1 GB, and --memory allows 4 GB; ")
    assert "join on auction = id holds 6,000,009 tuples in 3.6 GB, most of it bid [UNBOUNDED]" in text
    assert "a smaller window" in text
    assert "--memory" in text
    assert isinstance(error_codec.from_text(error_codec.to_text(MemoryLimitReached(text))), MemoryLimitReached)


def test_what_is_no_state_is_the_fault_of_the_operator_at_work() -> None:
    text = memory_text.limit_reached(4_100_000_000, 4 * GB, [GROUPS], ("cross join", ["q19"]))
    assert text.startswith("query q19 ran out of memory")
    assert "about 4.1 GB of it is not state, but Python itself and the work of one batch (cross join)" in text
    assert "aggregate count by auction holds 120,345 tuples" in text
    assert memory_text.limit_reached(4_100_000_000, 4 * GB, [JOIN], ("cross join", ["q19"])).startswith("query q15")


def test_the_warning_names_those_that_hold_most() -> None:
    text = memory_text.warning(3_300_000_000, 4 * GB, [GROUPS, JOIN])
    assert text.startswith("memory: 3.3 GB of 4 GB in use (82%); query q15: join on auction = id holds")
    assert "aggregate" not in text
    assert memory_text.names_of(list("abcde")) == "queries a, b, c and 2 more"


def report(**changes: object) -> WorkerReport:
    told = {
        "phase": COMPUTING,
        "operator": "join on auction = id",
        "serves": ["q15"],
        "private": 11_200_000_000,
        "since_us": 1,
    }
    return WorkerReport("task0", 7, ["q15", "q16"], **{"pid": 4_194_305, "started": 1, **told, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "private", "words"),
    [
        (
            -9,
            11_200_000_000,
            "of query q15 was killed by the system (SIGKILL) while it was at work (join on auction = id): it "
            "probably ran out",
        ),
        (-9, 200_000_000, "of query q15 was killed (SIGKILL) while"),
        (-11, 200_000_000, "crashed (SIGSEGV)"),
        (3, 200_000_000, "ended by itself with code 3"),
        (None, 200_000_000, "died while it was at work"),
    ],
)
def test_a_dead_worker_is_named_with_its_reason(tmp_path: Path, code: int | None, private: int, words: str) -> None:
    text = worker_deaths.death_text(report(private=private), code, tmp_path / "log", 12 * GB, False)
    assert words in text
    assert f"{size_text(private)} of 12 GB" in text
    assert text.endswith(f"Spark's log: {tmp_path / 'log'}")


def test_how_a_worker_ended_stands_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        f"noise\n{worker_deaths.exit_line(77, 0)}\n{worker_deaths.exit_line(4_194_305, -9)}\nmore\n", encoding="utf-8"
    )
    assert worker_deaths.exit_code(4_194_305, log) == -9
    assert worker_deaths.exit_code(7, log, wait_s=0) is None
    told = worker_deaths.describe_death(
        [report(), report(pid=os.getpid(), started=process_start(os.getpid()))], log, 12 * GB, for_memory=True
    )
    assert told is not None
    assert "SIGKILL" in told
    assert (
        worker_deaths.describe_death(
            [report(pid=os.getpid(), started=process_start(os.getpid()))], log, 12 * GB, for_memory=False
        )
        is None
    )


def test_kills_for_memory_are_counted_by_the_system(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "vmstat").write_text("pgfault 12\noom_kill 3\n", encoding="ascii")
    assert worker_deaths.memory_kills(tmp_path) == 3
    assert worker_deaths.memory_kills(tmp_path / "nowhere") == 0


def test_crumbs_are_read_back_with_the_operator_at_work(tmp_path: Path) -> None:
    there = WorkerFiles(str(tmp_path))
    assert there.register_worker()
    left = report(
        phase=IDLE, pid=os.getpid(), started=process_start(os.getpid()), operators=[("scan", ["a"]), ("join", ["b"])]
    )
    operator_file = there.open_operator_file(left)
    there.write_report(left)
    there.write_operator(operator_file, 1)
    (found,) = WorkerFiles(str(tmp_path)).reports()
    assert found.alive
    assert found.doing == (IDLE, ["q15", "q16"])
    left.phase = COMPUTING
    there.write_report(left)
    (found,) = WorkerFiles(str(tmp_path)).reports()
    assert found.doing == ("join", ["b"])
    operator_file.close()
    assert WorkerFiles(str(tmp_path)).worker_memory()[os.getpid()] == pytest.approx(private_bytes(), rel=0.2)
    assert not WorkerFiles(str(tmp_path / "elsewhere")).register_worker()


CRASHED = """[STREAM_FAILED] Query [id = a1, runId = b2] terminated with exception: Job aborted due to stage failure: Task 0 in stage 5.0 \
failed 1 times, most recent failure: Lost task 0.0 in stage 5.0 (TID 5) (localhost executor driver): org.apache.spark.SparkException: \
Python worker exited unexpectedly (crashed)
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.x(PythonRunner.scala:742)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:398)
\t... 27 more

Driver stacktrace: SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = a1]"""
RAISED = """An exception occurred: Traceback (most recent call last):
  File "x.py", line 3, in f
    g()
ValueError: the state format is another

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
\t... 34 more
"""
CALLED_JAVA = """An exception occurred: Traceback (most recent call last):
  File "sink.py", line 104, in __call__
    rows = frame.toArrow().to_pylist()
py4j.protocol.Py4JJavaError: An error occurred while calling o2645.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:{}
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
{}
\t... 34 more
"""
FULL = """Caused by: org.apache.spark.SparkException: [CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT] Error writing. SQLSTATE: 58030
\tat x.Y
Caused by: java.io.IOException: No space left on device"""


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        (CALLED_JAVA.format("", FULL), "No space left on device"),
        (CALLED_JAVA.format(" it was late", ""), "Exception thrown in awaitResult: it was late"),
        (CRASHED, "Python worker exited unexpectedly (crashed)"),
        (RAISED, "ValueError: the state format is another"),
        ("java.net.ConnectException: refused", "refused"),
        ("plain words", "plain words"),
        (
            "org.apache.spark.SparkException\n\tat x.Y\nCaused by: java.io.IOException: No space left on "
            "device\n\t... 3 more",
            "No space left on device",
        ),
    ],
)
def test_the_gist_is_the_cause(told: str, cause: str) -> None:
    assert error_cause(told) == cause
    assert worker_deaths.is_worker_death(CRASHED)


def test_signals_have_names() -> None:
    assert "SIGABRT" in worker_deaths.death_text(report(), -signal.SIGABRT, Path("log"), 12 * GB, False)
