"""Stores a placed app as JSON: the version of the app that the states of all nodes follow, and where everything runs.

Invariant: `PlacedApp.from_json(p.to_json()) == p`, as far as the parts are concerned. The file is replaced as a whole,
and that is the moment of a change: a process that is killed leaves the app before the change or the one after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kigen.placement.changes.layers import Parts, PlacedLayer, layer_from_json, layer_to_json, merged
from kigen.placement.cutting import NodePart
from kigen.placement.result import Placement
from kigen.placement.stored import PlacementMismatch, placement_of, to_json
from kigen.plan.changes.stored_plans import StoredPlanError


@dataclass(frozen=True)
class PlacedApp:
    """An app on nodes.

    `of`: fingerprint of the app and of all that its placement depends on. `began_as`: the first one of this state
    directory. `clauses`: digests of the clauses of the app as declared. `site`: digest of nodes, links and --allocate.
    `born`: stream -> its nodes.
    """

    of: str
    began_as: str
    change: int
    clauses: dict[str, Any]
    site: str
    born: dict[str, tuple[str, ...]]
    placed: Placement
    layers: tuple[PlacedLayer, ...]

    def parts(self, empty: Mapping[str, NodePart]) -> Parts:
        """Returns the part of each node."""
        return merged(self.layers, empty)

    def to_json(self) -> dict[str, Any]:
        return {
            **to_json(self.placed, self.of),
            "began_as": self.began_as,
            "change": self.change,
            "clauses": self.clauses,
            "site": self.site,
            "born": self.born,
            "layers": [layer_to_json(layer) for layer in self.layers],
        }

    @staticmethod
    def from_json(stored: Any, empty: Mapping[str, NodePart], file: str) -> PlacedApp | None:
        """Reads a placed app; None if an older version wrote it, which kept no parts. Raises PlacementMismatch."""
        placed = placement_of(stored, file)
        if "layers" not in stored:
            return None
        try:
            layers = tuple(layer_from_json(layer, empty) for layer in stored["layers"])
            born = {stream: tuple(names) for stream, names in stored["born"].items()}
            began = (stored["of"], stored["began_as"], stored["change"], stored["clauses"], stored["site"])
        except (StoredPlanError, KeyError) as error:
            raise PlacementMismatch(
                f"{file} cannot be read by this version of Kigen ({error}): use the version that wrote it, or give "
                "another --state directory to start from the beginning"
            ) from error
        return PlacedApp(*began, born, placed, layers)
