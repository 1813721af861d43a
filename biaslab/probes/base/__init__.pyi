from .feature_probe import FeatureProbe as FeatureProbe, PairFeatureProbe as PairFeatureProbe
from .probe import (
    FAIR as FAIR,
    LABEL_MASS as LABEL_MASS,
    WRITTEN as WRITTEN,
    Accepted as Accepted,
    Cell as Cell,
    Contrast as Contrast,
    Estimable as Estimable,
    Part as Part,
    Probe as Probe,
    by_configuration as by_configuration,
    label_mass as label_mass,
    mean_of as mean_of,
    paired as paired,
    planted as planted,
    rated as rated,
    scored as scored,
)
from .questions import PairProbe as PairProbe, ScoreProbe as ScoreProbe
