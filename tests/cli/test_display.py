"""Checks what a live run shows, with and without a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from kigen.cli.display import RunDisplay, closing_table, live_table, plain_lines
from kigen.engine import Progress, QueryProgress

LATE = QueryProgress(1000, 400, 37, 1200.0, 1000.0, 0.25)
FREE = QueryProgress(500, 500, None, 80.0, None, 0.0)
LIVE = Progress(None, 12, {"hot": LATE, "free": FREE}, live=True, policy="ats", k=4, overloaded=True)


def test_the_table_has_rate_queue_p95_sdmr_and_k() -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(live_table(LIVE, {"hot": 512.4, "free": 0.0}, 9.0))
    text = console.export_text()
    assert "9 s, 12 batches, policy ats, k = 4, overloaded" in text
    row = next(line.split() for line in text.splitlines() if "hot" in line)
    assert row == ["hot", "512", "37", "1,200", "1,000", "25.00", "400"]
    free = next(line.split() for line in text.splitlines() if "free" in line)
    assert free == ["free", "0", "-", "80", "-", "-", "500"]


def test_plain_lines_say_the_same_without_a_terminal() -> None:
    lines = plain_lines(LIVE, {"hot": 512.4, "free": 0.0})
    assert lines == [
        "1000 tuples, 512 per second, 12 batches, k 4",
        "  hot: 512/s, 37 waiting, p95 1200 ms, SDMR 25.00 %",
        "  free: 0/s, p95 80 ms",
    ]
    assert plain_lines(Progress(0.5, 3, {"free": FREE}), {"free": 2.0}) == ["50%, 500 tuples, 2 per second, 3 batches"]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_queries_are_added_and_begin_anew_while_the_run_goes_on(is_terminal: bool) -> None:
    out, added = io.StringIO(), replace(FREE, arrived=0)
    with RunDisplay(Console(file=out, force_terminal=is_terminal, width=160)) as display:
        display.show(LIVE)
        display.show(replace(LIVE, queries={"hot": replace(LATE, arrived=10), "more": added}))
        assert display._rates(display._began + 1.0, LIVE).keys() == {"hot", "free"}
        assert min(display._rates(display._began + 2.0, replace(LIVE, queries={"hot": added})).values()) >= 0.0
    assert not is_terminal or "more" in out.getvalue()


def test_a_batch_that_takes_long_says_what_it_is_at() -> None:
    progress = Progress(
        0.25, 0, {"q": QueryProgress(0, 0, None, None, None, 0.0)}, doing="query q: join on a = b", read=70_000
    )
    known = replace(progress, reached_us=1_436_918_400_000_000, memory=3_200_000_000)
    assert plain_lines(known, {"q": 900.0}) == [
        "25%, 70000 tuples, 900 per second, 0 batches; query q: join on a = b at 2015-07-15 00:00:00, 3.2 GB"
    ]
    assert plain_lines(progress, {"q": 900.0}) == [
        "25%, 70000 tuples, 900 per second, 0 batches; query q: join on a = b"
    ]
    assert "at 9223372036854775807 us" in plain_lines(replace(known, reached_us=2**63 - 1), {"q": 0.0})[0]
    out = io.StringIO()
    with RunDisplay(Console(file=out, force_terminal=True, width=160)) as display:
        display.starting()
        display.show(known)
        display.say("memory: 3.2 GB of 4 GB in use (80%)")
    assert "70,000 tuples" in out.getvalue()
    assert "query q: join on a = b at 2015-07-15 00:00:00" in out.getvalue()
    assert "memory: 3.2 GB of 4 GB in use (80%)" in out.getvalue()


def test_a_terminal_is_refreshed_in_place_and_left_clean() -> None:
    out = io.StringIO()
    with RunDisplay(Console(file=out, force_terminal=True, width=100)) as display:
        display.starting()
        display.show(LIVE)
        display.show(LIVE)
    assert "policy ats" in out.getvalue()
    assert "\x1b[" in out.getvalue()


def test_the_closing_table_names_every_quantile(capsys: pytest.CaptureFixture[str]) -> None:
    counts = dict.fromkeys(("in", "out", "late", "skipped", "shed", "dropped", "missed"), 3)
    latency = {"p50": 1.0, "p95": 22.0, "p99": 333.0, "p99.9": 4444.0}
    hot = {**counts, "sdmr": 0.5, "deadline_ms": 2000.0, "latency_ms": latency, "missed_ms": {"waiting": 5.0}}
    closing_table({"batches": 7, "wall_s": 1.5, "queries": {"hot": hot}}, {})
    lines = capsys.readouterr().out.splitlines()
    (head,) = (line for line in lines if "SDMR" in line)
    (row,) = (line for line in lines if "4,444" in line)
    assert head.split()[-4:] == ["p50", "p95", "p99", "p99.9"]
    assert row.split()[-5:] == ["2,000", "1", "22", "333", "4,444"]
