"""Show the judgements behind a number: prompts, replies and human scores, as cards or as a page."""

from biaslab.report.evidence.cards import CardPage, show
from biaslab.report.evidence.trials import trials_of_store

__all__ = ["CardPage", "show", "trials_of_store"]
