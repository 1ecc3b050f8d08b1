"""The SparkSession that Kigen starts when the user brings none: quiet, and with the settings that make a micro-batch
cheap.

Invariant: nothing of Spark reaches the user's terminal; all of it goes to a log file that is named when Spark itself
fails. Cost: 3-4 s, once a process; 5-8 s without an archive of classes (kigen.spark.session.spark_home).
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext, accumulators
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kigen.durable import open_log
from kigen.links.flight.tokens import require_private
from kigen.spark.session.callback_port import guard_callbacks
from kigen.spark.session.file_system import CLASS_NAME
from kigen.spark.session.spark_home import Home, spark_home

RETAINED_BATCHES = 10  # versions of state, offsets and snapshots that are kept

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.maxResultSize": "0",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "kigen.spark.session.daemon",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",  # rows are few and large: generating code costs more than it saves
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.minBatchesToRetain": str(RETAINED_BATCHES),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",  # a second file for every file
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "kigen-warehouse"),
}
# The JVM passes references on and does little else: compiling it well costs more than it will ever save, at the start
# most of all.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
# Workers make and drop arrays of megabytes all the time: kept by the allocator, they cost no page faults (a third of
# large steps).
WORKER_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
    "MALLOC_ARENA_MAX": "2",
}
SECRET_FILE = "KIGEN_SPARK_SECRET_FILE"
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


_FRAME = re.compile(r"\s|Driver stacktrace:|\.\.\. \d+ more")  # of Java's and Python's stack traces
_FROM_JAVA = "py4j.protocol.Py4JJavaError"
_WRAPPINGS = (
    re.compile(r"^.*terminated with exception: "),
    re.compile(r"^Job aborted due to stage failure: .*most recent failure: Lost task .*?\): "),
    re.compile(r"^Job aborted due to stage failure: "),
    re.compile(r"^([a-z_]\w*\.)+[A-Z][\w$]*(: |$)"),
    re.compile(r"(SQLSTATE: \w+)$"),
)


class SparkUnavailable(RuntimeError):
    """Spark could not be started: ends the run with exit code 1."""


def start_session(master: str | None = None, name: str = "kigen", archive: Path | None = None) -> SparkSession:
    """A session of our own on `master` (default `local[*]`). Raises SparkUnavailable.

    If `archive` is given, the JVM leaves its classes there when it ends.
    """
    master = master or "local[*]"
    settings = dict(_SETTINGS)
    home = None
    if master.startswith("local"):
        home = spark_home()
        if home is not None:
            settings |= {
                "spark.driver.extraClassPath": str(home.jar),
                "spark.hadoop.fs.file.impl": CLASS_NAME,
                "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
            }
        settings |= {
            "spark.driver.memory": f"{_heap_mb()}m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # its own ports, on loopback: with a secret that Spark makes for this session alone
            "spark.authenticate": "true",
            "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS} {_class_data(home, archive)}".rstrip(),
        }
    else:
        # Workers on other machines share neither our environment nor our sockets.
        settings["spark.python.unix.domain.socket.enabled"] = "false"
        settings["spark.executorEnv.PYTHONWARNINGS"] = "ignore"
    conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(name)
    for key, value in settings.items():
        conf.set(key, value)
    if SparkContext._gateway is None:
        _launch(conf, home)
    if not master.startswith("local"):
        for (
            key,
            value,
        ) in _cluster_secret().items():  # after the JVM was started: what it is started with, others can see
            conf.set(key, value)
    try:
        with quiet():
            return SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as error:
        raise SparkUnavailable(f"Spark did not start on '{master}': {gist(error)} (log: {log_path()})") from error


def _cluster_secret() -> dict[str, str]:
    """A cluster that was started with `spark.authenticate` shares a secret; KIGEN_SPARK_SECRET_FILE names the file that
    it lies in."""
    file = os.environ.get(SECRET_FILE)
    if file is None:
        return {}
    try:
        require_private(Path(file))
        return {
            "spark.authenticate": "true",
            "spark.authenticate.secret": Path(file).read_text(encoding="utf-8").strip(),
        }
    except (OSError, ValueError) as error:
        raise SparkUnavailable(f"{SECRET_FILE}: {error}") from error


def _class_data(home: Home | None, archive: Path | None) -> str:
    if archive is not None:
        return f'-XX:ArchiveClassesAtExit="{archive}"'
    return f'-XX:SharedArchiveFile="{home.archive}"' if home is not None and is_ours() and home.archive.exists() else ""


def is_ours() -> bool:
    """Whether Spark starts from our home: not if the user has one, nor if workers are another Python, whose PySpark may
    be another, too."""
    return "SPARK_HOME" not in os.environ and os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable


def _heap_mb() -> int:
    """A quarter of the machine, 1 to 4 GB: all that passes the JVM is references and blocks of results; tuples live in
    the workers."""
    total_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return max(1024, min(4096, total_mb // 4))


def own_settings(spark: SparkSession) -> SparkSession:
    """A session of the same Spark in which our settings hold, so that the user's own session keeps its own."""
    session = spark.newSession()
    for key, value in _SETTINGS.items():
        if key.startswith("spark.sql.") and key != "spark.sql.warehouse.dir":
            session.conf.set(key, value)
    return session


