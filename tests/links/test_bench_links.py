"""The benchmark runs, counts every tuple, and reports what it measured."""

from __future__ import annotations

from pathlib import Path

from kigen_lab.bench.links.benchmark import DURABILITY, LinksSettings, cells, run_links_bench, turns
from kigen_lab.bench.links.table import links_tables
from rich.console import Console


def test_small(tmp_path: Path) -> None:
    settings = LinksSettings(trials=1, tuples=5_000, sizes=(1_000,), codecs=("none", "zstd"), samples=10, out=tmp_path)
    steps: list[int] = []
    result = run_links_bench(settings, lambda _: None, lambda: steps.append(1))
    assert len(steps) == turns(settings)
    assert len(result["throughput"]) == len(cells(settings)) == 2 * (len(DURABILITY) + 1)
    for cell in result["throughput"]:
        assert cell["tuples_s"] > 0
        assert cell["payload_bytes_tuple"] < (45 if cell["compress"] == "none" else 25)
        assert cell["wire_bytes_tuple"] > cell["payload_bytes_tuple"]
    assert all(cell["p50_ms"] <= cell["p99_ms"] for cell in result["latency"])
    console = Console(width=160, record=True, quiet=True)
    console.print(links_tables(result))
    assert not list(tmp_path.glob("run-*"))
