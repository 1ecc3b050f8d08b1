"""Connectors of installed packages: a package on the path registers one by an entry point, as pip leaves it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kigen.connectors import open_source
from kigen.connectors.options import OptionError
from kigen.language import CqlErrors
from kigen.plan import bind
from kigen.plan.connectors import registry
from kigen.plan.connectors.registry import Registry

Install = Callable[..., None]
APP = "CREATE STREAM s (k STRING) FROM {} ();\nCREATE QUERY q AS SELECT k FROM s [ROWS 3];"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Returns a function that installs a package with one module and one entry point."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(package: str, connector: str, code: str) -> None:
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[kigen.connectors]\n{connector} = {package}_module:SPEC\n")
        (tmp_path / f"{package}_module.py").write_text(code)
        sys.modules.pop(f"{package}_module", None)
        fresh = Registry()
        monkeypatch.setattr(registry, "REGISTRY", fresh)
        monkeypatch.setattr("kigen.plan.binder.connectors.REGISTRY", fresh)

    return installed


def spec(name: str, **given: str) -> str:
    options = "".join(f", {key}={value}" for key, value in given.items())
    return f"from kigen.connectors import ConnectorSpec, option_kinds\nSPEC = ConnectorSpec({name!r}{options})\n"


def message_of(name: str) -> str:
    with pytest.raises(CqlErrors) as caught:
        bind(APP.format(name))
    return str(caught.value)


def test_an_installed_package_adds_a_connector(install: Install) -> None:
    install("sensors", "sensors", spec("sensors", source="'sensors_module:opened'", aliases="('probes',)"))
    assert bind(APP.format("SENSORS")).streams[0].source.name == "sensors"
    assert bind(APP.format("probes")).streams[0].source.name == "sensors"
    assert "sensors" in registry.names_for("source")
    assert "sensors" not in registry.names_for("sink")


def test_its_options_are_checked_as_kigens_own(install: Install) -> None:
    given = "{'rate': option_kinds.whole(1, '5')}"
    install("sensors", "sensors", spec("sensors", source="'sensors_module:opened'", options=given))
    with pytest.raises(CqlErrors, match="option rate needs a whole number above 0"):
        bind(APP.format("sensors").replace("()", "(rate = 0)"))
    with pytest.raises(CqlErrors, match="unknown option rat of sensors"):
        bind(APP.format("sensors").replace("()", "(rat = 1)"))


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("import no_such_module", "cannot be loaded: ModuleNotFoundError"),
        ("1 / 0", "cannot be loaded: ZeroDivisionError"),
        ("SPEC = 3", "must be a kigen.connectors.ConnectorSpec, found int"),
        (spec("others", source="'m:f'"), "calls itself 'others'"),
        (spec("sensors"), "has neither a source, nor a table, nor a sink"),
    ],
)
def test_a_broken_package_is_named(install: Install, code: str, wanted: str) -> None:
    install("sensors", "sensors", code)
    message = message_of("sensors")
    assert "package sensors 1.0" in message
    assert wanted in message
    assert bind(APP.format("http"))  # other apps are not stopped by it
    assert "left out: package sensors 1.0" in message_of("nothing_known")


def test_no_package_replaces_a_connector_of_kigen(install: Install) -> None:
    install("thief", "csv", spec("csv", source="'thief_module:opened'"))
    assert registry.spec_of("csv").package is None
    assert registry.REGISTRY.broken() == ["package thief 1.0 registers connector 'csv', which Kigen has itself"]


def test_two_packages_with_one_name_are_both_named(install: Install) -> None:
    install("first", "sensors", spec("sensors", source="'m:f'"))
    install("second", "sensors", spec("sensors", source="'m:f'"))
    assert "packages first 1.0 and second 1.0 both register connector 'sensors'" in message_of("sensors")


def test_what_opens_it_must_be_a_source(install: Install) -> None:
    code = spec("sensors", source="'sensors_module:opened'") + "\ndef opened(asked):\n    return 3\n"
    install("sensors", "sensors", code)
    stream = bind(APP.format("sensors")).streams[0]
    with pytest.raises(OptionError, match=r"of package sensors 1\.0.*must give a Source, found int"):
        open_source(stream, ".", draining=True, start_us=None)
