"""The two constructed data sets: rebuilt from their script, balanced, and ordered as documented."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import combinations
from pathlib import Path

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import DatasetError, InputError
from biaslab.core.schema import CANDIDATE_COLUMNS, HUMAN_COLUMNS
from biaslab.datasets import construction, load_dataset
from biaslab.datasets.construction import WrittenOriginal, arrange, read_sources
from tools.constructed import building
from tools.constructed.degrading import LOSSES, STOCK_REPLIES, degrade

SETS = {"graded": construction.load_graded, "dialogues": construction.load_dialogues}
FOLDER = Path(construction.__file__).parent
both = pytest.mark.parametrize("name", list(SETS))
every_text, every_situation = (
    pytest.mark.parametrize("source", read_sources(name), ids=lambda source: source["context_id"]) for name in SETS
)


def words(text: str) -> int:
    return len(text.split())


def sentences(source: WrittenOriginal, recipe: dict[str, int]) -> list[str]:
    return degrade(source["summary"], source, recipe)


@both
def test_stored_file_equals_the_built_table(name: str) -> None:
    stored = pd.read_csv(FOLDER / f"{name}_built.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(stored, building.build(name))


@both
def test_command_rewrites_both_files_byte_for_byte(name: str, tmp_path: Path) -> None:
    building.main(tmp_path)
    assert (tmp_path / f"{name}_built.csv").read_bytes() == (FOLDER / f"{name}_built.csv").read_bytes()


def test_graded_has_the_promised_shape() -> None:
    data = load_dataset("graded")
    assert repr(data) == "Dataset('graded (constructed)': 96 contexts, 576 candidates, 4 attributes, 2304 human scores)"
    assert (data.candidates.groupby("context_id").size() == 6).all()
    genres = Counter(context.rpartition("-")[0] for context in data.candidates["context_id"].unique())
    assert genres == {"news": 20, "science": 19, "sport": 19, "how-to": 19, "dialogue": 19}
    assert data.scale == (1.0, 5.0)
    assert data.noun == "summary"
    assert list(data.attributes) == ["coherence", "consistency", "fluency", "relevance"]
    assert not data.candidates["reference"].isin(data.candidates["text"]).any()


def test_dialogues_have_the_promised_shape() -> None:
    data = load_dataset("dialogues")
    assert data.n_contexts == 10
    assert data.candidates.groupby("context_id").size().between(4, 6).all()
    assert data.candidates["text"].str.split("\n").str.len().between(6, 10).all()
    assert data.scale == (1.0, 10.0)
    assert data.noun == "dialogue"
    speakers = {source["context_id"]: source["speakers"] for source in read_sources("dialogues")}
    for context, text in zip(data.candidates["context_id"], data.candidates["text"], strict=True):
        assert [turn.partition(": ")[0] for turn in text.split("\n")] == speakers[context] * 4


@both
def test_frames_follow_the_schema_and_declare_construction(name: str) -> None:
    data = load_dataset(name)
    assert tuple(data.candidates.columns) == CANDIDATE_COLUMNS
    assert tuple(data.human.columns) == HUMAN_COLUMNS
    assert set(data.human["annotator"]) == {"construction"}
    assert not data.human_means.isna().any(axis=None)
    assert len(data.human) == len(data.candidates) * len(data.attributes)
    for text in (data.provenance, SETS[name].__doc__):
        assert "constructed" in text.lower()
        assert "nobody rated" in text or "Not human ratings" in text
    assert "Apache-2.0" in data.provenance
    assert "Constructed" in json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["about"]


def test_texts_and_summaries_keep_their_length() -> None:
    sources = read_sources("graded")
    assert all(90 <= words(source["text"]) <= 160 for source in sources)
    assert all(len(source["summary"]) == 4 for source in sources)
    assert all(40 <= words(" ".join(source["summary"])) <= 70 for source in sources)
    lengths = building.build("graded").assign(length=lambda frame: frame["text"].map(words))
    spread = lengths.groupby("context_id")["length"].agg(["min", "max"])
    assert (spread["max"] <= 1.4 * spread["min"]).all()


@both
def test_texts_are_unique_and_attributes_have_three_levels(name: str) -> None:
    data = load_dataset(name)
    assert not data.candidates["text"].duplicated().any()
    assert data.candidates["context"].nunique() == data.n_contexts
    levels = data.human.groupby(["context_id", "attribute"])["score"].nunique()
    assert (levels >= 3).all()


@both
def test_attributes_are_not_ordered_alike(name: str) -> None:
    data = load_dataset(name)
    for context, means in data.human_means.groupby(level="context_id"):
        for first, second in combinations(data.attributes, 2):
            assert not means[first].rank().equals(means[second].rank()), (context, first, second)
    if name == "graded":
        between = data.human_means.corr().to_numpy()
        assert max(abs(between[i, j]) for i, j in combinations(range(4), 2)) < 0.5


@both
def test_scores_are_the_best_score_less_the_documented_losses(name: str) -> None:
    data = load_dataset(name)
    recipes = {system: recipe for plan in building.PLANS[name] for system, recipe in plan.items()}
    scores = data.human_means.reset_index(drop=True)
    for row, system in enumerate(data.candidates["system"]):
        for attribute in data.attributes:
            lost = sum(LOSSES[d][level - 1].get(attribute, 0) for d, level in recipes[system].items())
            assert scores.loc[row, attribute] == data.scale[1] - lost


@pytest.mark.parametrize("degradation", list(LOSSES))
def test_higher_degradation_loses_more_points(degradation: str) -> None:
    for weaker, stronger in zip(LOSSES[degradation], LOSSES[degradation][1:], strict=False):
        assert all(stronger.get(attribute, 0) >= loss for attribute, loss in weaker.items())
        assert sum(stronger.values()) > sum(weaker.values())


@both
def test_clean_candidate_alone_has_full_marks(name: str) -> None:
    data = load_dataset(name)
    perfect = (data.human_means == data.scale[1]).all(axis=1).to_numpy()
    assert (perfect == (data.candidates["system"] == "clean").to_numpy()).all()


@both
def test_candidate_ids_are_neutral_and_places_balanced(name: str) -> None:
    data = load_dataset(name)
    places = data.candidates.groupby("context_id").cumcount() + 1
    assert (data.candidates["candidate_id"] == "c" + places.astype(str)).all()
    for number, plan in enumerate(building.PLANS[name]):
        contexts = data.candidates["context_id"].unique()[number :: len(building.PLANS[name])]
        rows = data.candidates[data.candidates["context_id"].isin(contexts)]
        counts = Counter(zip(rows["system"], rows["candidate_id"], strict=True))
        assert {system for system, _ in counts} == set(plan)
        if name == "graded":
            assert set(counts.values()) == {8}
            assert len(counts) == 36
        else:
            assert set(counts.values()) == {1}


def test_graded_scores_do_not_depend_on_the_place() -> None:
    data = load_dataset("graded")
    by_place = data.human.groupby(["attribute", "candidate_id"])["score"].mean().groupby("attribute")
    assert (by_place.max() - by_place.min() < 1e-9).all()


@every_text
def test_summary_degradations_have_their_stated_effect(source: WrittenOriginal) -> None:
    clean = source["summary"]
    out_of_order = []
    for level in (1, 2, 3):
        order = [clean.index(sentence) for sentence in sentences(source, {"shuffle": level})]
        assert sorted(order) == [0, 1, 2, 3]
        out_of_order.append(sum(a > b for a, b in combinations(order, 2)))
        swapped = sentences(source, {"swap_facts": level})
        assert sum(a != b for a, b in zip(swapped, clean, strict=True)) == level
    assert out_of_order == [1, 3, 6]
    changed = [
        sum(a != b for a, b in zip(sentences(source, {"break_grammar": level}), clean, strict=True))
        for level in (1, 2, 3)
    ]
    assert changed == [2, 4, 4]
    assert sentences(source, {"break_grammar": 3}) != sentences(source, {"break_grammar": 2})
    assert sentences(source, {"repeat": 1}) == [*clean[:3], clean[0]]
    assert sentences(source, {"repeat": 2}) == [*clean[:2], *clean[:2]]
    assert clean[source["lesser"]] not in sentences(source, {"sidetrack": 1})
    assert clean[source["key"]] not in sentences(source, {"sidetrack": 2})
    assert {source["aside"], source["off_topic"]} < set(sentences(source, {"sidetrack": 3}))


@every_text
def test_annotations_are_consistent(source: WrittenOriginal) -> None:
    assert source["key"] in (1, 2)
    assert source["lesser"] in {1, 2, 3} - {source["key"]}
    for which in ("swaps", "slips"):
        assert sorted(place for place, _, _ in source[which]) == [0, 1, 2, 3]
        for place, old, new in source[which]:
            assert old in source["summary"][place]
            assert new not in source["summary"][place].split()
    assert source["off_topic"] not in source["text"]


@every_situation
def test_dialogue_degradations_have_their_stated_effect(source: WrittenOriginal) -> None:
    clean = source["turns"]
    for level in (1, 2, 3):
        echoed = degrade(clean, source, {"echo": level})
        assert echoed.count(clean[source["repeat"]]) == level + 1
        dulled = degrade(clean, source, {"dull": level})
        assert set(dulled) - set(clean) == set(STOCK_REPLIES[:level])
    for level in (1, 2):
        denied = degrade(clean, source, {"contradict": level})
        assert sum(a != b for a, b in zip(denied, clean, strict=True)) == level
        assert all(denied[stated] == clean[stated] for stated, _, _ in source["contradictions"])


@pytest.mark.parametrize("names", ["abcd", "abcde", "abcdef"])
def test_every_arrangement_puts_each_name_once_in_each_place(names: str) -> None:
    rows = [arrange(names, row) for row in range(len(names))]
    assert all(sorted(line) == list(names) for line in (*rows, *zip(*rows, strict=True)))


def test_wrong_annotations_are_refused() -> None:
    source = dict(read_sources("graded")[0])
    source["swaps"] = [[0, "words that are not there", "others"]]
    with pytest.raises(DatasetError, match=r"news-1 swaps: sentence 0 lacks"):
        sentences(source, {"swap_facts": 1})
    with pytest.raises(DatasetError, match="1 can be applied, not 2"):
        sentences(source, {"swap_facts": 2})
    dialogue = dict(read_sources("dialogues")[0])
    dialogue["contradictions"] = [[2, 5, "A turn of the other speaker."]]
    with pytest.raises(DatasetError, match="a later turn of the same speaker"):
        degrade(dialogue["turns"], dialogue, {"contradict": 1})


@both
def test_another_folder_is_read_and_checked(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{name}_built.csv"):
        load_dataset(name, path=tmp_path)
    stored = (FOLDER / f"{name}_built.csv").read_text(encoding="utf-8")
    (tmp_path / f"{name}_built.csv").write_text(stored, encoding="utf-8")
    (tmp_path / f"{name}.json").write_bytes((FOLDER / f"{name}.json").read_bytes())
    assert load_dataset(name, path=tmp_path).candidates.equals(load_dataset(name).candidates)
    (tmp_path / f"{name}_built.csv").write_text(stored.replace("-1,c1,", "-77,c1,"), encoding="utf-8")
    with pytest.raises(DatasetError, match="-77"):
        load_dataset(name, path=tmp_path)
    (tmp_path / f"{name}_built.csv").write_text(stored.replace("coherence", "order", 1), encoding="utf-8")
    with pytest.raises(DatasetError, match="coherence"):
        load_dataset(name, path=tmp_path)


def test_lengths_and_errors_are_independent() -> None:
    """Each text has the six combinations, whose errors are the same number at every length."""
    data = load_dataset("lengths")
    frame = data.candidates.merge(data.human)
    assert (frame.groupby("context_id").size() == 6).all()
    assert (frame.groupby("system")["candidate_id"].nunique() == 6).all()  # no place tells the recipe
    frame["words"] = frame["text"].map(words)
    frame["length"] = frame["system"].str.partition(",")[0]
    wide = frame.pivot_table(index="context_id", columns="length", values="words")
    assert (wide["short"] * 1.5 < wide["whole"]).all()
    assert (wide["whole"] * 1.2 < wide["long"]).all()
    doublings = frame["words"].map(math.log2)
    within = doublings - doublings.groupby(frame["context_id"]).transform("mean")
    assert within.std() > 0.6
    assert abs(within.corr(frame["score"])) < 0.01
    assert frame.groupby("score")["system"].unique().map(sorted).to_dict() == {
        3.0: ["long, misreported", "short, misreported", "whole, misreported"],
        5.0: ["long", "short", "whole"],
    }


def test_lengths_differ_from_their_clean_version_in_two_places() -> None:
    frame = load_dataset("lengths").candidates
    for _, part in frame.groupby("context_id"):
        texts = dict(zip(part["system"], part["text"], strict=True))
        source = texts["whole"]
        for length in ("short", "whole", "long"):
            clean, wrong = (texts[name].split(". ") for name in (length, f"{length}, misreported"))
            assert 1 <= sum(a != b for a, b in zip(clean, wrong, strict=True)) <= 2
        assert source.startswith(texts["short"])
        assert texts["long"].startswith(source)


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


@pytest.mark.parametrize("number", range(construction.N_SETS))
def test_severity_is_the_count_of_faults_in_the_text(number):
    """Facts and repeated turns are counted in the text itself."""
    text, severity = construction.write_set(number)
    dialogues, start = turns_of(text), number % 8
    repeated = sum(dialogues[k][-2:] == dialogues[k - 1][:2] for k in range(1, len(dialogues)))
    told = []
    for place, turns in enumerate(dialogues):
        theme = (start + place) % 8
        for fact in (theme, (theme - 2) % 8):
            said = " ".join((turns[0], turns[2]))
            told += [(fact, value) for value in construction.FACTS[fact] if value in said]
    values = {fact: {value for other, value in told if other == fact} for fact, _ in told}
    contradicted = sum(len(each) - 1 for each in values.values())
    assert repeated + contradicted > 0
    assert severity == 1 + 2 * repeated + 2.5 * contradicted


def test_a_path_is_refused(tmp_path):
    with pytest.raises(InputError, match="bundled"):
        construction.load_dialogue_sets(tmp_path)
