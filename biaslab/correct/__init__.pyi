from . import mitigation as mitigation
from .alternative import plan_items as plan_items
from .comparison import compare as compare
from .correction import correct as correct
from .generalizability import (
    Costs as Costs,
    PanelSizes as PanelSizes,
    panel_sizes as panel_sizes,
    total_error as total_error,
)
from .joint_effects import JointBiases as JointBiases, joint as joint
from .label_plan import (
    LabelPlan as LabelPlan,
    choose_contexts as choose_contexts,
    draw_labels as draw_labels,
    plan_labels as plan_labels,
)
from .replacement import Replacement as Replacement, replace as replace
from .specifications import Robustness as Robustness, robustness as robustness
from .successor import Bridge as Bridge, Succession as Succession, replace_judge as replace_judge
