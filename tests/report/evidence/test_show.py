"""Behind a number: cards show what was asked, said and read, the telling ones first, and never run what they show."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core import Choice, Completion, Reply
from biaslab.core.errors import InputError, MissingDependencyError, StoreError, TrialsError
from biaslab.core.trials import Usage
from biaslab.datasets import Dataset
from biaslab.report.evidence.cards import marked, visible
from biaslab.report.evidence.trials import behind, grouped, in_order, single_judgements

HOSTILE = '</div><script>alert("x")</script><img src=x onerror=alert(1)>&amp;\x00\u202e'


class Reader(HTMLParser):
    """What a browser makes of a page: its elements, their attributes and its words."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.words = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)


class Scripted:
    """A judge that says what it is told to, by what stands first."""

    kinds = frozenset({Choice})
    id = "scripted <b>judge</b>"

    def __init__(self, say):
        self.say = say

    def check(self, requests):
        """Nothing."""

    def ask(self, requests):
        """Answer by the order shown."""
        for request in requests:
            yield request, Reply(logprobs=self.say(*request.about.candidate_ids))


@pytest.fixture(scope="module")
def data():
    return bl.load_dataset("graded", limit=2)


@pytest.fixture(scope="module")
def probe():
    return bl.probes.Position(["fluency"], templates=[1])


@pytest.fixture(scope="module")
def study(data, probe, tmp_path_factory):
    store = tmp_path_factory.mktemp("study") / "replies.sqlite"
    trials = bl.collect(probe, bl.SimulatedJudge(data, position=1.5, noise=1), data, store=store, progress=False)
    return trials, store


def test_a_card_has_both_orders_prompt_probabilities_and_scores(study, data):
    trials, store = study
    shown = bl.show(trials, store=store, n=1)
    [card] = shown.exhibits
    assert (card.outcome, len(card.sides), shown.missing) == ("flip", 2, ())
    one, two = card.sides
    assert [c.name for c in one.shown] == [c.name for c in two.shown][::-1]
    assert [c.letter for c in one.shown] == ["X", "Y"]
    assert [c.letter for c in two.shown] == ["Y", "X"]
    texts = data.candidates.set_index(["context_id", "candidate_id"])["text"]
    for side in card.sides:
        [(role, segments)] = side.prompt
        found = {segment.part: segment.text for segment in segments}
        assert role == "user"
        assert [found["first"], found["second"]] == [texts[card.where["context_id"], c.name] for c in side.shown]
        row = trials.set_index("key").loc[side.key]
        assert [bar.label for bar in side.bars[:2]] == ["Summary A", "Summary B"]
        assert side.bars[0].share / (side.bars[0].share + side.bars[1].share) == pytest.approx(row["value"])
    means = data.human_means["fluency"]
    scores = [f"{c.letter} {c.name}: {means[card.where['context_id'], c.name]:.3g}" for c in one.shown]
    assert list(card.humans) == scores
    page = shown._repr_html_()
    assert page.count('class="side"') == 2
    assert '<form class="filters" hidden>' in page  # which a script shows: where none runs, there are no dead controls


def test_widget_selection_is_the_trials_of_shown_cards(study):
    pytest.importorskip("anywidget", reason="anywidget is not installed: pip install '.[widgets]'")
    trials = pd.concat([study[0], study[0]])  # with every label twice
    shown = bl.show(trials, store=study[1], n=4)
    widget = shown.widget()
    assert "parent.postMessage({ biaslab:" in widget.page
    assert widget.selection.empty
    widget.set_state({"shown": [2, 0]})
    for rank, card in enumerate((2, 0)):
        wanted = {side.key for side in shown.exhibits[card].sides}
        [chosen] = [part for at, part in widget.selection.groupby("card") if at == card]
        assert wanted <= set(chosen["key"])
        assert list(dict.fromkeys(widget.selection["card"])).index(card) == rank
    pd.testing.assert_frame_equal(widget.selection.query("card == 2"), shown.trials.query("card == 2"))


