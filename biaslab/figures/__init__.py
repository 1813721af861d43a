"""Regenerate all figures: papermill executes the notebooks, and an index shows what they drew."""

from biaslab.figures.notebook import Run
from biaslab.figures.regenerate import list_notebooks, regenerate

__all__ = ["Run", "list_notebooks", "regenerate"]
