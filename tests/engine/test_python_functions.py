"""Functions in Python: declared in an app or registered by a program; checked without running them, run by the kernel."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kigen
from kigen.engine.functions import RegisteredFunctions
from kigen.language import CqlErrors
from kigen.lifetimes import EvaluationError
from kigen.plan import bind
from kigen.testing import AppTest

STREAM = "CREATE STREAM s (k STRING, f DOUBLE, n BIGINT, ts TIMESTAMP) TIMESTAMP BY ts FROM csv (path = 's.csv');\n"
CELSIUS = STREAM + "CREATE FUNCTION celsius(f DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS 'units:celsius';\n"
MODULE = """
import pyarrow.compute as pc
import helper_of_units
with open({trace!r}, "a") as trace:
    trace.write("imported\\n")

def celsius(f):
    for value in f.to_pylist():
        if value == 99.0:
            raise ValueError("too hot")
    return pc.divide(pc.multiply(pc.subtract(f, helper_of_units.FREEZING), 5.0), 9.0)

def label(k, n):
    return [f"{{a}}-{{b}}" for a, b in zip(k.to_pylist(), n.to_pylist())]

def short(f):
    return f[:1]

ANSWER = 42
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "units.py").write_text(MODULE.format(trace=str(tmp_path / "trace")))
    (tmp_path / "helper_of_units.py").write_text("FREEZING = 32.0\n")
    return tmp_path


def rows(*values: float | None) -> list[dict[str, Any]]:
    return [{"k": "a", "f": value, "n": i, "ts": i * 1_000_000} for i, value in enumerate(values)]


@pytest.mark.parametrize("lifetime", ["dt", "nt"])
def test_a_function_computes_columns_conditions_and_keys(folder: Path, lifetime: str) -> None:
    app = CELSIUS + "CREATE QUERY q AS SELECT celsius(f) AS c, COUNT(*) AS n FROM s [ROWS 9] WHERE Celsius (f) > 0"
    app += " GROUP BY celsius(f)"
    test = AppTest(text=app, base=folder, lifetime=lifetime)
    test.push("s", rows(50.0, None, 14.0, 212.0, 50.0))
    test.finish()
    found = [(row["c"], row["n"]) for row in test.lines("q")]
    assert found == [(10.0, 1), (100.0, 1), (10.0, 2)]


def test_two_parameters_and_a_list_as_result(folder: Path) -> None:
    app = STREAM + "CREATE FUNCTION label(k STRING, n BIGINT) RETURNS STRING LANGUAGE PYTHON AS 'units:label';\n"
    test = AppTest(text=app + "CREATE QUERY q AS SELECT label(k, n) AS l FROM s [NOW]", base=folder)
    test.push("s", rows(1.0, 2.0))
    test.finish()
    assert [row["l"] for row in test.lines("q")] == ["a-0", "a-1"]


def test_an_error_names_the_function_and_the_row(folder: Path) -> None:
    test = AppTest(text=CELSIUS + "CREATE QUERY q AS SELECT k, celsius(f) AS c FROM s [NOW]", base=folder)
    test.push("s", rows(*[1.0] * 3000, 99.0, 2.0))
    with pytest.raises(EvaluationError, match=r"function celsius failed: ValueError: too hot; .* the values 99\.0"):
        test.finish()


def test_a_result_of_another_length_is_an_error(folder: Path) -> None:
    app = (
        CELSIUS.replace("units:celsius", "units:short")
        + "CREATE QUERY q AS SELECT celsius(f) AS c FROM s [RANGE 1 HOURS]"
    )
    test = AppTest(text=app, base=folder)
    test.push("s", [{**row, "ts": 0} for row in rows(1.0, 2.0)])
    with pytest.raises(EvaluationError, match="an array of 2 values is required, got 1"):
        test.finish()


def test_check_and_explain_run_no_code(folder: Path) -> None:
    app = CELSIUS + "CREATE QUERY q AS SELECT celsius(f + 1) AS c FROM s [NOW] WHERE celsius(2) > 1"
    assert kigen.check(text=app, base=folder) == []
    assert "celsius(f + 1)" in kigen.explain(text=app, base=folder)
    assert "__py" not in kigen.explain(text=app, base=folder)
    assert not (folder / "trace").exists()
    AppTest(text=app, base=folder)
    assert (folder / "trace").read_text() == "imported\n"


def test_changed_code_is_another_function(folder: Path) -> None:
    app = CELSIUS + "CREATE QUERY q AS SELECT celsius(f) AS c FROM s [NOW]"
    before = bind(app, directory=str(folder))
    assert bind(app, directory=str(folder)).queries == before.queries
    (folder / "units.py").write_text("def celsius(f):\n    return f\n")
    after = bind(app, directory=str(folder))
    assert after.queries != before.queries
    assert pickle.loads(pickle.dumps(after)).functions[0].code == "def celsius(f):\n    return f\n"
    test = AppTest(text=app, base=folder)
    test.push("s", rows(7.0))
    test.finish()
    assert test.lines("q")[0]["c"] == 7.0


