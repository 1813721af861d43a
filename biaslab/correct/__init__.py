"""Correct published numbers with a few human labels, and compare judges.

``bl.correct(trials, labels)`` corrects; ``bl.correct.plan_labels`` and ``bl.correct.choose_contexts`` plan it.
"""

import lazy_loader

from biaslab.correct.correction import correct
from biaslab.correct.label_plan import LabelPlan, choose_contexts, draw_labels, plan_labels

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
vars(correct).update(
    LabelPlan=LabelPlan, choose_contexts=choose_contexts, draw_labels=draw_labels, plan_labels=plan_labels
)
