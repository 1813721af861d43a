"""Base classes of probes, and what they share: cells, parts of estimates, draws, kinds of recorded judgements."""

from biaslab.probes.base.cell import LABEL_MASS, Cell, Estimable, Part, label_mass, mean_of
from biaslab.probes.base.feature_probe import FeatureProbe, rating_columns
from biaslab.probes.base.logs import by_configuration, paired, rated, scored
from biaslab.probes.base.pair_probe import PairProbe, draw, draw_of, read_pair
from biaslab.probes.base.probe import FAIR, WRITTEN, Accepted, Probe, planted
from biaslab.probes.base.score_probe import ScoreProbe, draw_score, random_number

__all__ = [
    "FAIR",
    "LABEL_MASS",
    "WRITTEN",
    "Accepted",
    "Cell",
    "Estimable",
    "FeatureProbe",
    "PairProbe",
    "Part",
    "Probe",
    "ScoreProbe",
    "by_configuration",
    "draw",
    "draw_of",
    "draw_score",
    "label_mass",
    "mean_of",
    "paired",
    "planted",
    "random_number",
    "rated",
    "rating_columns",
    "read_pair",
    "scored",
]