def test_an_installed_module_is_imported_by_the_workers(folder: Path) -> None:
    app = STREAM + "CREATE FUNCTION half(f DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS 'numpy:sqrt';\n"
    test = AppTest(text=app + "CREATE QUERY q AS SELECT half(f) AS h FROM s [NOW]", base=folder)
    test.push("s", rows(4.0))
    test.finish()
    assert test.lines("q")[0]["h"] == 2.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("units:celsius", "units:celcius"), "units.py has no function celcius"),
        (("units:celsius", "nowhere_at_all:f"), "there is no Python module nowhere_at_all"),
        (("celsius(f DOUBLE)", "lower(f DOUBLE)"), "lower is a function that CQL has already"),
    ],
)
def test_what_check_finds(folder: Path, change: tuple[str, str], message: str) -> None:
    errors = kigen.check(text=CELSIUS.replace(*change) + "CREATE QUERY q AS SELECT f FROM s [NOW]", base=folder)
    assert [error.message for error in errors] == [message]


def test_code_that_others_can_write_is_refused(folder: Path) -> None:
    os.chmod(folder / "units.py", 0o666)
    (error,) = kigen.check(text=CELSIUS + "CREATE QUERY q AS SELECT f FROM s [NOW]", base=folder)
    assert error.message == "every user may write units.py"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_code_of_another_owner_is_refused(folder: Path) -> None:
    (folder / "app.cql").write_text(CELSIUS + "CREATE QUERY q AS SELECT f FROM s [NOW];")
    assert kigen.check(folder / "app.cql") == []
    os.chown(folder / "units.py", 12345, 12345)
    (error,) = kigen.check(folder / "app.cql")
    assert error.message == "units.py belongs to another user than the app file"
    os.chown(folder / "app.cql", 12345, 12345)
    assert kigen.check(folder / "app.cql") == []


def test_code_that_fails_when_it_is_loaded(folder: Path) -> None:
    (folder / "units.py").write_text("import nothing_like_it\ncelsius = None\n")
    with pytest.raises(EvaluationError, match=r"function celsius .*ModuleNotFoundError: No module named 'nothing_like"):
        AppTest(text=CELSIUS + "CREATE QUERY q AS SELECT celsius(f) AS c FROM s [NOW]", base=folder)


def test_shed_takes_no_function(folder: Path) -> None:
    app = "CREATE FUNCTION celsius(f DOUBLE) RETURNS DOUBLE LANGUAGE PYTHON AS 'units:celsius';\n"
    app += "CREATE STREAM t (f DOUBLE) FROM synthetic (rate = 5) SHED ABOVE 3 PER SECOND BY celsius(f);"
    app += "CREATE QUERY q AS SELECT f FROM t [NOW];"
    (error,) = kigen.check(text=app, base=folder)
    assert error.message == "a function of the app cannot be used in SHED"


def test_registered_functions() -> None:
    functions = RegisteredFunctions()
    factor = 3.0
    functions.add("times", lambda f: pc.multiply(f, factor), ["DOUBLE"], "DOUBLE", False)
    with pytest.raises(kigen.ArgumentError, match="registered already"):
        functions.add("Times", lambda f: f, ["DOUBLE"], "DOUBLE", False)
    with pytest.raises(kigen.ArgumentError, match="CQL has a function of that name"):
        functions.add("lower", lambda f: f, ["DOUBLE"], "DOUBLE", False)
    with pytest.raises(kigen.ArgumentError, match="unknown type 'FLOOT'"):
        functions.add("other", lambda f: f, ["FLOOT"], "DOUBLE", False)
    app = bind(STREAM + "CREATE QUERY q AS SELECT times(f) AS t FROM s [NOW]", functions=functions.all)
    assert pickle.loads(app.functions[0].body or b"")(pa.array([2.0])).to_pylist() == [6.0]
    with pytest.raises(CqlErrors, match="unknown function times"):
        bind(STREAM + "CREATE QUERY q AS SELECT times(f) AS t FROM s [NOW]")


def test_a_folder_on_pythons_path_counts(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "on_the_path.py").write_text("def celsius(f):\n    return f\n")
    monkeypatch.syspath_prepend(str(other))
    app = (
        CELSIUS.replace("units:celsius", "on_the_path:celsius")
        + "CREATE QUERY q AS SELECT celsius(f) AS c FROM s [NOW]"
    )
    assert kigen.check(text=app, base=folder) == []
    assert "on_the_path" not in sys.modules
