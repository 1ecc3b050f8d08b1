"""The page docs/reference/api.md is made from the docstrings, and their examples give what they say."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kigen
from kigen.engine import Engine

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_api_page.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_api_page", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "run: python scripts/make_api_page.py"


def test_every_option_is_documented() -> None:
    for documented in (kigen.Engine.run, kigen.RunOptions):
        text = inspect.getdoc(documented) or ""
        for name in set(inspect.signature(documented).parameters) - {"self"}:
            assert f"\n    {name}: " in text, name


@pytest.mark.timeout(600)
def test_the_examples_give_what_they_say(
    engine: Engine, script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "readings.csv").write_text(script.READINGS, encoding="utf-8")
    (tmp_path / "rooms.cql").write_text(script.ROOMS, encoding="utf-8")
    known: dict[str, Any] = {"kigen": kigen, "engine": engine, "spark": engine.spark}
    runner = doctest.DocTestRunner()
    for documented in _documented(script):
        test = doctest.DocTestParser().get_doctest(inspect.getdoc(documented) or "", known, str(documented), None, 0)
        told: list[str] = []
        failed = runner.run(test, out=told.append, clear_globs=False).failed
        assert not failed, "".join(told)
        known.update(test.globs, engine=engine)  # the next example goes on with `result`
    assert runner.tries > 25


def _documented(script: ModuleType) -> list[Any]:
    found: list[Any] = [getattr(kigen, name) for name in script.FUNCTIONS]
    for name in script.CLASSES:
        cls = getattr(kigen, name)
        found += [cls, *(v for m, v in script.members(cls).items() if not m.startswith("_") and inspect.getdoc(v))]
    return found + [getattr(kigen, name) for name in script.public_errors()]
