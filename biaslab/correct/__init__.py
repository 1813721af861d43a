"""Correct published numbers with a few human labels, and compare judges.

``bl.correct(trials, labels)`` corrects; ``bl.correct.plan_labels`` and ``bl.correct.choose_contexts`` plan it.
"""

import lazy_loader

from biaslab.correct.comparison import compare
from biaslab.correct.correction import correct
from biaslab.correct.label_plan import LabelPlan, choose_contexts, draw_labels, plan_labels

__getattr__ = lazy_loader.attach(__name__, submodules=["mitigation"])[0]
__all__ = ["LabelPlan", "choose_contexts", "compare", "correct", "draw_labels", "plan_labels"]
vars(correct).update({name: globals()[name] for name in ("LabelPlan", "choose_contexts", "draw_labels", "plan_labels")})
