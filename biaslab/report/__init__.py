r"""Report estimates: verdicts, the bias card of a judge, and tables and macros for papers.

Works on estimates frames alone, except for `biaslab.screen`, which also asks a judge.

Examples
--------
>>> import biaslab as bl
>>> data = bl.load_dataset("graded", limit=8)
>>> probe = bl.probes.Position(attributes=["coherence"], templates=[1])
>>> judge = bl.SimulatedJudge(data, position=2.0)
>>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["first_position_rate"])
>>> print(bl.report.to_macros(estimates).splitlines()[1])
\newcommand{\biasPositionRateCoherence}{0.927}
"""

import lazy_loader

from biaslab.report.card import Card, card
from biaslab.report.limits import Limit, check_limits, check_runs
from biaslab.report.overview import overview, replies, verdict_table
from biaslab.report.page import page
from biaslab.report.tables import to_csv, to_html, to_latex, to_macros, to_markdown, write
from biaslab.report.verdicts import findings, verdicts
from biaslab.report.wording import with_intervals

__getattr__ = lazy_loader.attach(__name__, submodules=["plots"])[0]
__all__ = [
    "Card",
    "Limit",
    "card",
    "check_limits",
    "check_runs",
    "findings",
    "overview",
    "page",
    "replies",
    "to_csv",
    "to_html",
    "to_latex",
    "to_macros",
    "to_markdown",
    "verdict_table",
    "verdicts",
    "with_intervals",
    "write",
]