def test_missing_anywidget_is_named(study, monkeypatch):
    monkeypatch.setattr("biaslab.core.checks.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"needs anywidget: pip install '\.\[widgets\]'"):
        bl.show(study[0], store=study[1], n=1).widget()


def test_flips_are_those_that_the_metric_counts(study, probe):
    trials, _ = study
    consistent = probe.estimate(trials, ["order_consistency"])["estimate"].iloc[0]
    outcomes = grouped(single_judgements(trials)).drop_duplicates("card")["outcome"]
    assert (outcomes == "flip").mean() == pytest.approx(1 - consistent)


@pytest.mark.parametrize(("sort", "first"), [("flips", "flip"), ("ties", "tie"), ("unread", "unread")])
def test_sort_puts_the_wanted_outcome_first(study, sort, first):
    trials, _ = study
    changed = trials.copy()
    changed.loc[0, ["value", "status"]] = [0.5, "tie"]
    changed.loc[2, ["value", "status"]] = [np.nan, "refused"]
    groups = grouped(single_judgements(changed))
    outcomes = groups.drop_duplicates("card").set_index("card")["outcome"]
    order = [outcomes[card] for card in in_order(groups, sort)]
    others = [name for name in ("flip", "tie", "unread", "plain") if name != first]
    assert order == sorted(order, key=[first, *others].index)
    assert {"flip", "tie", "unread"} <= set(order)


def test_a_tie_has_no_probabilities(study):
    trials = study[0].assign(dataset="other", value=0.5, status="tie")
    trials.attrs.pop("store")
    sides = [side for card in bl.show(trials).exhibits for side in card.sides]
    assert {side.read for side in sides} == {"neither"}
    assert not any(side.bars for side in sides)


def test_largest_effects_come_first(study):
    groups = grouped(single_judgements(study[0]))
    effects = groups.drop_duplicates("card").set_index("card")["effect"]
    ordered = effects.loc[in_order(groups, "effects")]
    assert ordered.is_monotonic_decreasing
    assert list(in_order(groups, "trials")) == sorted(effects.index)


@pytest.mark.slow
def test_estimates_lead_to_the_judgements_behind_them(data):
    probe = bl.probes.Position(["coherence", "fluency"])
    trials = bl.collect(probe, bl.SimulatedJudge(data, position=1.0, noise=1), data, progress=False)
    estimates = probe.estimate(trials)
    row = estimates[(estimates["attribute"] == "fluency") & (estimates["template"] == 2)].iloc[[0]]
    shown = bl.show(row, trials, n=10_000)
    assert len(shown.trials) == int(row["n_trials"].iloc[0])
    assert (set(shown.trials["attribute"]), set(shown.trials["template"])) == ({"fluency"}, {2})
    binned = estimates[estimates["human_gap"].notna()]
    for _, one in binned.groupby(["attribute", "template", "human_gap"]):
        behind = bl.show(one.head(1), trials, n=10_000).trials
        assert len(behind) == one["n_trials"].iloc[0]
        assert behind["human_gap"].abs().mean() == pytest.approx(one["human_gap"].iloc[0])
    with pytest.raises(TrialsError, match="trials=trials"):
        bl.show(row)
    with pytest.raises(TrialsError, match="contain none behind"):
        bl.show(row.assign(judge="nobody"), trials)
    with pytest.raises(InputError, match="frame of one row"):
        bl.show(row.iloc[0], trials)


@pytest.mark.slow
def test_without_a_store_prompts_are_rebuilt_and_replies_missing(study):
    trials, _ = study
    assert not bl.show(trials, n=2).missing  # trials say where their replies are
    trials = trials.copy()
    trials.attrs.pop("store")
    shown = bl.show(trials, n=2)
    assert all(side.prompt and side.bars for card in shown.exhibits for side in card.sides)
    [line] = shown.missing
    assert line.startswith("Replies are missing")
    assert "store=" in line
    elsewhere = bl.show(trials.assign(dataset="other", key="0" * 64), n=1)
    assert not any(side.prompt for side in elsewhere.exhibits[0].sides)
    assert elsewhere.missing[0].startswith("Prompts and replies are missing")


def test_judgements_missing_from_the_store_are_counted(study, tmp_path):
    trials, _ = study
    with bl.Store(tmp_path / "other.sqlite") as other:
        assert any(
            "2 of 2 judgements are not in the store" in line for line in bl.show(trials, store=other, n=1).missing
        )
    with pytest.raises(StoreError):
        bl.show(trials, store=tmp_path / "missing.sqlite")


def test_the_expected_score_of_a_distribution_is_one_judgement(data, tmp_path):
    probe = bl.probes.ScoreDistribution(["fluency"])
    trials = bl.collect(probe, bl.SimulatedJudge(data, noise=1), data, store=tmp_path / "s.sqlite", progress=False)
    rows = single_judgements(trials)
    assert len(rows) == trials["key"].nunique() < len(trials)
    part = trials[trials["key"] == trials["key"].iloc[0]]
    assert rows["value"].iloc[0] == pytest.approx((part["label"] * part["value"]).sum())
    card = bl.show(trials, store=tmp_path / "s.sqlite", n=1, sort="effects").exhibits[0]
    assert sum(bar.share for bar in card.sides[0].bars) == pytest.approx(1)


def test_recorded_logs_show_their_replies(tmp_path):
    line = '{"judge": "j", "question": 1, "A": "%s", "B": "%s", "judgment": "%s"}\n'
    file = tmp_path / "log.jsonl"
    file.write_text(line % ("x", "y", "Good. [[A]]") + line % ("y", "x", "Fine. [[A]]"), encoding="utf-8")
    shown = bl.show(bl.read_judgements(file))
    [card] = shown.exhibits
    assert (card.outcome, [side.reply for side in card.sides]) == ("flip", ["Good. [[A]]", "Fine. [[A]]"])
    assert shown.missing[0].startswith("Prompts are missing: a log has none")
    estimates = bl.audit(bl.read_judgements(file), only=["position"])
    assert len(bl.show(estimates.iloc[[0]], bl.read_judgements(file)).trials) == 2


@pytest.mark.slow
def test_all_of_a_published_log_is_behind_its_estimate(shared_data):
    log = bl.read_judgements(
        shared_data / "recorded" / "position_bias_analyzer" / "MTBench_position_bias_gpt4_gemini.jsonl.gz"
    )
    estimates = bl.audit(log, only=["position"])
    for judge, row in estimates[estimates["metric"] == "order_consistency"].groupby("judge"):
        trials, notes = behind(row.head(1), log)
        assert len(trials) == row["n_trials"].iloc[0] + row["n_dropped"].iloc[0] == 4_800
        assert notes == []
        outcomes = grouped(single_judgements(trials)).drop_duplicates("card")["outcome"]
        if judge == "gpt-4-0613":  # the same winner, or a tie, in both orders: .8150 of the pairs, counted elsewhere
            least = outcomes.eq("plain").mean()
            assert least <= 0.8150 <= 1 - outcomes.eq("flip").mean()


def test_hostile_texts_stay_texts(tmp_path):
    candidates = pd.DataFrame(
        {
            "context_id": [HOSTILE] * 2, "context": [f"Source {HOSTILE}"] * 2, "candidate_id": ["a'\"<i>", "b"],
            "system": ["<u>", ""], "text": [f"First {HOSTILE}", f"Second {HOSTILE}"], "reference": "",
        }
    )  # fmt: skip
    human = pd.DataFrame(columns=["context_id", "candidate_id", "attribute", "annotator", "score"])
    data = Dataset("set <s>", candidates, human, {"<em>": "Whether <em>."})
    judge = Scripted(lambda first, second: (-0.1, -3.0))
    trials = bl.collect(
        bl.probes.Position(templates=[1]), judge, data, store=tmp_path / "s.sqlite", progress=False
    )  # fmt: skip
    trials["reply"] = HOSTILE
    shown = bl.show(trials.assign(condition=HOSTILE), store=tmp_path / "s.sqlite", dataset=data)
    assert shown.exhibits[0].outcome == "flip"
    for page in (shown._repr_html_(), shown.save(tmp_path / "p.html").read_text(encoding="utf-8")):
        read = Reader(page)
        assert read.tags.count("script") == 1  # ours
        assert not {"img", "i", "u", "s", "em"} & set(read.tags)
        assert not [name for name, _ in read.attributes if name.startswith("on")]
        assert 'First </div><script>alert("x")</script>' in read.text
        assert "\x00" not in page
        assert not re.search(r'(?:src|href)="?https?:', page)


class Thinking(Scripted):
    """A judge that writes a thought before its answer, in a field or within its text, or hides it."""

    def __init__(self, **said):
        self.said = said
        self.id = f"thinking {len(str(said))}"

    kinds = frozenset({Completion})

    def ask(self, requests):
        """Answer alike whatever is shown."""
        for request in requests:
            yield request, Reply(finish_reason="stop", **self.said)


THOUGHT = f"Perhaps A {HOSTILE}" + " or B" * 1000


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        ({"text": "Summary A", "thought": THOUGHT, "usage": Usage(10, 0, 60, 50)}, "a thought of 50 tokens"),
        ({"text": f"<think>{THOUGHT}</think>Summary A"}, ""),
    ],
    ids=["in a field", "in tags"],
)
def test_a_thought_is_folded_escaped_and_cut(tmp_path, data, said, tokens):
    probe = bl.probes.Position(attributes=["coherence"], templates=[1], answer="text")
    trials = bl.collect(probe, Thinking(**said), data, store=tmp_path / "s.sqlite", progress=False)
    shown = bl.show(trials, store=tmp_path / "s.sqlite", n=2)
    for side in (side for one in shown.exhibits for side in one.sides):
        assert (side.thought, side.reply) == (THOUGHT, "Summary A")
        assert tokens in side.facts if tokens else not side.facts
    for page in (shown._repr_html_(), shown.save(tmp_path / "p.html").read_text(encoding="utf-8")):
        read = Reader(page)
        assert read.tags.count("script") == 1  # ours
        assert read.tags.count("img") == 0
        assert ("class", "thought") in read.attributes
        assert not [name for name, _ in read.attributes if name == "open"]  # folded until somebody asks
        assert f"thought, {len(THOUGHT):,} characters" in read.text
        assert f" … ({len(THOUGHT) - 4_000:,} more characters)" in read.text
        assert read.text.count(" or B" * 500) == sum(len(one.sides) for one in shown.exhibits)
        assert " or B" * 1000 not in read.text


