"""An atlas of recorded judges: what published judges said, as numbers, without a sentence of anybody."""

from biaslab.atlas.known import estimates

__all__ = ["estimates"]
