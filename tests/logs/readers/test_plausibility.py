"""Readings that cannot be right are refused, with the fields that would tell the rows apart."""

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError

SCORES = pd.DataFrame(
    [{"q": f"q{n}", "system": system, "points": 1 + (n + place) % 5, "version": "v1", "by": f"j{n}"}
     for n in range(40) for place, system in enumerate("xy")]
)  # fmt: skip
MAPPING = {"context_id": "q", "candidate_id": "system", "score": "points", "scale": "=1-5"}


def test_plausible_reading_is_accepted():
    assert len(bl.read_judgements(SCORES, mapping=MAPPING)) == 80


def test_single_question_with_differing_fields_is_refused():
    with pytest.raises(InputError, match="more than one question.*q"):
        bl.read_judgements(SCORES, mapping=MAPPING | {"context_id": "version"})


def test_name_of_a_field_as_constant_is_refused():
    with pytest.raises(InputError, match="context_id = q"):
        bl.read_judgements(SCORES, mapping=MAPPING | {"context_id": "=q"})


def test_many_judges_of_few_rows_are_refused():
    with pytest.raises(InputError, match="40 different ones"):
        bl.read_judgements(SCORES, mapping=MAPPING | {"judge": "by"})


def test_contradicting_duplicates_name_the_differing_field():
    twice = pd.concat([SCORES.assign(shift="day"), SCORES.assign(shift="night", points=1 + SCORES["points"] % 5)])
    with pytest.raises(InputError, match="80 of which contradict the first.*shift"):
        bl.read_judgements(twice, mapping=MAPPING)
    assert len(bl.read_judgements(twice, mapping=MAPPING | {"configuration": "shift"})) == 160


def test_equal_duplicates_are_dropped():
    trials = bl.read_judgements(pd.concat([SCORES, SCORES]), mapping=MAPPING)
    assert (len(trials), trials.attrs["duplicates"], trials.attrs["contradictions"]) == (80, 80, 0)
