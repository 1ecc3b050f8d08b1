"""Builds the wheels of both distributions, installs them into an empty environment and uses them outside the repository.

The environment holds the declared dependencies and nothing else, as links to the installed packages: so nothing is
downloaded, and a dependency that is used but not declared is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from importlib.metadata import PackagePath, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
APP = """CREATE STREAM readings (room STRING, temp DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts
  FROM csv (path = 'readings.csv');
CREATE QUERY hot DEADLINE 2 SECONDS AS
  SELECT room, AVG(temp) AS mean FROM readings [RANGE 10 SECONDS] GROUP BY room HAVING AVG(temp) > 25;
"""
READINGS = """room,temp,ts
lab,24.0,2026-06-01T12:00:00Z
lab,28.0,2026-06-01T12:00:04Z
office,21.0,2026-06-01T12:00:06Z
lab,23.0,2026-06-01T12:00:12Z
office,30.0,2026-06-01T12:00:20Z
"""
HOT = """room,mean,_from,_to
lab,26.0,2026-06-01T12:00:04.000000Z,2026-06-01T12:00:10.000000Z
lab,28.0,2026-06-01T12:00:10.000000Z,2026-06-01T12:00:12.000000Z
lab,25.5,2026-06-01T12:00:12.000000Z,2026-06-01T12:00:14.000000Z
office,30.0,2026-06-01T12:00:20.000000Z,
"""
NODES = """[nodes.edge]
[nodes.centre]
[streams.readings]
born = "edge"
[results]
default = "centre"
"""
pytestmark = pytest.mark.timeout(600)


def build(source: Path, to: Path) -> Path:
    """Builds from a copy: setuptools would put a folder `build` next to the sources, and use it again the next time."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", ".venv", ".git", "out", "tests", "docs")
    copy = to / f"{source.name}-source"
    shutil.copytree(source, copy, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(to), str(copy)]
    before = set(to.glob("*.whl"))
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = set(to.glob("*.whl")) - before
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    return build(ROOT, folder), build(ROOT / "lab", folder)


def needed(wheel: Path, extras: tuple[str, ...] = ()) -> set[str]:
    """Returns the names of all distributions that a wheel requires, directly or through others."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(metadata).decode().split("\n\n")[0].splitlines()
    requirements = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]
    found: set[str] = set()
    waiting = [(requirement, extra) for requirement in requirements for extra in ("", *extras)]
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if name.startswith("kigen") or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        if name not in found:
            found.add(name)
            inner = distribution(name).requires or []
            waiting += [(line, kind) for line in inner for kind in ("", *requirement.extras)]
    return found


@dataclass(frozen=True)
class Environment:
    """An environment of its own, and a folder to work in, far from the repository."""

    bin: Path
    work: Path

    def kigen(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run(str(self.bin / "kigen"), *arguments)

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        return self._run(str(self.bin / "python"), "-c", code)

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        left_out = ("PYTHONPATH", "VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        environment["COLUMNS"] = "200"
        return subprocess.run(command, cwd=self.work, env=environment, capture_output=True, text=True, check=False)


def environment(folder: Path, names: set[str], *wheels: Path) -> Environment:
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    for name in names:
        installed = distribution(name)
        for part in {file.parts[0] for file in installed.files or [PackagePath()] if file.parts[0] != ".."}:
            if part not in ("__pycache__", "") and not (site / part).exists():
                (site / part).symlink_to(Path(str(installed.locate_file(part))))
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), "install"]
    done = subprocess.run(
        [*pip, "-q", "--no-deps", "--no-index", *map(str, wheels)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    work = folder / "work"
    work.mkdir()
    (work / "rooms.cql").write_text(APP, encoding="utf-8")
    (work / "readings.csv").write_text(READINGS, encoding="utf-8")
    (work / "nodes.toml").write_text(NODES, encoding="utf-8")
    return Environment(venv / "bin", work)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, wheels: tuple[Path, Path]) -> Environment:
    return environment(tmp_path_factory.mktemp("product"), needed(wheels[0]), wheels[0])


def test_the_wheel_holds_the_product_and_nothing_of_the_lab(wheels: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(wheels[0]) as archive:
        held = set(archive.namelist())
    sources = (ROOT / "src").rglob("*")
    wanted = {str(p.relative_to(ROOT / "src")) for p in sources if p.suffix in (".py", ".java", ".typed")}
    assert {name for name in held if not name.startswith("kigen-")} == wanted
    assert any(name.endswith(".java") for name in held)
    assert not [name for name in held if "lab" in Path(name).parts[0]]


def test_the_wheel_of_the_lab_holds_only_the_lab(wheels: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(wheels[1]) as archive:
        assert {Path(name).parts[0].split("-")[0] for name in archive.namelist()} == {"kigen_lab"}


def test_a_run_outside_the_repository(product: Environment) -> None:
    where = product.python("import kigen; print(kigen.__file__)")
    assert str(product.bin.parent) in where.stdout, "the wheel's code is what runs"
    done = product.kigen("run", "rooms.cql", "--drain", "--output", "out")
    assert done.returncode == 0, done.stderr
    assert (product.work / "out" / "hot.csv").read_text(encoding="utf-8") == HOT


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["bench", "floor", "--quick"], "run: pip install 'kigen[lab]'"),
        (["reproduce", "dmr"], "run: pip install 'kigen[lab]'"),
        (["explain", "rooms.cql", "--nodes", "nodes.toml"], "run: pip install 'kigen[nodes]'"),
        (["up", "rooms.cql", "--nodes", "nodes.toml"], "run: pip install 'kigen[nodes]'"),
        (["picture", "results"], "run: pip install 'kigen[picture]'"),
        (["run", "rooms.cql", "--serve"], "run: pip install 'kigen[web]'"),
    ],
)
def test_what_is_missing_is_named_with_what_to_install(product: Environment, command: list[str], message: str) -> None:
    results = product.work / "results"
    results.mkdir(exist_ok=True)
    (results / "hot.csv").write_text(HOT, encoding="utf-8")
    done = product.kigen(*command)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_check_and_explain_need_no_extra(product: Environment) -> None:
    assert product.kigen("check", "rooms.cql").stdout == "rooms.cql: 1 stream, 1 query, no errors\n"
    explained = product.kigen("explain", "rooms.cql")
    assert explained.returncode == 0, explained.stderr
    assert "hot" in explained.stdout


def test_the_lab_adds_its_commands(tmp_path: Path, wheels: tuple[Path, Path]) -> None:
    names = needed(wheels[0], ("nodes", "picture")) | needed(wheels[1])
    lab = environment(tmp_path, names, *wheels)
    assert "shared-joins" in lab.kigen("bench", "--help").stdout
    assert "placement-example" in lab.kigen("reproduce").stdout
    made = lab.kigen("reproduce", "edf-example", "--quick", "--out", "figures")
    assert made.returncode == 0, made.stderr
    assert (lab.work / "figures" / "edf-example.png").read_bytes().startswith(b"\x89PNG")
    placed = lab.kigen("explain", "rooms.cql", "--nodes", "nodes.toml", "--picture", "placement.png")
    assert placed.returncode == 0, placed.stderr
    assert (lab.work / "placement.png").exists()
