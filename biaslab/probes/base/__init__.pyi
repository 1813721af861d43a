from .feature_probe import FeatureProbe as FeatureProbe, PairFeatureProbe as PairFeatureProbe
from .probe import (
    FAIR as FAIR,
    LABEL_MASS as LABEL_MASS,
    WRITTEN as WRITTEN,
    Cell as Cell,
    Contrast as Contrast,
    Estimable as Estimable,
    Part as Part,
    Probe as Probe,
    label_mass as label_mass,
    mean_of as mean_of,
    planted as planted,
)
from .questions import PairProbe as PairProbe, ScoreProbe as ScoreProbe
from .recorded import (
    Accepted as Accepted,
    by_configuration as by_configuration,
    paired as paired,
    rated as rated,
    scored as scored,
)
