"""Correct published numbers with a few human labels, compare judges, and replace people by them where that is shown.

``bl.correct(trials, labels)`` corrects; ``bl.correct.plan_labels`` and ``bl.correct.choose_contexts`` plan it.
``bl.joint(trials)`` estimates all biases at once, and what judgements would be without them.
``bl.replace(trials)`` says whether a judge may replace a person, and which of its verdicts may stand;
``bl.replace.judge(old, new)`` what changes with a new judge,
and ``bl.replace.panel_sizes`` how many judges and samples are as good as one person.
"""

import lazy_loader

from biaslab.correct.alternative import plan_items
from biaslab.correct.correction import correct
from biaslab.correct.generalizability import PanelSizes, panel_sizes
from biaslab.correct.joint_effects import JointBiases, joint
from biaslab.correct.label_plan import LabelPlan, choose_contexts, draw_labels, plan_labels
from biaslab.correct.replacement import Replacement, replace
from biaslab.correct.successor import Bridge, Succession, replace_judge

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
vars(correct).update(
    LabelPlan=LabelPlan, choose_contexts=choose_contexts, draw_labels=draw_labels, plan_labels=plan_labels
)
vars(joint).update(JointBiases=JointBiases)
vars(replace).update(
    Bridge=Bridge, PanelSizes=PanelSizes, Replacement=Replacement, Succession=Succession, judge=replace_judge,
    panel_sizes=panel_sizes, plan_items=plan_items,
)  # fmt: skip
