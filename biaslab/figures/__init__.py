"""Regenerate all figures: papermill executes the notebooks, and an index shows their figures."""

from biaslab.figures.notebook import NotebookRun
from biaslab.figures.regenerate import list_notebooks, regenerate

__all__ = ["NotebookRun", "list_notebooks", "regenerate"]
