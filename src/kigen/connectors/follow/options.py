"""Options of files: those that all readers of files have, and what makes the source that they ask for."""

from __future__ import annotations

from kigen.plan.connectors.option_kinds import FLAG, INSTANT, PATH, one_of, positive

FILE = {"path": PATH}
FOLLOWED = {"follow": FLAG, "order": one_of("name", "time"), "pace": positive("1"), "pace_from": INSTANT}
MODES = ("append", "changes")
