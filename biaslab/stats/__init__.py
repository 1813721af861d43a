"""Statistics clustered by context; this module exports what other parts of the package use."""

from biaslab.core.binned import without_breakdowns
from biaslab.stats.attenuation import disattenuated_difference
from biaslab.stats.averages import average_over
from biaslab.stats.blocks import (
    CELL,
    ITEM,
    clustered,
    each_cell,
    has_value,
    number_items,
    of_items,
    shared_requests,
    side_by_side,
    sum_by_context,
    usable,
    warn_shared,
    whole_blocks,
)
from biaslab.stats.components import Components, Crossed, Fit, fit_components, spread_of_means
from biaslab.stats.correlation import Level, Method, context_correlations, paired
from biaslab.stats.correlation_intervals import (
    agreement_loss,
    correlation_difference,
    estimate_correlation,
    relative_loss,
)
from biaslab.stats.distribution import DISTRIBUTION, describe_distribution
from biaslab.stats.errors_in_logistic import log_odds_at_equal
from biaslab.stats.errors_in_variables import slope_at_equal
from biaslab.stats.estimate import (
    ALPHA,
    BY_CONSTRUCTION,
    EXACT,
    WITHOUT_SPREAD,
    Estimate,
    Inference,
    by_construction,
    is_above,
    is_rounding,
    settled,
    side_of,
    significant,
    undefined,
    unseen_share,
    without_rounding,
)
from biaslab.stats.families import adjust, adjust_families, critical_p
from biaslab.stats.frame import (
    FAMILY,
    LEADING,
    MISSING_SHARE,
    TRAILING,
    choose_metrics,
    corrected,
    corrected_effects,
    estimate_rows,
    estimates_frame,
    require_columns,
    warn_missing,
)
from biaslab.stats.inference import Resampling, in_order
from biaslab.stats.jackknife import Statistic, cluster_difference, cluster_statistic, over_clusters
from biaslab.stats.labels import Agreement, agreement_within, draw_means, tempered
from biaslab.stats.logistic import logistic_model
from biaslab.stats.missing import TIPPING, UNBOUNDED, completed, decided_by_missing, note_missing, shift_extremes
from biaslab.stats.power import expected_power, inflation
from biaslab.stats.rating_error import LEAST_RELIABILITY, Corrected, holds_above, needed_reliability
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import linear_model
from biaslab.stats.reliability import Measurement, alpha_difference, estimate_alpha, krippendorff_alpha
from biaslab.stats.samples import sample_differences, sample_table, sampling_noise, score_spread
from biaslab.stats.sampling_attenuation import expected_agreement_loss
from biaslab.stats.scale_use import score_weights
from biaslab.stats.t_inference import (
    FEWEST,
    detectable_effect,
    effect_or_why_not,
    estimate_by_t,
    p_by_t,
    student,
    t_test,
)
from biaslab.stats.thoughts import ThoughtVariance, thought_variance

__all__ = [
    "ALPHA",
    "BY_CONSTRUCTION",
    "CELL",
    "DISTRIBUTION",
    "EXACT",
    "FAMILY",
    "FEWEST",
    "ITEM",
    "LEADING",
    "LEAST_RELIABILITY",
    "MISSING_SHARE",
    "TIPPING",
    "TRAILING",
    "UNBOUNDED",
    "WITHOUT_SPREAD",
    "Agreement",
    "Components",
    "Corrected",
    "Crossed",
    "Estimate",
    "Fit",
    "Inference",
    "Level",
    "Measurement",
    "Method",
    "Ratio",
    "Resampling",
    "Statistic",
    "ThoughtVariance",
    "adjust",
    "adjust_families",
    "agreement_loss",
    "agreement_within",
    "alpha_difference",
    "average_over",
    "by_construction",
    "choose_metrics",
    "cluster_difference",
    "cluster_statistic",
    "clustered",
    "completed",
    "context_correlations",
    "corrected",
    "corrected_effects",
    "correlation_difference",
    "critical_p",
    "decided_by_missing",
    "describe_distribution",
    "detectable_effect",
    "disattenuated_difference",
    "draw_means",
    "each_cell",
    "effect_or_why_not",
    "estimate_alpha",
    "estimate_by_t",
    "estimate_correlation",
    "estimate_rows",
    "estimates_frame",
    "expected_agreement_loss",
    "expected_power",
    "fit_components",
    "has_value",
    "holds_above",
    "in_order",
    "inflation",
    "is_above",
    "is_rounding",
    "krippendorff_alpha",
    "linear_model",
    "log_odds_at_equal",
    "logistic_model",
    "needed_reliability",
    "note_missing",
    "number_items",
    "of_items",
    "over_clusters",
    "p_by_t",
    "paired",
    "relative_loss",
    "require_columns",
    "sample_differences",
    "sample_table",
    "sampling_noise",
    "score_spread",
    "score_weights",
    "settled",
    "shared_requests",
    "shift_extremes",
    "side_by_side",
    "side_of",
    "significant",
    "slope_at_equal",
    "spread_of_means",
    "student",
    "sum_by_context",
    "t_test",
    "tempered",
    "thought_variance",
    "undefined",
    "unseen_share",
    "usable",
    "warn_missing",
    "warn_shared",
    "whole_blocks",
    "without_breakdowns",
    "without_rounding",
]
