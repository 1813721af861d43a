"""Annotations as annotator → item → label: read, or refused with a line that reads them when pasted."""

import gzip
import json
import random
import re
import shlex

import pandas as pd
import pytest

from biaslab.cli import main
from biaslab.core.errors import InputError
from biaslab.logs.audit.annotators import audit_humans
from biaslab.logs.readers import read_judgements

ITEMS = [f"item {n}" for n in range(40)]
LABELS = {
    "scores": [1, 2, 3, 4, 5],
    "answers": ["yes", "no", "n/a: resolved"],
    "kinds": ["Part of", "Opposite", "Cause"],
    "verdicts": ["model_a", "model_b", "tie"],
}


def annotations(kind, names, seed=0, share=1.0):
    rng = random.Random(seed)
    items = ITEMS
    if kind == "verdicts":
        items = [f"{n}__{one}__{two}__{turn}" for n in range(10) for turn in (1, 2) for one, two in ("xy", "xz", "zy")]
    return {
        name: {item: rng.choice(LABELS[kind]) for item in items if rng.random() < share or item == items[0]}
        for name in names
    }


def pasted(message):
    """Return the mapping of the line that a message shows."""
    words = shlex.split(re.search(r"--map .*", message)[0])
    return dict(word.split("=", 1) for word in words if word != "--map")


def flat(given):
    return pd.DataFrame([(who, item, label) for who, labels in given.items() for item, label in labels.items()],
                        columns=["judge", "item", "label"])  # fmt: skip


def saved(path, given, indent=None):
    path.write_text(json.dumps(given, indent=indent))
    return path


@pytest.mark.parametrize("indent", [None, 1])
def test_scores_of_models_are_read(tmp_path, indent):
    given = annotations("scores", ["gpt-4o", "llama-31"], share=0.8)
    trials = read_judgements(saved(tmp_path / "a.json", given, indent))
    expected = flat(given)
    assert trials["judge"].tolist() == expected["judge"].tolist()
    assert trials["context_id"].tolist() == expected["item"].tolist()
    assert trials["value"].tolist() == expected["label"].tolist()
    assert set(trials["scale"]) == {"1-5"}
    assert trials["key"].iloc[-1] == f"a.json:{len(expected)}"


def test_scores_of_people_are_read_with_the_line_that_is_shown(tmp_path):
    given = annotations("scores", ["w1", "w2", "w3"], share=0.7)
    file = saved(tmp_path / "a.json", given)
    with pytest.raises(InputError, match="may be people or judges") as refused:
        read_judgements(file)
    trials = read_judgements(file, mapping=pasted(str(refused.value)))
    assert trials["value"].tolist() == flat(given)["label"].tolist()
    estimates = audit_humans(trials).set_index("level")
    assert estimates["n_trials"].tolist() == [len(trials)] * 3
    assert estimates["estimate"].abs().max() < 0.4  # drawn at random


@pytest.mark.parametrize("kind", ["answers", "kinds"])
def test_names_of_labels_are_read_with_the_line_that_is_shown(tmp_path, kind):
    given = annotations(kind, ["gpt-4o", "ann"])
    file = saved(tmp_path / "a.json", given)
    with pytest.raises(InputError, match="the labels are not numbers") as refused:
        read_judgements(file)
    trials = read_judgements(file, mapping=pasted(str(refused.value)))
    numbers = dict(zip(flat(given)["label"], trials["value"], strict=True))
    unread = {"n/a: resolved"} if kind == "answers" else set()
    assert {label for label, number in numbers.items() if pd.isna(number)} == unread
    assert sorted(number for number in numbers.values() if number == number) == ([0, 1] if unread else [1, 2, 3])
    assert (trials["value"].isna() == flat(given)["label"].isin(unread)).all()


