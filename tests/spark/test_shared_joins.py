"""A tiny family of joins on Spark, with state and snapshots: shared or separate, they give the kernel's rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from kigen_lab.bench.shared_joins.app import Family, make_data
from kigen_lab.bench.shared_joins.kernel import run_family
from kigen_lab.bench.shared_joins.spark_side import run_on_spark

from kigen.engine import Engine


@pytest.mark.parametrize(
    ("shared", "kind", "lifetime"), [(True, "range", "dt"), (True, "rows", "nt"), (False, "range", "dt")]
)
def test_rows_are_those_of_the_kernel(engine: Engine, tmp_path: Path, shared: bool, kind: str, lifetime: str) -> None:
    family = Family(3, 200, kind, shared)
    paths = make_data(tmp_path / "data", 1_500, 200, 400)
    answer = run_on_spark(engine, family, lifetime, paths, tmp_path / "rows", 800)
    assert answer["rows"] == run_family(family, lifetime, 1_500, 600).rows > 500
    assert answer["tuples"] == 3_000
    assert answer["batches"] >= 3
