"""The page "How to write a connector" is followed: its package is written and installed as it stands, its tests pass,
and an app that uses it is checked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-connector.md"
FILES = ("kigen_journal/spec.py", "kigen_journal/source.py", "kigen_journal/sink.py", "test_journal.py")
APP = """
CREATE STREAM s (ts TIMESTAMP, room STRING) TIMESTAMP BY ts FROM journal (path = 'in.journal');
CREATE QUERY q AS SELECT room FROM s [NOW] INTO journal (path = 'out.journal');
"""


def written(folder: Path) -> None:
    """Writes the files of the page, and the metadata that `pip install` derives from pyproject.toml."""
    text = PAGE.read_text(encoding="utf-8")
    (project,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (folder / "pyproject.toml").write_text(project, encoding="utf-8")
    for name, code in zip(FILES, re.findall(r"```python\n(.*?)```", text, re.DOTALL), strict=True):
        assert f"`{name}`" in text
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code, encoding="utf-8")
    about = tomllib.loads(project)["project"]
    info = folder / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    points = about["entry-points"]["kigen.connectors"]
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[kigen.connectors]", *lines, ""]))


def test_the_page_is_followed(tmp_path: Path) -> None:
    written(tmp_path)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_journal.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "17 passed" in done.stdout
    (tmp_path / "app.cql").write_text(APP, encoding="utf-8")
    checked = [sys.executable, "-c", "import kigen; kigen.check('app.cql')"]
    subprocess.run(checked, cwd=tmp_path, env=environment, check=True, timeout=240)
