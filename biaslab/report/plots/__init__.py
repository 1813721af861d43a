"""Plot estimates with matplotlib: dots with 95 % intervals, the null as a dashed line, n above.

Marks are filled by their findings (`bl.report.findings`): a bias found, none that matters, inconclusive. Published
values are crosses, null edits grey.

`draw` makes a whole figure with panels and saves it; `standard` draws the figures that a probe declares, `bias_matrix`
shows which judge has which bias, and `identity` and `recovery` compare estimates with what they should be. `intervals`
and `against` draw on given or new Axes and return them. Labels and nulls are declared by the probes
(`biaslab.core.Metric`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
