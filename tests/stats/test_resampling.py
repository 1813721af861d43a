"""Settings of the resampling, and its weights."""

import numpy as np
import pytest

from biaslab.core.errors import InputError
from biaslab.stats.inference import Resampling, draw_weights


@pytest.mark.parametrize("options", [{"n": 10}, {"level": 95}, {"method": "normal"}])
def test_settings_are_checked(options):
    with pytest.raises(InputError, match=next(iter(options))):
        Resampling(**options)


def test_weights_count_the_contexts_that_a_generator_draws():
    chunks = list(draw_weights(7, 50, seed=3, most=70))
    drawn = np.random.default_rng(3).integers(0, 7, size=(50, 7))
    assert [len(chunk) for chunk in chunks] == [10] * 5
    assert np.array_equal(np.concatenate(chunks), [np.bincount(row, minlength=7) for row in drawn])