def test_a_judge_without_a_thought_has_no_fold(study):
    assert "thought" not in Reader(bl.show(study[0], store=study[1], n=2)._repr_html_()).text


def test_thought_of_a_log_is_separated_from_its_reply(tmp_path):
    line = '{"judge": "j", "question": 1, "A": "x", "B": "y", "judgment": "<think>B, or not?</think>It is [[A]]."}'
    (tmp_path / "log.jsonl").write_text(line + "\n" + line.replace('"x", "B": "y"', '"y", "B": "x"') + "\n")
    [one] = bl.show(bl.read_judgements(tmp_path / "log.jsonl")).exhibits
    assert [(side.thought, side.reply) for side in one.sides] == [("B, or not?", "It is [[A]].")] * 2


@given(st.text(), st.text(), st.text(), st.text(), st.text())
def test_marking_never_changes_a_prompt(before, source, first, between, second):
    prompt = before + source + between + first + between + second
    pieces = marked(prompt, {"source": source, "first": first, "second": second})
    assert "".join(piece.text for piece in pieces) == prompt
    for part, text in (("source", source), ("first", first), ("second", second)):
        assert all(piece.text == text.strip() for piece in pieces if piece.part == part)


def test_candidates_are_marked_where_they_are_shown():
    source = "It rains in town. The sun is out."
    prompt = f"{source}\nA: The sun is out.\nB: The sun is out. It rains."
    texts = {"source": source, "first": "The sun is out.", "second": "The sun is out. It rains."}
    assert [piece.part for piece in marked(prompt, texts)] == ["source", "words", "first", "words", "second"]
    swapped = f"{source}\nA: The sun is out. It rains.\nB: The sun is out."
    pieces = marked(swapped, {**texts, "first": texts["second"], "second": texts["first"]})
    assert [piece.text for piece in pieces if piece.part == "first"] == ["The sun is out. It rains."]


@given(st.text(st.characters(exclude_categories=())))
def test_every_text_can_be_written(text):
    assert "\x00" not in visible(text)
    visible(text).encode("utf-8")


@pytest.mark.parametrize(
    ("given", "what"),
    [({"n": 0}, "n is 0"), ({"sort": "best"}, "sort is 'best'"), ({"sort": "best"}, "flips, ties, unread")],
)
def test_invalid_options_are_refused(study, given, what):
    with pytest.raises(InputError, match=re.escape(what)):
        bl.show(study[0], **given)


def test_other_frames_are_refused(study):
    with pytest.raises(TrialsError, match="lacks the columns value, status"):
        bl.show(study[0].drop(columns=["value", "status"]))
    with pytest.raises(TrialsError, match="empty"):
        bl.show(study[0].head(0))


def test_text_form_names_the_winner(study):
    text = repr(bl.show(study[0], store=study[1], n=2))
    assert text.startswith("2 of 30 cards\nflip ")
    assert text.count("shown first") >= 2
