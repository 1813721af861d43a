"""Statistics with the context as the sampling unit; what other rooms use of them is named here."""

from biaslab.stats.agreement_loss import agreement_loss, relative_loss
from biaslab.stats.blocks import ITEM, number_items, side_by_side, usable, whole_blocks
from biaslab.stats.correlation import Level, Method, context_correlations, paired
from biaslab.stats.correlation_intervals import correlation_difference, estimate_correlation
from biaslab.stats.distribution import DISTRIBUTION, describe_distribution
from biaslab.stats.drawn import Agreement, agreement_within, draw_means
from biaslab.stats.estimate import Estimate, Resampling, effect_or_why_not, undefined
from biaslab.stats.frame import (
    LEADING,
    TRAILING,
    Ratio,
    choose_metrics,
    estimate_rows,
    estimates_frame,
    ratio_rows,
    require_columns,
    sum_by_context,
)
from biaslab.stats.intervals import ROUNDING, student
from biaslab.stats.jackknife import Statistic, cluster_difference, cluster_statistic
from biaslab.stats.labels import tempered
from biaslab.stats.multiplicity import adjust
from biaslab.stats.pairs import CELL, MISSING_SHARE
from biaslab.stats.power import FEWEST, detectable_effect, expected_power
from biaslab.stats.regression import linear_model
from biaslab.stats.reliability import Measurement
from biaslab.stats.reliability_intervals import alpha_difference, estimate_alpha
from biaslab.stats.samples import sample_differences, sample_table, score_spread
from biaslab.stats.scale_use import score_weights
from biaslab.stats.smooth import in_order
from biaslab.stats.t_tests import difference_by_t, judged_by_t, t_test

__all__ = [
    "CELL",
    "DISTRIBUTION",
    "FEWEST",
    "ITEM",
    "LEADING",
    "MISSING_SHARE",
    "ROUNDING",
    "TRAILING",
    "Agreement",
    "Estimate",
    "Level",
    "Measurement",
    "Method",
    "Ratio",
    "Resampling",
    "Statistic",
    "adjust",
    "agreement_loss",
    "agreement_within",
    "alpha_difference",
    "choose_metrics",
    "cluster_difference",
    "cluster_statistic",
    "context_correlations",
    "correlation_difference",
    "describe_distribution",
    "detectable_effect",
    "difference_by_t",
    "draw_means",
    "effect_or_why_not",
    "estimate_alpha",
    "estimate_correlation",
    "estimate_rows",
    "estimates_frame",
    "expected_power",
    "in_order",
    "judged_by_t",
    "linear_model",
    "number_items",
    "paired",
    "ratio_rows",
    "relative_loss",
    "require_columns",
    "sample_differences",
    "sample_table",
    "score_spread",
    "score_weights",
    "side_by_side",
    "student",
    "sum_by_context",
    "t_test",
    "tempered",
    "undefined",
    "usable",
    "whole_blocks",
]
