"""Estimates to matplotlib Axes: a dot with its interval, the null as a dashed line, n on top.

Published values and null edits are hollow.

Every function takes an estimates frame and, optionally, Axes, and returns the Axes. Labels and nulls are those that the
probes declare (`biaslab.core.Metric`).
"""

from biaslab.plots.drawing import against, hollow, intervals
from biaslab.plots.headline import finding
from biaslab.plots.hover import Hover, hover
from biaslab.plots.inherited import inherited
from biaslab.plots.saving import save
from biaslab.plots.side_by_side import facets
from biaslab.plots.style import MARKERS, PALETTE, STYLE, note, panels, share_legend, styled
from biaslab.plots.two_judges import compared

__all__ = [
    "MARKERS",
    "PALETTE",
    "STYLE",
    "Hover",
    "against",
    "compared",
    "facets",
    "finding",
    "hollow",
    "hover",
    "inherited",
    "intervals",
    "note",
    "panels",
    "save",
    "share_legend",
    "styled",
]
