"""Reproductions of papers' figures: our results beside the published ones."""

from kigen_lab.reproduce.figure import Figure, OnProgress, Request, Table
from kigen_lab.reproduce.registry import FIGURES, make_figure, write_figure

__all__ = ["FIGURES", "Figure", "OnProgress", "Request", "Table", "make_figure", "write_figure"]