def _launch(conf: SparkConf, home: Home | None) -> None:
    """Start the JVM in a session of its own: Ctrl-C at the terminal must reach this process only, which then stops
    Spark in good order."""
    log = open_log(log_path())  # the JVM holds it as long as it lives
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    for name, value in WORKER_MEMORY.items():
        os.environ.setdefault(name, value)
    before = dict(os.environ)
    os.environ["PYTHONWARNINGS"] = "ignore"
    if home is not None and is_ours():
        os.environ["SPARK_HOME"] = str(home.folder)
    try:
        gateway = launch_gateway(conf, popen_kwargs={"start_new_session": True, "stdout": log, "stderr": log})
    except (PySparkException, OSError) as error:
        raise SparkUnavailable(
            f"Java did not start: Kigen needs Java 17 or later as `java` or in JAVA_HOME (log: {log_path()})"
        ) from error
    finally:
        log.close()
        for name in ("PYTHONWARNINGS", "SPARK_HOME"):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]
    guard_callbacks(gateway)
    SparkContext._ensure_initialized(gateway=gateway)
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = _into_log  # it would print a trace when the JVM is gone


def _into_log(*_: object) -> None:
    logging.getLogger("py4j").warning("Spark's process is gone", exc_info=True)


def sync_files(spark: SparkSession, wanted: bool) -> bool:
    """Whether Spark itself makes the files of checkpoints durable from now on: only our file system class can."""
    if spark.sparkContext.getConf().get("spark.hadoop.fs.file.impl", "") != CLASS_NAME:
        return False
    spark.sparkContext._jvm.java.lang.System.setProperty("kigen.sync", "true" if wanted else "false")
    return wanted


def log_path() -> Path:
    """Where Spark's own words go, for this process."""
    return Path(tempfile.gettempdir()) / f"kigen-spark-{os.getuid()}-{os.getpid()}.log"


def jvm_pid(spark: SparkSession) -> int | None:
    """The process of Spark's driver, where we can know it."""
    try:
        return int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    except Exception:  # a remote or exotic session: the owner file then names this process alone
        return None


@contextmanager
def quiet() -> Iterator[None]:
    """Hide what pyspark says about versions of other libraries: users can do nothing about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def gist(error: Any) -> str:
    """The line that says what happened: of a Python stack trace its last line, else the cause within Spark's words,
    unwrapped."""
    text = str(error).split("=== Streaming Query ===")[0]
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    traces = [place for place, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    plain = [line for line in lines[traces[-1] + 1 if traces else 0 :] if not _FRAME.match(line)]
    if not plain:
        return type(error).__name__
    java = plain[0].startswith(_FROM_JAVA)  # Python called Java, and the reason is Java's
    if traces and not java:
        return plain[0]
    causes = [line.removeprefix("Caused by: ") for line in plain if line.startswith("Caused by: ")]
    innermost_first = list(reversed(causes))
    candidates = (
        [*innermost_first, *(line.removeprefix(": ") for line in plain[1:2])] if java else [plain[0], *innermost_first]
    )
    told = [words for words in map(_unwrapped, candidates) if words]
    return told[0] if told else plain[0]


def _unwrapped(line: str) -> str:
    """Without which query and which of Spark's tasks it was, and the names of Java's classes."""
    for wrapping in _WRAPPINGS:
        line = wrapping.sub("", line)
    return line.strip()
