"""The papers' figures, made again: ours beside what was published."""

from kigen_lab.reproduce.figure import Figure, Request, Table, Told
from kigen_lab.reproduce.registry import FIGURES, make_figure, write_figure

__all__ = ["FIGURES", "Figure", "Request", "Table", "Told", "make_figure", "write_figure"]
