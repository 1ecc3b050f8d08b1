"""Apps that are cut over nodes give the same lines as the whole, wherever each operator runs."""

from __future__ import annotations

import pytest
from oracle.over_nodes import cut_app, judged_over_nodes, unlike_replicas, unlike_without_births
from oracle.ticking import generate_ticking
from seeds import seeds

from kigen.plan.logical import Clocked


@pytest.mark.parametrize("seed", range(20))
def test_random_app_over_nodes(seed: int) -> None:
    report = judged_over_nodes(seed)
    assert not report, report


@pytest.mark.parametrize("seed", [*range(200, 220), 253, 261])
def test_replicas_send_the_same_rows(seed: int) -> None:
    report = unlike_replicas(seed)
    assert not report, report


@pytest.mark.parametrize("seed", seeds(30, 60))
def test_what_reads_a_periodic_stream_may_run_elsewhere(seed: int) -> None:
    """A periodic RSTREAM ends with its query, also where its node does not read all streams of the query."""
    report = judged_over_nodes(seed, generate_ticking)
    assert not report, report


@pytest.mark.parametrize("seed", range(20))
def test_replicas_with_a_periodic_stream_send_the_same_rows(seed: int) -> None:
    report = unlike_replicas(seed, generate_ticking)
    assert not report, report


def test_many_of_these_cuts_need_clocks() -> None:
    """Otherwise the tests above would show little."""
    parts = [part for seed in range(60) for part in cut_app(seed, generate_ticking)[2].values()]
    roots = [query.root for part in parts for query in part.app.queries]
    assert sum(isinstance(root, Clocked) for root in roots) > 20


def test_deaths_of_dropped_tuples_change_nothing() -> None:
    """FIRM drops births of received rows, and reads all deaths."""
    deaths = 0
    for seed in range(12):
        report, orphans = unlike_without_births(seed)
        assert not report, report
        deaths += orphans
    assert deaths > 20
