"""Compares the hull of windows with a slow search over all ways to cut a tuple's work, and with the paper's orders."""

from __future__ import annotations

from itertools import combinations

import pytest
from kigen_lab.simulate.shared_joins.window_sets import PAPER_ORDERS, paper_windows, random_windows

from kigen.plan.shared_joins.window_hull import window_hull


@pytest.mark.parametrize("name", PAPER_ORDERS)
def test_the_papers_orders(name: str) -> None:
    assert window_hull(paper_windows(name)).order == PAPER_ORDERS[name]


def answered(windows: tuple[float, ...], stops: tuple[int, ...], work: float) -> float:
    """Returns the queries answered by `work` on one tuple if it is run group by group; shares of a group count."""
    done, level, total = 0.0, 0, 0.0
    for stop in stops:
        cost = windows[stop - 1] - done
        share = min(1.0, max(0.0, work - done) / cost)
        total += share * (stop - level)
        done, level = windows[stop - 1], stop
    return total


@pytest.mark.parametrize("seed", range(20))
def test_no_other_cut_answers_more(seed: int) -> None:
    windows = random_windows(seed, queries=7, largest=60)
    ours = tuple(last for _, last in window_hull(windows).groups)
    cuts = [(*inner, 7) for size in range(7) for inner in combinations(range(1, 7), size)]
    for work in range(1, 60):
        best = max(answered(windows, cut, work) for cut in cuts)
        assert answered(windows, ours, work) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(20))
def test_a_group_that_was_begun_goes_on(seed: int) -> None:
    hull = window_hull(random_windows(seed, queries=12))
    for first, last in hull.groups:
        for level in range(first - 1, last):
            assert hull.slopes[level] >= hull.weights[level] * (1 - 1e-12)
    assert list(hull.weights) == sorted(hull.weights, reverse=True)
    assert sum(hull.work) == hull.windows[-1]


@pytest.mark.parametrize("windows", [(), (0.0, 1.0), (2.0, 2.0), (3.0, 1.0)])
def test_windows_must_grow(windows: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="above 0 and increasing"):
        window_hull(windows)
