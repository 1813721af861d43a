from .correlation import agreement_loss as agreement_loss, estimate_correlation as estimate_correlation
from .distribution import describe_distribution as describe_distribution
from .estimate import Estimate as Estimate, undefined as undefined
from .frame import (
    adjust as adjust,
    adjust_families as adjust_families,
    average_over as average_over,
    choose_metrics as choose_metrics,
    corrected as corrected,
    corrected_effects as corrected_effects,
    estimate_rows as estimate_rows,
    estimates_frame as estimates_frame,
    without_breakdowns as without_breakdowns,
)
from .ratio import Ratio as Ratio
from .regression import linear_model as linear_model, logistic_model as logistic_model
from .reliability import (
    estimate_alpha as estimate_alpha,
    fit_components as fit_components,
    krippendorff_alpha as krippendorff_alpha,
)
from .resample import (
    Resampling as Resampling,
    cluster_difference as cluster_difference,
    cluster_statistic as cluster_statistic,
)
from .samples import expected_agreement_loss as expected_agreement_loss, thought_variance as thought_variance
from .synthesis import synthesis as synthesis
from .t_inference import (
    detectable_effect as detectable_effect,
    estimate_by_t as estimate_by_t,
    expected_power as expected_power,
    p_by_t as p_by_t,
    t_test as t_test,
)
