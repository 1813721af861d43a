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

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
