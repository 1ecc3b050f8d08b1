"""Puts `tests` on the path: `from oracle import ...` works in every test. Sorts the files of the longest tests first."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TESTS = str(Path(__file__).parent)
if TESTS not in sys.path:
    sys.path.insert(0, TESTS)

# The files that take longest, the longest first. Workers that run a file at a time begin with them, so that none of them
# is the last one.
LONG = (
    "test_round_kills.py",
    "test_kills_of_leaders.py",
    "test_changed_app.py",
    "test_up.py",
    "test_documents.py",
    "test_servers_away.py",
    "test_live_change_kill.py",
    "test_memory_limits.py",
    "test_slices_on_spark.py",
    "test_cluster.py",
    "test_random_apps_on_spark.py",
    "test_kill.py",
    "test_run.py",
    "test_served_nodes.py",
    "test_replicas.py",
    "test_relay_pairs.py",
    "test_kafka_conformance.py",
    "test_accounting.py",
    "test_order.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path.name, len(LONG)))
