"""An atlas of recorded judges: what published judges said, as numbers, without a sentence of anybody."""
