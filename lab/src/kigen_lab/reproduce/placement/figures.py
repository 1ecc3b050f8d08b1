"""Lists the figures of the paper on placement and sub-deadlines."""

from __future__ import annotations

from kigen_lab.reproduce.figure import Figure
from kigen_lab.reproduce.placement.dmr import dmr, dmr_tables
from kigen_lab.reproduce.placement.draw import draw_dmr, draw_figure_6, draw_worked_example
from kigen_lab.reproduce.placement.edf import edf_example, edf_tables
from kigen_lab.reproduce.placement.examples import placement_example, placement_tables

PLACEMENT_FIGURES = {
    "placement-example": Figure(
        placement_example, draw_worked_example, "placement: the collision warning, worked through", placement_tables
    ),
    "edf-example": Figure(
        edf_example, draw_figure_6, "placement: EDF and FIFO over (tuple, task) on one node", edf_tables
    ),
    "dmr": Figure(dmr, draw_dmr, "placement: late tuples over V2V tuples, two allocations by two rules", dmr_tables),
}
