"""`make demo-live`: a broker, a producer, the app and a reader of its alarms, in one command that ends what it began."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_the_live_demo_shows_alarms_and_averages_and_ends_its_broker(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", str(ROOT / "examples" / "live" / "demo.sh")],
        env={**os.environ, "DEMO_SECONDS": "12", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A Kafka broker answers at 127.0.0.1:" in done.stdout
    assert "ALARM" in done.stdout.upper(), done.stdout + done.stderr
    assert "per_lane" in done.stdout, done.stdout + done.stderr
    assert not list(tmp_path.glob("*/broker")), "its data is gone, and so is the broker"
