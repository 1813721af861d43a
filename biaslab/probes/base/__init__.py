"""What all probes share: the way from trials to estimates, how pairs and scores are asked for, what logs hold."""

from biaslab.probes.base.cell import LABEL_MASS, Cell, Estimable, Part, label_mass
from biaslab.probes.base.logs import by_configuration, paired, rated, scored
from biaslab.probes.base.pair_probe import PairProbe
from biaslab.probes.base.probe import WRITTEN, Accepted, Probe
from biaslab.probes.base.score_probe import ScoreProbe

__all__ = [
    "LABEL_MASS",
    "WRITTEN",
    "Accepted",
    "Cell",
    "Estimable",
    "PairProbe",
    "Part",
    "Probe",
    "ScoreProbe",
    "by_configuration",
    "label_mass",
    "paired",
    "rated",
    "scored",
]
