"""Constructed sets of dialogues hold the repetitions and contradictions that their severity counts."""

import pytest

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.datasets import dialogue_sets


def turns_of(text):
    return [[turn.split(": ", 1)[1] for turn in block.split("\n")[1:]] for block in text.split("\n\n")]


def test_there_are_25_sets_of_four_to_six_dialogues_in_order():
    data = bl.load_dataset("dialogue_sets")
    assert (data.n_contexts, len(data.candidates), data.scale) == (25, 25, (1.0, 10.0))
    assert data.candidates["text"].is_unique
    sizes = {len(turns_of(text)) for text in data.candidates["text"]}
    assert sizes == {4, 5, 6}
    for text in data.candidates["text"]:
        assert [block.split("\n")[0] for block in text.split("\n\n")] == [
            f"Dialogue {place}" for place in range(1, len(turns_of(text)) + 1)
        ]


@pytest.mark.parametrize("number", range(dialogue_sets.N_SETS))
def test_severity_is_the_count_of_faults_in_the_text(number):
    """Facts and repeated turns are counted in the text itself."""
    text, severity = dialogue_sets.write_set(number)
    dialogues, start = turns_of(text), number % 8
    repeated = sum(dialogues[k][-2:] == dialogues[k - 1][:2] for k in range(1, len(dialogues)))
    told = []
    for place, turns in enumerate(dialogues):
        theme = (start + place) % 8
        for fact in (theme, (theme - 2) % 8):
            said = " ".join((turns[0], turns[2]))
            told += [(fact, value) for value in dialogue_sets.FACTS[fact] if value in said]
    values = {fact: {value for other, value in told if other == fact} for fact, _ in told}
    contradicted = sum(len(each) - 1 for each in values.values())
    assert repeated + contradicted > 0
    assert severity == 1 + 2 * repeated + 2.5 * contradicted


def test_a_path_is_refused(tmp_path):
    with pytest.raises(InputError, match="bundled"):
        dialogue_sets.load(tmp_path)
