"""Every probe with every kind of judge: it estimates, or one sentence says why it cannot."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest

import biaslab as bl
from biaslab.core import Choice, Completion, Likelihood, Metric
from biaslab.core.errors import UnsupportedRequestError
from biaslab.judges.loading import find_model, load_model
from biaslab.probes import FORMS as TABLE_FORMS, available
from biaslab.probes.base import WRITTEN, ScoreProbe
from biaslab.probes.familiarity import log_perplexities

KINDS = [kind for name in dir(bl.probes) if isinstance(kind := getattr(bl.probes, name), type)]
PROBES = {kind.name: kind for kind in KINDS if hasattr(kind, "name")}
#: What a judge gives: label probabilities; text alone; verdicts or scores of texts without a prompt; rewards.
ALL = ("distribution", "text", "pair function", "score function", "list function", "reward")
READS = ALL[:2]
MATRIX = {
    "anchoring": READS,
    "comparative": (*READS, "pair function", "reward"),
    "consistency": READS,
    "edit": (*READS, "pair function", "score function", "reward"),
    "familiarity": (*READS, "score function", "reward"),
    "list_position": (*READS, "list function", "reward"),
    "output_order": READS,
    "position": (*READS, "pair function", "reward"),
    "recipe": READS,
    "score_distribution": READS,
    "self_preference": (*READS, "pair function", "score function", "reward"),
    "source": (*READS, "score function", "reward"),
    "sweep": READS,
    "template": READS,
    "thinking": READS,
    "vacuum": READS,
    "verbosity": (*READS, "score function", "reward"),
}
WHY_NOT = {
    "pair function": (
        "scores single texts, but",
        "shows several texts at once, but",
        "needs prompts and text replies, but",
    ),
    "score function": (
        "compares two texts, but",
        "shows several texts at once, but",
        "needs prompts and text replies, but",
    ),
    "list function": (
        "compares two texts, but",
        "scores single texts, but",
        "needs prompts and text replies, but",
    ),
    "reward": ("needs prompts and text replies, but",),
}


def longer(first, second):
    """Prefer the longer text, by more than five characters."""
    return "tie" if abs(len(first) - len(second)) <= 5 else "first" if len(first) > len(second) else "second"


def by_length(candidate):
    """Score a text by its length."""
    return min(5.0, 1 + len(candidate) / 200)


def longest(candidates):
    """Rank texts by their length."""
    return sorted(range(len(candidates)), key=lambda at: -len(candidates[at]))


def with_perplexities(probe, data):
    """Give a probe of familiarity what it would have the embedded model read."""
    read = bl.collect(bl.probes.Familiarity(asks="likelihoods"), bl.SimulatedJudge(data), data, progress=False)
    return dataclasses.replace(probe, log_perplexity=log_perplexities(read, data))


class WriterOnly(bl.SimulatedJudge):
    """A judge that gives no probabilities."""

    kinds = frozenset({Completion})


@pytest.fixture(scope="module")
def judges(graded):
    import torch
    import transformers

    _, tokenizer = load_model(find_model("smollm2-135m"), "float32", "cpu")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_labels=1, max_position_embeddings=2048, pad_token_id=0, initializer_range=0.2,
    )  # fmt: skip
    model = transformers.LlamaForSequenceClassification(config).eval()
    assert {Choice, Completion, Likelihood} <= bl.SimulatedJudge.kinds
    return {
        "distribution": bl.SimulatedJudge(graded, noise=0.5),
        "text": WriterOnly(graded, noise=0.5),
        "pair function": bl.FunctionJudge(longer),
        "score function": bl.FunctionJudge(by_length),
        "list function": bl.FunctionJudge(longest),
        "reward": bl.RewardJudge.from_loaded(model, tokenizer, "random"),
    }


def test_the_matrix_names_every_probe():
    assert set(MATRIX) == set(PROBES)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("judge", ALL)
@pytest.mark.parametrize("name", MATRIX)
def test_a_probe_estimates_or_says_why_not(graded, judges, name, judge):
    probe, data = PROBES[name](None if name == "anchoring" else ["coherence"]), graded.head(4)
    if name == "familiarity" and judge in ("score function", "reward"):  # or the embedded model reads all texts again
        probe = with_perplexities(probe, data)
    if judge not in MATRIX[name]:
        with pytest.raises(UnsupportedRequestError) as refused:
            bl.collect(probe, judges[judge], data, progress=False)
        assert any(f"{name} {why}" in str(refused.value) for why in WHY_NOT[judge])
        return
    trials = bl.collect(probe, judges[judge], data, progress=False)
    assert trials["value"].notna().any()
    estimates = probe.estimate(trials)
    assert estimates.loc[estimates["metric"].isin(probe.primary), "estimate"].notna().any()


PAIR = bl.Protocol.from_template(
    "Question: {question}\n\n[A]\n{answer_a}\n\n[B]\n{answer_b}", name="pair",
    verdicts={"A>>B": 1, "A>B": 0.75, "A=B": 0.5, "B>A": 0.25, "B>>A": 0}, pattern=r"\[\[([AB<>=]+)\]\]",
)  # fmt: skip
SCORE = bl.Protocol.from_template(
    'Question: {question}\n\nAnswer: {answer}\n\nRate {attribute}. Explain, then reply as {"score": 1 to 5}.',
    "score", scale="1-5", json="score", name="score",
)  # fmt: skip
LIST = bl.Protocol.from_template(
    "Question: {question}\n\n{candidates}\n\nRank all by {attribute}.", "list", replies="order", name="list"
)
OF_PAIRS = ("position", "comparative", "vacuum", "edit", "self_preference", "verbosity", "familiarity",
            "source", "consistency")  # fmt: skip
OF_SCORES = ("verbosity", "familiarity", "source", "score_distribution", "consistency", "edit", "self_preference")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("judge", READS)
@pytest.mark.parametrize(
    ("name", "protocol"),
    [*((name, PAIR) for name in OF_PAIRS), *((name, SCORE) for name in OF_SCORES), ("list_position", LIST)],
)
def test_every_probe_of_one_prompt_asks_with_a_protocol(graded, judges, name, protocol, judge):
    probe, data = PROBES[name](["coherence"], protocol=protocol), graded.head(4)
    if name == "self_preference":
        probe = dataclasses.replace(probe, perplexity=False)
    if name == "familiarity":
        probe = with_perplexities(probe, data)
    trials = bl.collect(probe, judges[judge], data, progress=False)
    column = "protocol" if protocol.form == "score" or name in ("source", "consistency") else "template"
    asked = trials[trials["asked"] == "score"] if "asked" in trials and protocol is SCORE else trials
    assert set(asked[column].dropna()) == {protocol.id}
    assert set(asked["status"]) <= {"ok", "tie"}
    assert probe.estimate(trials)["estimate"].notna().any()


FORMS = {"pair": PAIR, "score": SCORE, "list": LIST}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", sorted({*OF_PAIRS, *OF_SCORES, "list_position"}))
def test_a_protocol_of_another_form_is_refused_in_one_sentence(name, form):
    if form in PROBES[name].protocol_forms:
        assert PROBES[name](["coherence"], protocol=FORMS[form]).protocol is FORMS[form]
        return
    with pytest.raises(bl.errors.InputError, match=f"this one is a {form}$"):
        PROBES[name](["coherence"], protocol=FORMS[form])


@pytest.mark.parametrize("name", ["anchoring", "template"])
def test_a_probe_with_prompts_of_its_own_takes_no_protocol(name):
    with pytest.raises(bl.errors.InputError, match=f"None, because {name} has its own prompts"):
        PROBES[name](protocol=SCORE)


def test_a_planted_rule_of_length_is_found(graded):
    def rule(candidate, context):
        return 4 if len(candidate) > np.median(lengths[context]) + 5 else 2

    lengths = {name: rows["text"].str.len() for name, rows in graded.candidates.groupby("context")}
    probe = bl.probes.Verbosity(["coherence"])
    row = probe.estimate(bl.collect(probe, rule, graded, progress=False), ["verbosity_slope"]).iloc[0]
    assert row["ci_low"] > 0
    assert "scores longer text higher" in bl.report.verdicts(row.to_frame().T)[0]


def test_each_primary_metric_has_one_row_per_form():
    rows = bl.probes.table()
    assert not rows.duplicated(["probe", "form", "metric"]).any()
    for name, kind in available().items():
        own = rows[rows["probe"] == name]
        assert set(own["form"]) == set(kind.asks_for) <= set(TABLE_FORMS)
        declared = {(form, m.name) for m in kind.metrics if m.primary for form in kind.asks_for if m.form in ("", form)}
        assert declared <= set(zip(own["form"], own["metric"], strict=True))
        assert set(kind.primary) <= set(own["metric"])
        for row in own.to_dict("records"):
            metric = bl.probes.find_metric(row["metric"], name)
            assert (row["what"], row["unit"], row["null"]) == (metric.label, metric.unit, metric.null)


def test_a_form_of_a_metric_is_one_of_its_probe():
    for kind in available().values():
        assert {metric.form for metric in kind.metrics} <= {"", *kind.asks_for}


def test_protocol_forms_are_among_the_forms_asked_for():
    for name, kind in available().items():
        assert set(kind.protocol_forms) <= set(kind.asks_for), name


def test_table_lists_probes_that_accept_any_judge():
    judges = bl.probes.table().drop_duplicates("probe").set_index("probe")["judges"]
    assert (judges[["position", "verbosity", "edit", "self_preference"]] == "any").all()
    assert (judges[["vacuum", "anchoring", "consistency", "template"]] == "prompted").all()


@pytest.fixture
def own():
    @dataclass(frozen=True)
    class Shade(ScoreProbe):
        """A probe of a notebook."""

        name = "shade"
        metrics = (Metric("shade_shift", "shift", "points", null=0.0),)

        def design(self, dataset):
            return ()

        def measure(self, cell):
            return iter(())

    yield Shade
    WRITTEN.pop("shade")


def test_a_probe_of_a_notebook_is_in_the_table(own):
    rows = bl.probes.table()
    assert rows.loc[rows["probe"] == "shade", ["form", "metric"]].to_numpy().tolist() == [["score", "shade_shift"]]
