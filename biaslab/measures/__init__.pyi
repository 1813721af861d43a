from . import ranking as ranking, scoring as scoring
