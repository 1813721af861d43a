"""Array types, each named once."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
#: Integers that number groups or categories, and index arrays.
Codes = NDArray[np.intp]
