"""Overlap metrics against hand counts, and what they are compared with."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.core.schema import CANDIDATE_COLUMNS
from biaslab.measures.scoring import reference_scores
from biaslab.measures.scoring.reference import _score, compared_with

WORDS = st.lists(st.sampled_from(["rain", "fell", "snow", "on", "roof"]), min_size=1, max_size=8).map(" ".join)


def dataset(texts, references, contexts=None):
    rows = [
        (f"c{i}", (contexts or [""] * len(texts))[i], "x", "s", text, reference)
        for i, (text, reference) in enumerate(zip(texts, references, strict=True))
    ]
    human = pd.DataFrame(columns=["context_id", "candidate_id", "attribute", "annotator", "score"])
    return bl.Dataset("d", pd.DataFrame(rows, columns=list(CANDIDATE_COLUMNS)), human, {"a": "A.", "b": "B."})


@pytest.mark.slow
def test_scores_counted_by_hand():
    text, reference = "the cat sat on a mat", "the cat lay on the mat"
    found = reference_scores(dataset([text], [reference]), attributes=["a"]).set_index("scorer")["score"]
    assert found["ROUGE-1 (reference)"] == pytest.approx(4 / 6)  # the, cat, on, mat
    assert found["ROUGE-2 (reference)"] == pytest.approx(1 / 5)  # the cat
    assert found["ROUGE-L (reference)"] == pytest.approx(4 / 6)
    # BLEU: 4/6, 1/5, and smoothed 1/(2·4), 1/(4·3), equal lengths
    assert found["BLEU (reference)"] == pytest.approx(100 * (4 / 6 * 1 / 5 * 1 / 8 * 1 / 12) ** 0.25)
    assert 0 < found["chrF (reference)"] < 100


def chrf(text, other):
    """F2 of character n-grams to 6, precision and recall averaged over the orders that both texts have."""
    grams = [[list(zip(*(t.replace(" ", "")[i:] for i in range(n)), strict=False)) for n in range(1, 7)]
             for t in (text, other)]  # fmt: skip
    p, r = [], []
    for one, two in zip(*grams, strict=True):
        if one and two:
            shared = sum(min(one.count(g), two.count(g)) for g in set(one))
            p.append(shared / len(one))
            r.append(shared / len(two))
    p, r = np.mean(p), np.mean(r)
    return 100 * 5 * p * r / (4 * p + r) if p + r else 0.0


@given(WORDS, WORDS)
def test_chrf_is_the_f2_of_character_ngrams(text, other):
    assert _score("chrF")(text, [other]) == pytest.approx(chrf(text, other), abs=1e-6)


@given(WORDS, WORDS)
@pytest.mark.parametrize("metric", ["ROUGE-1", "ROUGE-2", "ROUGE-L", "BLEU", "chrF"])
def test_ranges_and_identity(metric, text, other):
    most = 1 if metric.startswith("ROUGE") else 100
    assert 0 <= _score(metric)(text, [other]) <= most + 1e-9
    if len(text.split()) > 1:
        assert _score(metric)(text, [text]) == pytest.approx(most)


def test_every_attribute_has_the_same_score_and_its_provenance(graded):
    found = reference_scores(graded, ["ROUGE-L", "BLEU"])
    assert set(found["attribute"]) == set(graded.attributes)
    wide = found.pivot_table(index=["scorer", "context_id", "candidate_id"], columns="attribute", values="score")
    assert (wide.to_numpy() == wide.to_numpy()[:, :1]).all()
    assert set(found["judge"].str.split().str[0]) == {"rouge-score", "sacrebleu"}
    assert not found.duplicated(["scorer", "attribute", "context_id", "candidate_id"]).any()


def test_source_where_there_is_no_reference():
    texts = ["Rain fell.", "Snow fell."]
    both = dataset(texts, ["Rain.", "Snow."], ["It rained.", "It snowed."])
    some = dataset(texts, ["Rain.", " "], ["It rained.", "It snowed."])
    assert compared_with(both) == ("reference", ["Rain.", "Snow."])
    assert compared_with(some) == ("source", ["It rained.", "It snowed."])
    assert compared_with(both, "source")[0] == "source"
    assert reference_scores(some, ["BLEU"])["scorer"].unique().tolist() == ["BLEU (source)"]
    with pytest.raises(InputError, match="context 'c1', candidate 'x' has no reference"):
        compared_with(some, "reference")
    with pytest.raises(InputError, match="has no source"):
        compared_with(dataset(texts, ["", ""]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metrics": ["METEOR"]}, "chrF"),
        ({"metrics": "BLEU"}, "a list"),
        ({"metrics": []}, "a list"),
        ({"attributes": ["beauty"]}, "beauty"),
        ({"against": "humans"}, "reference, source"),
    ],
)
def test_bad_parameters_are_named(graded, options, words):
    with pytest.raises(InputError, match=words):
        reference_scores(graded, **options)


def test_a_copy_of_the_reference_is_best(graded):
    copies = replace(graded, candidates=graded.candidates.assign(text=graded.candidates["reference"]))
    for metric in ("ROUGE-1", "BLEU", "chrF"):
        assert (reference_scores(graded, [metric])["score"] <= reference_scores(copies, [metric])["score"] + 1e-9).all()


def test_rouge_is_the_mean_over_several_references():
    one, two = (dataset(["rain fell on snow"], [reference]) for reference in ("rain fell", "snow on roof"))
    both = replace(one, candidates=one.candidates.assign(reference_2=two.candidates["reference"], reference_3=""))
    for metric in ("ROUGE-1", "ROUGE-2"):
        alone = [reference_scores(each, [metric])["score"] for each in (one, two)]
        assert reference_scores(both, [metric])["score"].to_numpy() == pytest.approx(np.mean(alone, axis=0))
    best = max(_score("chrF")("rain fell on snow", [other]) for other in ("rain fell", "snow on roof"))
    assert reference_scores(both, ["chrF"])["score"].iloc[0] == pytest.approx(best)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_rouge_on_summeval_reproduces_table_1_of_wang2023(shared_data):
    data = bl.load_dataset("summeval", shared_data / "summeval" / "means_1600.json.gz")
    assert data.variables == tuple(f"reference_{number}" for number in range(2, 12))
    scores = reference_scores(data, ["ROUGE-1", "ROUGE-2"])
    scores["metric"] = scores["scorer"].str.removesuffix(" (reference)")
    means = data.human_means.reset_index().melt(
        ["context_id", "candidate_id"], var_name="attribute", value_name="human"
    )
    scores = scores.merge(means, on=["context_id", "candidate_id", "attribute"])
    printed = bl.published.load("wang2023", table=1)
    printed = printed[printed["row"].str.contains("ROUGE-[12]")]
    assert len(printed) == 24
    for row in printed.itertuples():
        cell = scores[(scores["attribute"] == row.attribute) & (scores["metric"] == row.row.split(" | ")[-1])]
        within = [part["score"].corr(part["human"], row.metric) for _, part in cell.groupby("context_id")]
        assert np.nanmean(within) == pytest.approx(row.value, abs=0.003), row.row
