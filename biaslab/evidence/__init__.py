"""Behind a number: the prompts, replies and human scores of single judgements, as cards and as a page."""

from biaslab.evidence.replay import trials_of_store
from biaslab.evidence.shown import Shown, show

__all__ = ["Shown", "show", "trials_of_store"]
