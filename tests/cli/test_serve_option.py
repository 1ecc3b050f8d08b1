"""`--serve` with and without an address, and apps that need it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kigen.cli.main import app
from kigen.cli.optional_value import DEFAULT_ADDRESS, with_address

HERE = f"--serve={DEFAULT_ADDRESS}"
APP = "CREATE STREAM s (k STRING) BUFFER 5 FROM http (); CREATE QUERY q AS SELECT k FROM s [NOW];"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["--serve", "a.cql"], [HERE, "a.cql"]),
        (["a.cql", "--serve"], ["a.cql", HERE]),
        (["a.cql", "--serve", "--drain"], ["a.cql", HERE, "--drain"]),
        (["--serve", "0.0.0.0:80", "a.cql"], ["--serve", "0.0.0.0:80", "a.cql"]),
        (["--serve", "[::1]:0", "a.cql"], ["--serve", "[::1]:0", "a.cql"]),
        (["--serve=host:1", "a.cql"], ["--serve=host:1", "a.cql"]),
        (["--", "--serve"], ["--", "--serve"]),
    ],
)
def test_the_address_may_be_left_out(given: list[str], wanted: list[str]) -> None:
    assert with_address(given) == wanted


def test_the_default_of_the_command_is_that_of_the_server() -> None:
    from kigen.web import DEFAULT_ADDRESS as SERVER_DEFAULT

    assert SERVER_DEFAULT == DEFAULT_ADDRESS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "stream s takes tuples over HTTP: add --serve, or --serve HOST:PORT"),
        (["--serve", "--drain"], "is pushed and never ends, so it cannot be drained: run without --drain"),
        (["--serve=nonsense"], "--serve: address 'nonsense': write host:port"),
    ],
)
def test_a_wrong_combination_ends_with_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    file = tmp_path / "app.cql"
    file.write_text(APP, encoding="utf-8")
    done = CliRunner().invoke(app, ["run", str(file), *arguments])
    assert done.exit_code == 2
    assert message in done.output
    assert "BUFFER of s has no effect: a file" not in done.output


@pytest.mark.parametrize("option", [["--keep-results", "1 h"], ["--allow", "data"]])
def test_an_option_of_the_server_needs_serve(tmp_path: Path, option: list[str]) -> None:
    file = tmp_path / "app.cql"
    file.write_text("CREATE STREAM s (k BIGINT) FROM synthetic (rate = 1); CREATE QUERY q AS SELECT k FROM s [NOW];")
    done = CliRunner().invoke(app, ["run", str(file), *option])
    assert (done.exit_code, "add --serve" in done.output) == (2, True)
