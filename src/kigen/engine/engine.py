"""`kigen.Engine`, which runs apps: the command and users of the library call it."""

from __future__ import annotations

import tempfile
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kigen.engine import defaults
from kigen.engine.apps import read_app
from kigen.engine.errors import ArgumentError
from kigen.engine.functions import RegisteredFunctions
from kigen.engine.options import RunOptions
from kigen.engine.progress import Progress
from kigen.engine.result import RunResult
from kigen.engine.run import Run
from kigen.engine.subscription import Change, Subscription
from kigen.language.expansion import Value
from kigen.plan.logical import App
from kigen.spark.dataframes.batch_frames import write_in_order
from kigen.spark.dataframes.columns import declaration, table_declaration
from kigen.spark.kept_results.source import register
from kigen.spark.session.start import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Engine:
    """Runs apps on a SparkSession: the caller's, or one that the engine starts when it first needs it.

    An engine that started its own session ends it in `close`, or at the end of a `with` block.

    Args:
        spark: The session to use. None: the engine starts one.
        master: Spark's master for the session that the engine starts. None: `local[*]`.

    >>> with kigen.Engine(spark) as engine:
    ...     result = engine.run("rooms.cql", drain=True)
    >>> result.dataframe("hot").select("room", "mean").orderBy("mean").show()
    +-------+----+
    |   room|mean|
    +-------+----+
    | office|19.0|
    |kitchen|20.0|
    |kitchen|22.0|
    |kitchen|24.0|
    +-------+----+
    <BLANKLINE>
    """

    def __init__(self, spark: SparkSession | None = None, master: str | None = None) -> None:
        self._spark, self._master, self._owns_session = spark, master, spark is None
        if spark is not None:
            register(spark)
        self._streams: dict[str, str] = {}  # declarations of the streams that `stream` has added
        self._frames: dict[str, DataFrame] = {}  # of those, the streaming ones
        self._functions = RegisteredFunctions()
        self._run: weakref.ref[Run] | None = None  # the last one that was started; its results live with the caller's
        self._written: tempfile.TemporaryDirectory[str] | None = None  # files of the others

    @property
    def spark(self) -> SparkSession:
        """The session; started now if there is none yet.

        >>> engine.spark.range(3).count()
        3
        """
        if self._spark is None:
            self._spark = start_session(self._master)
            register(self._spark)
        return self._spark

    def stream(self, name: str, frame: DataFrame, timestamp_by: str | None = None, lateness_s: float = 0.0) -> Engine:
        """Makes a DataFrame a stream, which apps of this engine may use without declaring it.

        A streaming DataFrame feeds the stream while a run goes on. A batch DataFrame is written to temporary files in
        the order of `timestamp_by`, by Spark's executors, and can be drained.

        Args:
            name: Name of the stream.
            frame: The DataFrame. Its columns are of type boolean, string, timestamp, or numbers without decimals.
            timestamp_by: The column that holds the time of a row. Required for a batch DataFrame.
            lateness_s: How far, in seconds, a row of a streaming DataFrame may be behind the latest one.

        Raises:
            ArgumentError: A column has a type that CQL lacks, or `timestamp_by` is missing.

        >>> frame = engine.spark.sql("SELECT id AS n, timestamp_seconds(id) AS ts FROM range(5)")
        >>> app = "CREATE QUERY q AS SELECT SUM(n) AS total FROM numbers [ROWS 2]"
        >>> engine.stream("numbers", frame, "ts").run(text=app, drain=True).to_arrow("q")["total"].to_pylist()
        [0, 1, 3, 5, 7]
        """
        if not frame.isStreaming and timestamp_by is None:
            raise ArgumentError(f"stream '{name}': a batch DataFrame needs timestamp_by, the column of a row's time")
        source = "spark (format = 'DataFrame')"
        if not frame.isStreaming:
            self._written = self._written or tempfile.TemporaryDirectory(prefix="kigen-frames-")
            folder = Path(self._written.name) / uuid.uuid4().hex
            source = f"parquet (path = '{folder}')"
        try:
            self._streams[name] = declaration(name, frame, timestamp_by, lateness_s, source)
        except ValueError as error:
            raise ArgumentError(str(error)) from error
        self._frames.pop(name, None)
        if frame.isStreaming:
            self._frames[name] = frame
        else:
            assert timestamp_by is not None
            write_in_order(frame, timestamp_by, folder)
        return self

    def function(
        self, name: str, code: Callable[..., Any], parameters: Sequence[str], returns: str, replace: bool = False
    ) -> Engine:
        """Makes a Python function known, which apps of this engine may then call in expressions.

        Workers call it with one Arrow array per parameter; it returns an Arrow array of the same length. It must be
        deterministic: equal arguments give equal values, row by row, however rows are put together. A NULL argument
        gives NULL without a call. `CREATE FUNCTION` of an app goes before a function of the same name.

        Args:
            name: Name of the function in apps.
            code: The function. It travels to the workers by value, as functions of Spark do.
            parameters: Types of the parameters, such as "DOUBLE".
            returns: Type of the result.
            replace: Replaces a function of this name. Otherwise a second one is an error.

        Raises:
            ArgumentError: The name or a type is not possible.

        >>> import pyarrow.compute as pc
        >>> def fahrenheit(celsius):
        ...     return pc.add(pc.multiply(celsius, 1.8), 32.0)
        >>> app = '''
        ... CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts
        ...   FROM csv (path = 'readings.csv');
        ... CREATE QUERY warm AS SELECT fahrenheit(temp) AS f FROM readings [NOW] WHERE fahrenheit(temp) > 67;
        ... '''
        >>> engine = engine.function("fahrenheit", fahrenheit, ["DOUBLE"], "DOUBLE")
        >>> engine.run(text=app, drain=True).to_arrow("warm")["f"].to_pylist()
        [68.0, 75.2]
        """
        self._functions.add(name, code, parameters, returns, replace)
        return self

    def table(
        self, name: str, frame: DataFrame, key: str | Sequence[str] = (), refresh_s: float | None = None
    ) -> Engine:
        """Makes a batch DataFrame a table, which apps of this engine may join without declaring it.

        Args:
            name: Name of the table.
            frame: The DataFrame. It is computed when a run starts, and its rows pass the driver.
            key: The columns in which no two rows agree.
            refresh_s: Computes it again every so many seconds while a live run goes on.

        Raises:
            ArgumentError: A column has a type that CQL lacks, or the DataFrame is a streaming one.

        >>> rooms = engine.spark.createDataFrame([(0, "cellar"), (1, "kitchen")], "n BIGINT, room STRING")
        >>> frame = engine.spark.sql("SELECT id AS n, timestamp_seconds(id) AS ts FROM range(3)")
        >>> app = "CREATE QUERY q AS SELECT room FROM numbers [NOW] AS s JOIN rooms ON s.n = rooms.n"
        >>> joined = engine.stream("numbers", frame, "ts").table("rooms", rooms, key="n")
        >>> joined.run(text=app, drain=True).to_arrow("q")["room"].to_pylist()
        ['cellar', 'kitchen']
        """
        if frame.isStreaming:
            raise ArgumentError(f"table '{name}' needs a batch DataFrame; a streaming one is a stream: use stream()")
        try:
            keys = (key,) if isinstance(key, str) else tuple(key)
            self._streams[name] = table_declaration(name, frame, keys, refresh_s)
        except ValueError as error:
            raise ArgumentError(str(error)) from error
        self._frames[name] = frame
        return self

    def run(
        self,
        app: str | Path | App | None = None,
        *,
        text: str | None = None,
        base: str | Path | None = None,
        params: Mapping[str, Value] | None = None,
        drain: bool = defaults.DRAIN,
        output: str | Path | None = None,
        checkpoint: str | Path | None = None,
        lifetime: str = defaults.LIFETIME,
        policy: str = defaults.POLICY,
        duration_s: float | None = None,
        memory: str | int = defaults.MEMORY,
        durability: str = defaults.DURABILITY,
        epoch_s: float = defaults.EPOCH_S,
        lanes: int | None = None,
        keep_results: bool = True,
        keep_changes_s: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        progress_every_s: float = defaults.PROGRESS_EVERY_S,
        partitions: int | None = None,
        batch_rows: int | None = None,
        inline_bytes: int | None = None,
        runtime: str = defaults.RUNTIME,
        no_change: bool = False,
        replay_from: str | datetime | None = None,
        allow: Sequence[str] = (),
    ) -> RunResult:
        """Runs an app until its sources end or `duration_s` is over, and returns the result.

        Args:
            app: Path of the app file.
            text: The app itself, instead of a file.
            base: Directory at which relative paths in `text` start. Default: the current directory.
            params: Values of the app's parameters (`$name`), by name.
            drain: Processes all that finite sources hold, in event-time order. A drain drops no tuple.
            output: Directory in which each query also writes `<query>.csv`.
            checkpoint: Directory from which a run that was stopped or killed continues.
            lifetime: How deaths travel: "dt", with the tuple, or "nt", as negative tuples.
            policy: Name of the policy that admits tuples of live streams, with settings after a colon.
            duration_s: Seconds after which the run ends.
            memory: Limit for the memory of all workers: bytes, a size such as "4GB", or a share of the machine.
            durability: What a committed batch survives: "power", a power cut, or "process", a kill of the process.
            epoch_s: Length of an epoch of live streams in seconds. 0: every round is a micro-batch of its own.
            lanes: Number of rounds that run at once. None: one per core.
            keep_results: Keeps results for `RunResult.dataframe` and its like.
            keep_changes_s: Keeps the changes of each query for this many seconds, for `Run.followed`.
            on_progress: Function that is called with a `Progress` now and then.
            progress_every_s: Seconds between two calls of `on_progress`.
            partitions: Number of tasks that run at once. None: one per core.
            batch_rows: Tuples of the first batch of finite sources. None: 500,000.
            inline_bytes: Size up to which a snapshot is part of Spark's state. None: 64 KiB.
            runtime: Class that runs a task, as "module:class". Tests replace it.
            no_change: Refuses a checkpoint of another app. Otherwise a changed app continues from it: unchanged queries
                keep their state, dropped ones end, added ones start from now.
            replay_from: Time from which queries that a change adds see tuples, where the sources keep them.
            allow: What changes over HTTP may name beside what the app names: paths, functions as "module:function",
                and environment variables as "$NAME".

        Raises:
            CqlErrors: The app has errors; `errors` lists them all.
            AppNotFound: There is no such file.
            ArgumentError: An option has a value that is not possible, or not exactly one app was given.
            InputError: An input file is missing, or a row of it is wrong.
            EvaluationError: An expression fails on the data.
            CheckpointMismatch, CheckpointInUse: The checkpoint cannot continue this run, or a run uses it now.
            MemoryLimitReached: The workers would use more than `memory`.
            RunFailed: Spark, or a fault in Kigen, ended the run.

        >>> import pathlib
        >>> app = '''
        ... CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts
        ...   FROM csv (path = 'readings.csv');
        ... CREATE QUERY last AS SELECT room, temp FROM readings [ROWS 1];
        ... '''
        >>> engine.run(text=app, drain=True, output="out").report["queries"]["last"]["out"]
        4
        >>> pathlib.Path("out/last.csv").read_text().splitlines()[0]
        'room,temp,_from,_to'
        """
        options = RunOptions(
            drain=drain,
            output=output,
            checkpoint=checkpoint,
            lifetime=lifetime,
            policy=policy,
            duration_s=duration_s,
            memory=memory,
            durability=durability,
            epoch_s=epoch_s,
            lanes=lanes,
            keep_results=keep_results,
            keep_changes_s=keep_changes_s,
            on_progress=on_progress,
            progress_every_s=progress_every_s,
            partitions=partitions,
            batch_rows=batch_rows,
            inline_bytes=inline_bytes,
            runtime=runtime,
            no_change=no_change,
            replay_from=replay_from,
            allow=allow,
        )
        run = self._begin(self.prepare(app, options, text=text, base=base, params=params))
        try:
            run.await_end()
        finally:
            result = run.stop()
        return result

    def start(
        self,
        app: str | Path | App | None = None,
        *,
        text: str | None = None,
        base: str | Path | None = None,
        params: Mapping[str, Value] | None = None,
        drain: bool = defaults.DRAIN,
        output: str | Path | None = None,
        checkpoint: str | Path | None = None,
        lifetime: str = defaults.LIFETIME,
        policy: str = defaults.POLICY,
        duration_s: float | None = None,
        memory: str | int = defaults.MEMORY,
        durability: str = defaults.DURABILITY,
        epoch_s: float = defaults.EPOCH_S,
        lanes: int | None = None,
        keep_results: bool = True,
        keep_changes_s: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        progress_every_s: float = defaults.PROGRESS_EVERY_S,
        partitions: int | None = None,
        batch_rows: int | None = None,
        inline_bytes: int | None = None,
        runtime: str = defaults.RUNTIME,
        no_change: bool = False,
        replay_from: str | datetime | None = None,
        allow: Sequence[str] = (),
    ) -> Run:
        """Starts a run and returns at once. Arguments and errors are those of `run`.

        The caller waits with `Run.await_end`, and must call `Run.stop`, which returns the result.

        >>> run = engine.start("rooms.cql", drain=True)
        >>> run.await_end()
        True
        >>> run.stop().finished
        True
        """
        options = RunOptions(
            drain=drain,
            output=output,
            checkpoint=checkpoint,
            lifetime=lifetime,
            policy=policy,
            duration_s=duration_s,
            memory=memory,
            durability=durability,
            epoch_s=epoch_s,
            lanes=lanes,
            keep_results=keep_results,
            keep_changes_s=keep_changes_s,
            on_progress=on_progress,
            progress_every_s=progress_every_s,
            partitions=partitions,
            batch_rows=batch_rows,
            inline_bytes=inline_bytes,
            runtime=runtime,
            no_change=no_change,
            replay_from=replay_from,
            allow=allow,
        )
        return self._begin(self.prepare(app, options, text=text, base=base, params=params))

    def current(self, query: str) -> list[Change]:
        """Returns the rows of a query that are true now, in the run that was started last. See `subscribe`.

        >>> run = engine.start("rooms.cql", drain=True, keep_changes_s=60)
        >>> run.await_end(), len(engine.current("hot")) > 0, run.stop().finished
        (True, True, True)
        """
        return self._last_run().current(query)

    def _last_run(self) -> Run:
        run = None if self._run is None else self._run()
        if run is None:
            raise ArgumentError("no run to look at: call Engine.start, and keep the run that it returns")
        return run

    def subscribe(self, query: str) -> Subscription:
        """Iterates the changes of a query of the run that was started last, by `for` or `async for`.

        The rows that are true now come first, as inserts; then each change as it is committed, as a dict of `_op`
        ("insert" or "delete"), `_at` and the columns. The iteration ends with the run.

        Raises:
            ArgumentError: No run was started, it keeps no changes (`keep_changes_s`), or it has no such query.

        >>> run = engine.start("rooms.cql", drain=True, keep_changes_s=60)
        >>> changes = list(engine.subscribe("hot"))
        >>> changes[0]["_op"], sorted(changes[0]), run.stop().finished
        ('insert', ['_at', '_op', 'mean', 'room'], True)
        """
        return self._last_run().subscribe(query)

    def prepare(
        self,
        app: str | Path | App | None = None,
        options: RunOptions | None = None,
        *,
        text: str | None = None,
        base: str | Path | None = None,
        params: Mapping[str, Value] | None = None,
    ) -> Run:
        """Does everything of a run that needs no Spark: reads the app, checks its inputs, takes the checkpoint.

        The caller starts the run with `Run.begin`, and must call `Run.stop`.

        >>> run = engine.prepare("rooms.cql", kigen.RunOptions(drain=True))
        >>> run.stop().finished
        False
        """
        chosen = RunOptions() if options is None else options

        def read(
            app: str | Path | App | None = None,
            *,
            text: str | None = None,
            base: str | Path | None = None,
            params: Mapping[str, Value] | None = None,
        ) -> App:
            streams, functions = "\n".join(self._streams.values()), self._functions.all
            return read_app(
                app, text=text, base=base, output=chosen.output, params=params, streams=streams, functions=functions
            )

        run = Run(read(app, text=text, base=base, params=params), chosen, read=read)
        run.frames = self._frames
        return run

    def _begin(self, run: Run) -> Run:
        self._run = weakref.ref(run)
        try:
            run.begin(self.spark)
        except BaseException:
            run.stop()
            raise
        return run

    def close(self) -> None:
        """Ends the session if the engine started it, and deletes files of DataFrames."""
        if self._written is not None:
            self._written.cleanup()
            self._written = None
        if self._owns_session and self._spark is not None:
            with suppress(Exception):  # its JVM may be dead already
                self._spark.stop()
            self._spark = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