def test_suggested_mapping_reads_verdicts_on_named_candidates(tmp_path):
    given = annotations("verdicts", ["gpt-4o", "ann"])
    file = saved(tmp_path / "a.json", given)
    with pytest.raises(InputError, match="if they name positions as shown") as refused:
        read_judgements(file)
    trials = read_judgements(file, mapping=pasted(str(refused.value)))
    names = ["context_id", "candidate_id", "opponent_id", "configuration"]
    assert trials[names].apply("__".join, axis=1).tolist() == flat(given)["item"].tolist()
    values = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}
    assert trials["value"].tolist() == flat(given)["label"].map(values).tolist()


def test_people_of_another_file_are_joined_by_item(tmp_path):
    judges, people = annotations("scores", ["gpt-4o"]), annotations("scores", ["w1", "w2", "w3"], seed=1, share=0.5)
    saved(tmp_path / "people.json", people)
    mapping = {"join": f"{tmp_path / 'people.json'} on item", "ratings": "w1, w2, w3"}
    trials = read_judgements(saved(tmp_path / "judges.json", judges), mapping=mapping)
    means = flat(people).groupby("item")["label"].mean()
    rated = trials.set_index("context_id")
    assert rated["human"].to_dict() == pytest.approx(means.reindex(rated.index).to_dict(), nan_ok=True)
    assert trials.attrs["malformed"] == len(ITEMS) - len(trials) == len(set(ITEMS) - set(means.index))


def test_on_the_command_line_the_mapping_has_a_line_of_its_own(tmp_path, capsys):
    file = saved(tmp_path / "a.json", annotations("answers", ["gpt-4o", "ann"]))
    assert main(["doctor", str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    [line] = [line for line in lines if "--map" in line]
    assert line.startswith("  as scores of 0 and 1: --map judge=annotator --map context_id=item ")
    assert lines[-4:] == ["  the first rows:", *lines[-3:]]
    words = shlex.split(line.partition(": ")[2])
    assert main(["doctor", str(file), *words]) == 0
    assert "80 judgements" in capsys.readouterr().out


@pytest.mark.parametrize(
    "other",
    [
        {"settings": {"model": "gpt-4o", "seed": 1}, "results": {"accuracy": 0.5, "seed": 1}},
        {"a": {f"i{n}": 1 for n in range(20)}, "b": {f"j{n}": 1 for n in range(20)}},
        {"a": {f"i{n}": [1] for n in range(20)}, "b": {f"i{n}": 1 for n in range(20)}},
        {"a": {f"i{n}": f"a text {n}" for n in range(30)}, "b": {f"i{n}": f"another {n}" for n in range(30)}},
    ],
)
def test_other_objects_are_not_taken_for_annotations(tmp_path, other):
    with pytest.raises(InputError) as refused:
        read_judgements(saved(tmp_path / "a.json", other))
    assert "judge=annotator" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "judged", "rated", "pairs"),
    [
        ("wax", 6 * 246, 1380, False),
        ("mtbench", 6 * 120, 246, True),
        ("framing", 6 * 2552, 7656, False),
        ("10k_prompts", 6 * 1698, 3844, False),
        ("cebab_stars", 6 * 711, 2193, False),
    ],
)
def test_files_of_the_alt_test(shared_data, name, judged, rated, pairs):
    for who, count in (("llm", judged), ("human", rated)):
        file = shared_data / "recorded" / "alt_test" / name / f"{who}_annotations.json.gz"
        try:
            trials = read_judgements(file)
        except InputError as error:
            trials = read_judgements(file, mapping=pasted(str(error)))
        expected = flat(json.loads(gzip.decompress(file.read_bytes())))
        assert len(trials) == len(expected) == count
        assert trials["judge"].tolist() == expected["judge"].tolist()
        assert trials["opponent_id"].notna().all() == pairs
        usable = trials["status"].isin(["ok", "tie"]).to_numpy()
        read = expected[usable].assign(value=trials["value"].to_numpy()[usable])
        pairs_of = read[["label", "value"]].drop_duplicates()
        assert len(pairs_of) == len(set(pairs_of["label"])) == len(set(pairs_of["value"]))  # one number a label
        assert usable.mean() > 0.95
