"""Checks the benchmark of joins without Spark: its data, its judge, the sums of memory, and the figures."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kigen_lab.bench.joins.app import BY_QUERY, QUERIES, bid_time, bids_table, kernel_table, make_data, side_table
from kigen_lab.bench.joins.benchmark import (
    JoinsBench,
    JoinsSettings,
    QueryCell,
    figures_of,
    joins_settings,
    marginal_rate,
    result_of,
)
from kigen_lab.bench.joins.command import CommandRun
from kigen_lab.bench.joins.judge import Judge, lines_of_csv, same_rows, sample_instants
from kigen_lab.bench.joins.kernel import make_kernel, run_query
from kigen_lab.bench.joins.report import draw_joins, joins_tables
from kigen_lab.bench.joins.versions import flatness, growth, run_versions, summary
from kigen_lab.bench.process_memory import MemoryWatch, Process, Usage, usage_of
from rich.console import Console

from kigen.lifetimes import StreamInput

MACHINE = {"cores": 2, "processor": "p", "memory_gb": 8.0, "load_before": 0.1, "date": "today"}


def cell(lifetime: str, versions: int, us: float) -> dict[str, Any]:
    return {
        "lifetime": lifetime,
        "versions": versions,
        "join_us": us,
        "kernel_us": 2 * us,
        "pairs_formed_per_version": 1.0,
    }


def test_marginal_rate_leaves_the_start_out() -> None:
    assert marginal_rate([(200_000, 11.0), (2_000_000, 20.0)]) == 200_000
    assert marginal_rate([(2_000_000, 20.0), (200_000, 11.0)]) == 200_000
    assert marginal_rate([(200_000, 11.0)]) is None
    assert marginal_rate([(200_000, 11.0), (2_000_000, 10.0)]) is None


def test_flatness_is_of_the_most_versions() -> None:
    cells = [
        cell("dt", 1_000, 2.0),
        cell("dt", 10_000, 0.5),
        cell("dt", 100_000, 1.0),
        cell("nt", 1_000, 1.0),
        cell("nt", 100_000, 3.0),
    ]
    assert flatness(cells) == {"dt": 0.5, "nt": 3.0}
    assert growth(cells) == {"dt": 2.0, "nt": 3.0}
    assert flatness(cells, "kernel_us") == flatness(cells)


@pytest.mark.parametrize("lifetime", ["dt", "nt"])
def test_versions_meet_one_or_two(lifetime: str) -> None:
    run = summary(700, lifetime, [run_versions(700, lifetime)])
    assert run["rows"] == 2 * 700 - 1
    assert run["pairs_formed_per_version"] < 4
    assert 0 < run["join_us"] < run["kernel_us"]


def test_bids_do_not_depend_on_how_they_are_cut(tmp_path: Path) -> None:
    whole = bids_table(0, 25_000)
    assert (
        pa.concat_tables([bids_table(a, b) for a, b in ((0, 9_999), (9_999, 20_001), (20_001, 25_000))])
        .combine_chunks()
        .equals(whole)
    )
    assert whole["ts"][0].value == bid_time(0) > side_table()["ts"][0].value
    counts = sorted((c["counts"] for c in whole["auction"].value_counts().to_pylist()), reverse=True)
    assert counts[0] > 400
    assert counts[len(counts) // 2] < 30
    paths = make_data(tmp_path, 1_000)
    assert [len(list(Path(p).iterdir())) for p in paths.values()] == [1, 1]
    assert make_data(tmp_path, 1_000) == paths


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.query)
def test_duckdb_agrees_with_the_kernel(query: Any, tmp_path: Path) -> None:
    bids, side = bids_table(0, 600), side_table()
    kernel = make_kernel(query.app_text({}), "dt")
    inputs = {"bids": StreamInput([kernel_table(bids)], ended=True)}
    if "side" in query.streams:
        inputs["side"] = StreamInput([kernel_table(side)], ended=True)
    lines = kernel.step(inputs).outputs[query.query].rename_columns([*(n for n, _ in query.columns), "_from", "_to"])
    judge = Judge("bids", "side")
    for name, table in (("bids", bids), ("side", side), ("lines", lines)):
        judge.register(name, table)
    instants = sample_instants(600)
    assert len(instants) == 5
    assert instants[-1] == bid_time(599)
    assert judge.disagreements(query, "SELECT * FROM lines", instants) == []
    missing = judge.disagreements(query, "SELECT * FROM lines WHERE false", instants)
    assert len(missing) == 5
    assert f"{query.name} at {instants[-1]}: 0 rows" in missing[-1]
    judge.close()


def test_lines_of_the_command_are_read(tmp_path: Path) -> None:
    query, at = BY_QUERY["ranked"], bid_time(0)
    bid = bids_table(0, 1).to_pylist()[0]
    row = f"{bid['auction']},{bid['bidder']},{bid['price']},2026-01-01T00:00:00.1Z,1,2026-01-01T00:00:00.1Z,"
    (tmp_path / "ranked.csv").write_text(f"auction,bidder,price,ts,place,_from,_to\n{row}\n", encoding="utf-8")
    judge = Judge("bids", None, tmp_path / "spill")
    judge.register("bids", bids_table(0, 1))
    assert judge.disagreements(query, lines_of_csv(tmp_path / "ranked.csv", query), [at - 1, at]) == []
    judge.close()


def test_doubles_need_only_be_close() -> None:
    one, near, far = (pa.table({"x": [1], "y": [value]}) for value in (0.1 + 0.2, 0.3, 0.3001))
    assert same_rows(one, near)
    assert not same_rows(one, far)
    assert not same_rows(one, pa.concat_tables([one, one]))


def test_memory_of_a_tree_and_of_its_workers() -> None:
    processes = {
        1: Process(0, "init", 1),
        10: Process(1, "python", 100),
        11: Process(10, "java", 1_000),
        12: Process(11, "python3.12", 10_000),
        13: Process(12, "python3.12", 100_000),
        14: Process(11, "sh", 7),
        20: Process(1, "python", 5),
    }
    assert usage_of(processes, 10) == Usage(111_107, 110_000)
    assert usage_of(processes, 99) == Usage()
    assert Usage(5, 1).most(Usage(3, 2)) == Usage(5, 2)


def test_a_process_is_watched() -> None:
    command = [sys.executable, "-c", "import time; x = b'x' * 50_000_000; time.sleep(30)"]
    with subprocess.Popen(command) as process, MemoryWatch(process.pid) as watch:
        while watch.peak.tree < 50_000_000:
            time.sleep(0.05)
        process.kill()
    assert watch.peak.workers == 0


def test_figures_tables_and_picture(tmp_path: Path) -> None:
    settings = JoinsSettings((1_000, 100_000), (100, 400), 1, out=tmp_path)
    done, wrong = (
        CommandRun(10.0, 900, 500, disagreements=[]),
        CommandRun(10.0, 900, 5_000, disagreements=["ranked at 7: 1 rows"]),
    )
    cells = [
        QueryCell(
            QUERIES[0],
            {100: [done], 400: [CommandRun(10.001, 900, 600, disagreements=[])]},
            [run_query(QUERIES[0], "dt", 300)],
        ),
        QueryCell(QUERIES[1], {100: [done], 400: [CommandRun(3.0, 1, 1, "exit code 1: error: no memory")]}, []),
        QueryCell(QUERIES[2], {100: [done], 400: [wrong]}, [{"rate": None, "why": "exit code -9: no message"}]),
    ]
    versions = [cell(lifetime, n, 1.0 + n / 100_000) for lifetime in ("dt", "nt") for n in settings.versions]
    result = result_of(settings, MACHINE, versions, [c.to_json() for c in cells])
    computed, nested, ranked = result["queries"]
    assert (computed["rate"], computed["kernel_rows"], nested["rate"], nested["sizes"][1]["wall_s"]) == (
        300_000,
        300,
        None,
        None,
    )
    assert [s["agrees"] for q in (nested, ranked) for s in q["sizes"]] == [True, None, True, False]
    assert [f["met"] for f in result["figures"]] == [False, False, False, True, True, False, True, False, False, False]
    assert len(result["warnings"]) == 3
    console = Console(width=160, file=io.StringIO())
    with console.capture() as captured:
        console.print(joins_tables(result))
    for text in (
        "most over fewest",
        "failed",
        "300,000",
        "WARNING nested aggregates, 400 bids: exit code 1: error: no memory",
    ):
        assert text in captured.get()
    draw_joins(result, tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 5_000


def test_what_was_not_measured_is_not_reached() -> None:
    empty = {"query": "nested", "name": "nested aggregates", "rate": None, "sizes": []}
    rate, memory, _ = figures_of({}, [empty])
    assert not rate["met"]
    assert not memory["met"]


def test_settings_and_steps() -> None:
    quick = joins_settings(True, Path("o"))
    assert quick.sizes == (50_000, 200_000)
    assert joins_settings(False, Path("o")).sizes == (200_000, 2_000_000)
    assert joins_settings(True, Path("o"), 2).trials == 2
    assert JoinsBench(quick, lambda _: None).steps == 3 * 2 * 3 + 3 * 3
