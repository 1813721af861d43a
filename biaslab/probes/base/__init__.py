"""Base classes of probes, with their shared tools: cells, parts of estimates, kinds of recorded judgements."""

from biaslab.probes.base.cell import LABEL_MASS, Cell, Estimable, Part, label_mass, mean_of
from biaslab.probes.base.feature_probe import FeatureProbe
from biaslab.probes.base.pair_feature import PairFeatureProbe
from biaslab.probes.base.probe import FAIR, WRITTEN, Accepted, Probe, by_configuration, paired, planted, rated, scored
from biaslab.probes.base.questions import PairProbe, ScoreProbe

__all__ = [
    "FAIR",
    "LABEL_MASS",
    "WRITTEN",
    "Accepted",
    "Cell",
    "Estimable",
    "FeatureProbe",
    "PairFeatureProbe",
    "PairProbe",
    "Part",
    "Probe",
    "ScoreProbe",
    "by_configuration",
    "label_mass",
    "mean_of",
    "paired",
    "planted",
    "rated",
    "scored",
]
