"""Two nodes at 2,000 tuples a second for an hour: memory, files, threads and file descriptors are flat after the first
ten minutes.

KIGEN_SOAK_S: how long (3600 seconds); ten minutes of it, or less of a short one, is for everything to come to its size.
Run a short form with: KIGEN_SOAK=1 KIGEN_SOAK_S=300 pytest tests/soak/test_steady_nodes.py -s
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest
from nodes.running import Up, nodes_text

SECONDS = float(os.environ.get("KIGEN_SOAK_S", "3600"))
RATE = int(os.environ.get("KIGEN_SOAK_RATE", "2000"))
APP = """CREATE STREAM cars (id BIGINT, road BIGINT, speed DOUBLE) FROM synthetic (rate = {rate}, arrivals = 'poisson', seed = 7,
  id = 'sequence', road = 'zipf(1.2, 50)', speed = 'uniform(0, 100)', duration = '{seconds} s');
CREATE QUERY fast AS ISTREAM(SELECT id, road, speed FROM cars [NOW] WHERE speed > 20);
CREATE QUERY crowded AS SELECT road, COUNT(*) AS n FROM fast [RANGE 5 SECONDS] GROUP BY road;
"""
NODES = '[streams.cars]\nborn = "a"\n[results]\nfast = "b"\ncrowded = "b"\n'
CLEANED_S = 75  # Spark removes old files of its state once a minute: the least of so long a time is what stays
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Taken:
    """Of all processes of one `kigen up`, and of its state directory."""

    at_s: float
    rss_mb: float
    threads: int
    descriptors: int
    files: int


def family(root: int) -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid and child not in found]
    return found


def taken(root: int, state: Path, began: float) -> Taken:
    rss = threads = descriptors = 0
    for pid in family(root):
        try:
            rss += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
            threads += len(os.listdir(f"/proc/{pid}/task"))
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            continue
    files = sum(len(names) for _, _, names in os.walk(state))
    return Taken(round(time.monotonic() - began), rss / 1e6, threads, descriptors, files)


@pytest.mark.skipif("KIGEN_SOAK" not in os.environ, reason="long: set KIGEN_SOAK=1")
@pytest.mark.timeout(0)
def test_nothing_grows(tmp_path: Path) -> None:
    app = tmp_path / "app.cql"
    app.write_text(APP.format(rate=RATE, seconds=int(SECONDS)), encoding="utf-8")
    (tmp_path / "nodes.toml").write_text(nodes_text("ab", NODES), encoding="utf-8")
    found: list[Taken] = []
    settled_s = min(600.0, SECONDS / 2.5)
    with Up(app) as up:
        up.until(lambda told: all(about["state"] == "running" for about in told.values()), "both at work")
        began = time.monotonic()
        while up.process.poll() is None and time.monotonic() - began < SECONDS - 10:
            found.append(taken(up.process.pid, up.state, began))
            print(found[-1], flush=True)
            time.sleep(max(2.0, SECONDS / 600))
        kinds = Counter(
            "/".join(path.relative_to(up.state).parts[:5]) for path in up.state.rglob("*") if path.is_file()
        )
        print(*kinds.most_common(12), sep="\n", flush=True)
    steady = [t for t in found if t.at_s >= settled_s]
    assert len(steady) >= 9, f"it ended too soon: {up.said}"
    span_s = max(CLEANED_S, (steady[-1].at_s - settled_s) / 3)
    first = [t for t in steady if t.at_s <= settled_s + span_s]
    last = [t for t in steady if t.at_s >= steady[-1].at_s - span_s]
    for name, may_grow in (("rss_mb", 1.10), ("threads", 1.05), ("descriptors", 1.05), ("files", 1.10)):
        which = min if name == "files" else median
        before, after = (which([getattr(t, name) for t in part]) for part in (first, last))
        print(f"{name}: {before:,.0f} -> {after:,.0f}")
        assert after <= before * may_grow + 5, f"{name} grew from {before:,.0f} to {after:,.0f}"
