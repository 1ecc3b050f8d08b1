"""Functions in Python on Spark: beside the app file and registered by the program, in the workers."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

from kigen.engine import Engine
from kigen.lifetimes import EvaluationError

APP = """
CREATE STREAM s (k STRING, f DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');
CREATE FUNCTION celsius(f DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS 'units:celsius';
CREATE QUERY q AS SELECT k, celsius(f) AS c, twice(f) AS t FROM s [NOW] WHERE celsius(f) > 0;
"""
UNITS = """
import pyarrow.compute as pc
def celsius(f):
    if pc.any(pc.equal(f, {bad})).as_py():
        raise ValueError("cannot be")
    return pc.divide(pc.multiply(pc.subtract(f, 32.0), 5.0), 9.0)
"""


@pytest.mark.timeout(200)
def test_functions_run_in_the_workers(engine: Engine, tmp_path: Path) -> None:
    times = [f"2026-01-01T00:00:{i:02}Z" for i in range(4)]
    lines = [f"a,{value},{at}" for value, at in zip((50.0, 14.0, "", 212.0), times, strict=True)]
    (tmp_path / "s.csv").write_text("k,f,ts\n" + "\n".join(lines) + "\n")
    (tmp_path / "units.py").write_text(UNITS.format(bad=-1.0))
    (tmp_path / "app.cql").write_text(APP)
    factor = 2.0
    engine.function("twice", lambda f: pc.multiply(f, factor), ["DOUBLE"], "DOUBLE", replace=True)
    result = engine.run(tmp_path / "app.cql", drain=True)
    assert sorted((r["c"], r["t"]) for r in result.to_arrow("q").to_pylist()) == [(10.0, 100.0), (100.0, 424.0)]
    set_apart = APP.replace("QUERY q", "QUERY q ON ERROR INTO csv (path = 'failed.csv')").replace("'units:", "'units2:")
    (tmp_path / "units2.py").write_text(UNITS.format(bad=50.0))
    (tmp_path / "set_apart.cql").write_text(set_apart)
    result = engine.run(tmp_path / "set_apart.cql", drain=True)
    assert [r["c"] for r in result.to_arrow("q").to_pylist()] == [100.0]
    assert "f = 50.0" in (tmp_path / "failed.csv").read_text(encoding="utf-8")
    (tmp_path / "units.py").write_text(UNITS.format(bad=14.0))  # the session's workers know the old text
    with pytest.raises(EvaluationError, match=r"function celsius failed: ValueError: cannot be; .*values 14\.0"):
        engine.run(tmp_path / "app.cql", drain=True)
