"""The figures of the paper on placement and sub-deadlines, by name."""

from __future__ import annotations

from kigen.reproduce.figure import Figure
from kigen.reproduce.placement_draw import draw_figure_6
from kigen.reproduce.placement_edf import edf_example, edf_tables

PLACEMENT_FIGURES = {
    "edf-example": Figure(edf_example, draw_figure_6, "placement: EDF and FIFO over (tuple, task) on one node", edf_tables),
}
