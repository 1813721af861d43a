"""Estimates to matplotlib Axes: a dot with its 50 % and 95 % intervals, the null as a dashed line, n on top.

Published values and null edits are hollow.

`draw` makes a whole figure with panels and writes it to files, `standard` those that a probe declares. The others take
an estimates frame and, optionally, Axes, and return the Axes. Labels and nulls are those that the probes declare
(`biaslab.core.Metric`).
"""

from biaslab.report.plots.drawing import against, intervals
from biaslab.report.plots.figure import Drawn, draw, facets as facets, standard
from biaslab.report.plots.headline import finding
from biaslab.report.plots.heaps import heaps
from biaslab.report.plots.hover import Hover, hover
from biaslab.report.plots.saving import save
from biaslab.report.plots.side_by_side import compared, inherited
from biaslab.report.plots.spread import spread
from biaslab.report.plots.style import MARKERS, PALETTE, STYLE, note, panels, share_legend, styled

__all__ = [
    "MARKERS",
    "PALETTE",
    "STYLE",
    "Drawn",
    "Hover",
    "against",
    "compared",
    "draw",
    "finding",
    "heaps",
    "hover",
    "inherited",
    "intervals",
    "note",
    "panels",
    "save",
    "share_legend",
    "spread",
    "standard",
    "styled",
]
