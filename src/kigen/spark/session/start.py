"""Starts the SparkSession that Kigen uses when the user brings none: quiet, and with settings for cheap micro-batches.

Invariant: no output of Spark reaches the user's terminal. All of it goes to a log file, which error messages name when
Spark itself fails. Cost: 3-4 s once per process, or 5-8 s without a class archive (kigen.spark.session.spark_home).
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark import SparkConf, SparkContext, accumulators
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kigen.durable import open_log
from kigen.links.flight.tokens import require_private
from kigen.spark.session.callback_port import guard_callbacks
from kigen.spark.session.error_cause import error_cause
from kigen.spark.session.file_system import CLASS_NAME
from kigen.spark.session.masters import slots_of, with_extra_slots
from kigen.spark.session.spark_home import SparkHome, spark_home

RETAINED_BATCHES = 10  # number of versions of state, offsets and snapshots that are kept

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.maxResultSize": "0",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "kigen.spark.session.daemon",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",  # few, large rows: generating code costs more than it saves
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.minBatchesToRetain": str(RETAINED_BATCHES),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",  # would write a second file for every file
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "kigen-warehouse"),
}
# The JVM does little more than pass references on: optimising compilation costs more than it saves, most of all at the
# start.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
# Workers allocate and free arrays of megabytes all the time. If the allocator keeps them, they cause no page faults,
# which took a third of the time of large steps.
WORKER_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
    "MALLOC_ARENA_MAX": "2",
}
SECRET_FILE = "KIGEN_SPARK_SECRET_FILE"
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


class SparkUnavailable(RuntimeError):
    """Spark could not be started. Ends the run with exit code 1."""


def _close_gateway() -> None:
    """Ends the threads of a JVM that Kigen launched. While they live, DuckDB reports leaks when the process ends."""
    gateway = SparkContext._gateway
    if gateway is not None:
        with suppress(Exception):  # the JVM may be gone
            gateway.shutdown()


def start_session(master: str | None = None, name: str = "kigen", archive: Path | None = None) -> SparkSession:
    """Starts a session on `master` (default `local[*]`). Raises SparkUnavailable.

    If `archive` is given, the JVM writes its class archive there when it ends.
    """
    master = master or "local[*]"
    cores, master = slots_of(master), with_extra_slots(master)
    settings = dict(_SETTINGS)
    home = None
    if master.startswith("local"):
        settings["spark.default.parallelism"] = str(cores or 1)
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
            # Spark's ports are on loopback. They require a secret that Spark creates for this session alone.
            "spark.authenticate": "true",
            "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS} {_class_data(home, archive)}".rstrip(),
        }
    else:
        # Workers on other machines share neither this process's environment nor its sockets.
        settings["spark.python.unix.domain.socket.enabled"] = "false"
        settings["spark.executorEnv.PYTHONWARNINGS"] = "ignore"
    conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(name)
    for key, value in settings.items():
        conf.set(key, value)
    if SparkContext._gateway is None:
        _launch(conf, home)
        atexit.register(_close_gateway)
    if not master.startswith("local"):
        # Only after the JVM has started: other users can see its command line.
        for key, value in _cluster_secret().items():
            conf.set(key, value)
    try:
        with quiet():
            return SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as error:
        raise SparkUnavailable(
            f"Spark did not start on '{master}': {error_cause(error)} (log: {log_path()})"
        ) from error


def _cluster_secret() -> dict[str, str]:
    """Reads the secret of a cluster that uses `spark.authenticate` from the file that KIGEN_SPARK_SECRET_FILE names."""
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


def _class_data(home: SparkHome | None, archive: Path | None) -> str:
    if archive is not None:
        return f'-XX:ArchiveClassesAtExit="{archive}"'
    return (
        f'-XX:SharedArchiveFile="{home.archive}"'
        if home is not None and uses_kigen_home() and home.archive.exists()
        else ""
    )


def uses_kigen_home() -> bool:
    """Checks whether Spark starts from Kigen's home.

    It does not if the user has set SPARK_HOME, or if workers run another Python, whose PySpark may differ.
    """
    return "SPARK_HOME" not in os.environ and os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable


def _heap_mb() -> int:
    """Returns a quarter of the machine's memory, 1 to 4 GB.

    Only references and blocks of results pass through the JVM. Tuples stay in the workers.
    """
    total_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return max(1024, min(4096, total_mb // 4))


def own_settings(spark: SparkSession) -> SparkSession:
    """Creates a session of the same Spark with Kigen's settings, so that the user's own session keeps its settings."""
    session = spark.newSession()
    for key, value in _SETTINGS.items():
        if key.startswith("spark.sql.") and key != "spark.sql.warehouse.dir":
            session.conf.set(key, value)
    return session


def _launch(conf: SparkConf, home: SparkHome | None) -> None:
    """Starts the JVM in its own process session.

    Ctrl-C at the terminal must reach only this process, which then stops Spark in an orderly way.
    """
    log = open_log(log_path())  # the JVM keeps it open until it ends
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    for name, value in WORKER_MEMORY.items():
        os.environ.setdefault(name, value)
    before = dict(os.environ)
    os.environ["PYTHONWARNINGS"] = "ignore"
    if home is not None and uses_kigen_home():
        os.environ["SPARK_HOME"] = str(home.folder)
    try:
        options = {"start_new_session": True, "stdout": log, "stderr": log}
        gateway = launch_gateway(conf, popen_kwargs=options)  # type: ignore[no-untyped-call]
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
        setattr(server, "handle_error", _log_error)  # noqa: B010 - the default prints a stack trace when the JVM is gone


def _log_error(*_: object) -> None:
    logging.getLogger("py4j").warning("Spark's process is gone", exc_info=True)


def sync_files(spark: SparkSession, wanted: bool) -> bool:
    """Sets whether Spark itself syncs the files of checkpoints. Returns whether it does.

    Only Kigen's file system class can do it.
    """
    if spark.sparkContext.getConf().get("spark.hadoop.fs.file.impl", "") != CLASS_NAME:
        return False
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    jvm.java.lang.System.setProperty("kigen.sync", "true" if wanted else "false")
    return wanted


def log_path() -> Path:
    """Returns the file that receives the output of Spark in this process."""
    return Path(tempfile.gettempdir()) / f"kigen-spark-{os.getuid()}-{os.getpid()}.log"


def jvm_pid(spark: SparkSession) -> int | None:
    """Returns the process id of Spark's driver, or None if it is unknown."""
    try:
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        return int(jvm.java.lang.ProcessHandle.current().pid())
    except Exception:  # a remote or exotic session: the owner file then names this process alone
        return None


@contextmanager
def quiet() -> Iterator[None]:
    """Hides pyspark's warnings about versions of other libraries: users can do nothing about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
