"""The papers' figures, made again: ours beside what was published."""

from kigen.reproduce.registry import FIGURES, make_figure, write_figure

__all__ = ["FIGURES", "make_figure", "write_figure"]
