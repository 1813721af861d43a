"""What requests say they are about is what their words show: of every probe, scorer and annotation."""

import re

import pytest

from biaslab.core import About, Choice, Completion, Likelihood, Score, request_key
from biaslab.core.errors import InputError
from biaslab.core.scales import scale_named
from biaslab.distill.annotation import Stars
from biaslab.distill.rerank import Reward
from biaslab.measures.scoring import GEval, GPTScore, PromptScoring, Rating
from biaslab.probes import available
from biaslab.probes.anchoring import Anchoring
from biaslab.probes.consistency import Consistency
from biaslab.probes.output_order import OutputOrder
from biaslab.probes.position import Position
from biaslab.probes.source import Source
from biaslab.prompts import adjectives

DESIGNS = {name: probe() for name, probe in available().items()} | {
    "pairs as text": Position(["fluency"], answer="text", ties=True),
    "several in a text": Anchoring(answer="text", n_candidates=1),
    "transcripts": Anchoring(anchor="transcript", n_candidates=1),
    "joint": Consistency(["fluency"], answer="text", n_candidates=1),
    "opened": OutputOrder(["fluency"], opened=True),
    "numbers": Source(["fluency"], answer="score"),
    "g_eval": GEval(scale="1-5 words"),
    "gpt_score": GPTScore(),
    "scoring_1": PromptScoring(),
    "scoring_2": PromptScoring(template=2, scale="1-100"),
    "rate, reasons after": Rating(reasons="after"),
    "rate, reasons before": Rating(reasons="before", answer="text"),
    "stars": Stars(),
    "stars without source": Stars(source=False, scale="0-100"),
    "all aspects": Stars(aspects=["multiple"]),
    "reward": Reward(["fluency"]),
}


def trials(design, data):
    return list({(trial.request, trial.attribute): trial for trial in design.design(data)}.values())


@pytest.mark.parametrize("name", sorted(DESIGNS))
def test_prompt_contains_the_texts_of_about(graded, name):
    rows = graded.candidates.set_index(["context_id", "candidate_id"])
    for trial in trials(DESIGNS[name], graded.head(1)):
        request, about = trial.request, trial.request.about
        assert about.context_id == trial.context_id
        expected = tuple(filter(None, (trial.candidate_id, trial.opponent_id)))
        if name == "list_position":  # a trial is one candidate at its place in the list
            assert about.candidate_ids[trial.condition["place"] - 1] == trial.candidate_id
        else:
            assert about.candidate_ids in (expected, ())
        own = [rows.loc[(trial.context_id, each), "text"] for each in about.candidate_ids]
        edits = about.edits or [""] * len(own)
        assert [text for text, edit in zip(about.texts, edits, strict=True) if not edit] == [
            text for text, edit in zip(own, edits, strict=True) if not edit
        ]
        words, source = written(request), rows.loc[(trial.context_id, trial.candidate_id), "context"]
        assert (source in words) == about.source
        places = [words.rindex(text) for text in about.texts]
        assert places == sorted(places)
        if not isinstance(request, Likelihood | Score):
            asked_as_told(request, about)
            assert trial.attribute in about.attributes or trial.attribute == "multiple"


def asked_as_told(request, about):
    """Hold attributes, answers, scale, form and the score before against the words of the last turns."""
    task = request.messages[[m.role for m in request.messages].index("user")].content
    last = [m for m in request.messages if m.role == "user"][-1].content
    assert all(name in last or adjectives()[name] in last for name in about.attributes)
    if about.labels:
        assert all(label in task for label in about.labels)
        assert not isinstance(request, Choice) or request.labels == about.labels
        return
    scale = scale_named(about.scale)
    ends = rf"{scale.labels[0]}\b.*\b{scale.labels[-1]}\b|{scale.labels[-1]}"
    assert scale.wording in last or re.search(ends, last)
    assert not isinstance(request, Choice) or tuple(map(str.strip, request.labels)) == scale.labels
    shape = {"bare": "", "lines": f"{about.attributes[0]}: <", "text": "score: <", "json": '"score": <'}
    assert shape[about.form] in last
    assert (about.form == "bare") == ("<" not in last)
    reasons = re.search("reasons", last.rpartition(scale.wording)[2])
    assert (about.reasons != "none") == bool(reasons)
    said = [m.content for m in request.messages if m.role == "assistant"]
    stands = re.findall(r"\d[\d.]*", "".join(said))
    assert ([] if about.previous is None else [about.previous]) == [float(number) for number in stands]


def written(request):
    if isinstance(request, Likelihood):
        return request.given + request.text
    if isinstance(request, Score):
        return f"{request.source}\n{request.text}"
    return "\n".join(message.content for message in request.messages)


def test_about_is_not_part_of_equality_and_key():
    about = About("c", ("a",), ("A text.",), ("fluency",))
    for bare, told in (
        (Choice("?", ("A", "B")), Choice("?", ("A", "B"), about)),
        (Completion("?"), Completion("?", about=about)),
        (Likelihood("A text."), Likelihood("A text.", about=about)),
        (Score("A text."), Score("A text.", about=about)),
    ):
        assert told.about == about
        assert (bare, hash(bare), repr(bare)) == (told, hash(told), repr(told))
        assert request_key(bare, "j") == request_key(told, "j")


def test_every_candidate_has_a_text():
    with pytest.raises(InputError, match="one value for each of a, b"):
        About("c", ("a", "b"), ("A text.",), ("fluency",))
