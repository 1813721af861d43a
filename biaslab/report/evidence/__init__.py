"""Show the judgements behind a number: prompts, replies and human scores, as cards or as a page."""

from biaslab.report.evidence.cards import Shown
from biaslab.report.evidence.replay import trials_of_store
from biaslab.report.evidence.showing import show

__all__ = ["Shown", "show", "trials_of_store"]
