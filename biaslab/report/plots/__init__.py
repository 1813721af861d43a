"""Plot estimates with matplotlib: dots with 50 % and 95 % intervals, the null as a dashed line, n above.

Published values and null edits have hollow marks.

`draw` makes a whole figure with panels and saves it; `standard` draws the figures that a probe declares, `promises`
those of a validation. `intervals` and `against` draw on given or new Axes and return them. Labels and nulls are
declared by the probes (`biaslab.core.Metric`).
"""

from biaslab.report.plots.drawing import Hover, against, hover, intervals
from biaslab.report.plots.figure import DrawnFigures, compared, draw, inherited, promises, save, standard
from biaslab.report.plots.headline import finding
from biaslab.report.plots.scores import heaps, spread
from biaslab.report.plots.style import MARKERS, PALETTE, STYLE, note, panels, share_legend, styled

__all__ = [
    "MARKERS",
    "PALETTE",
    "STYLE",
    "DrawnFigures",
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
    "promises",
    "save",
    "share_legend",
    "spread",
    "standard",
    "styled",
]
