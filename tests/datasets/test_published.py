"""Loaders of published data sets, against the published files and small ones in their layout."""

import gzip
import json
import re
import tarfile
from pathlib import Path

import pandas as pd
import pytest
from beside_data import EXPERT_ALPHAS

from biaslab.core.errors import DatasetError, InputError
from biaslab.datasets import summeval, topicalchat, webnlg
from biaslab.stats.correlation import correlation
from biaslab.stats.inference import Resampling
from biaslab.stats.reliability import estimate_alpha

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the published data are not at {DATA}")
SUMMEVAL = DATA / "summeval" / "annotations_1200.jsonl.gz"
MEANS = DATA / "summeval" / "means_1600.json.gz"


@pytest.fixture(scope="module")
def experts():
    return summeval.load(SUMMEVAL)


@needs_data
@pytest.mark.parametrize(("annotators", "each"), [("expert", 3), ("turker", 5), ("all", 8)])
def test_summeval_has_every_annotator(annotators, each):
    data = summeval.load(SUMMEVAL, annotators=annotators)
    assert (data.n_contexts, len(data.candidates), len(data.human)) == (100, 1200, 1200 * 4 * each)
    assert data.human["annotator"].nunique() == each
    assert data.noun == "summary"
    assert (data.candidates["reference"] != "").all()


@needs_data
@pytest.mark.parametrize(("attribute", "level", "published"), EXPERT_ALPHAS)
def test_summeval_experts_agree_as_published(experts, attribute, level, published):
    scores = experts.human[experts.human["attribute"] == attribute]
    assert estimate_alpha(scores, Resampling(), level).estimate == pytest.approx(published, abs=5e-5)


@needs_data
def test_summeval_means_file_is_the_mean_of_the_experts(experts):
    means = summeval.load(MEANS)
    assert (means.n_contexts, len(means.candidates)) == (100, 1600)
    assert set(means.human["annotator"]) == {"expert_mean"}
    common = means.human_means.loc[experts.human_means.index]
    pd.testing.assert_frame_equal(common, experts.human_means, rtol=0, atol=1e-12)


@needs_data
@pytest.mark.parametrize(
    ("attribute", "published", "documents"), [("coherence", 0.4574, 98), ("consistency", 0.6083, 77)]
)
def test_gpt4_correlates_with_experts_as_published(experts, attribute, published, documents):
    with gzip.open(DATA / "recorded" / "summeval_judges" / "judge_scores.jsonl.gz", "rt") as lines:
        replies = pd.DataFrame(map(json.loads, lines))
    wanted = (replies["judge"] == "gpt-4-0314") & (replies["mode"] == "rts") & (replies["aspect"] == attribute)
    replies = replies[wanted].drop_duplicates(["system", "id"])

    def parse(reply):
        """Return the number after the last "score" or "rating", or else the last digit from 1 to 5."""
        said = re.findall(r"(?i:score|rating)\D{0,10}(\d(?:\.\d+)?)", reply) or re.findall("[1-5]", reply)
        return float(said[-1])

    humans = experts.human_means[attribute].rename("human").reset_index()
    both = replies.assign(judge_score=replies["resp"].map(parse)).merge(
        humans, left_on=["id", "system"], right_on=["context_id", "candidate_id"], validate="1:1"
    )
    assert len(both) == 1200
    found = correlation(both, "judge_score", "human", level="context", method="spearman")
    assert (round(found.value, 4), found.n, found.reason) == (published, documents, "")


def test_summeval_says_where_the_file_comes_from():
    with pytest.raises(InputError, match=r"Yale-LILY/SummEval.*load_dataset\('summeval', path"):
        summeval.load()
    with pytest.raises(InputError, match="expert, turker, all"):
        summeval.load("nowhere", annotators="experts")


def official_record(**changes):
    rating = {"coherence": 1, "consistency": 2, "fluency": 3, "relevance": 4}
    record = {
        "id": "d1",
        "model_id": "M8",
        "decoded": "Short.",
        "text": "Long.",
        "references": ["One.", "Two."],
    }
    return {**record, "expert_annotations": [rating] * 3, "turker_annotations": [rating] * 5, **changes}


def test_summeval_single_record_and_its_faults(tmp_path):
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps(official_record()))
    data = summeval.load(file)
    assert data.candidates.iloc[0].to_dict() == {
        "context_id": "d1",
        "context": "Long.",
        "candidate_id": "M8",
        "system": "M8",
        "text": "Short.",
        "reference": "One.",
        "reference_2": "Two.",
    }
    record = official_record()
    del record["text"]
    file.write_text(json.dumps(official_record()) + "\n" + json.dumps(record))
    with pytest.raises(DatasetError, match=r"one\.jsonl, row 2, column 'text'.*pair the file first"):
        summeval.load(file)
    file.write_text(json.dumps(official_record()) + "\n{")
    with pytest.raises(DatasetError, match=r"one\.jsonl, line 2"):
        summeval.load(file)
    file.write_text('{"some": {"other": "file"}}')
    with pytest.raises(DatasetError, match="column 'src'"):
        summeval.load(file)


@needs_data
def test_summeval_means_refuse_other_annotators():
    with pytest.raises(InputError, match="only expert means"):
        summeval.load(MEANS, annotators="all")


TOPICALCHAT = DATA / "topical_chat" / "topical_chat.json.gz"


@needs_data
def test_topicalchat_has_sixty_dialogues_of_six_responses():
    data = topicalchat.load(TOPICALCHAT)
    assert (data.n_contexts, len(data.candidates), len(data.human)) == (60, 360, 1080)
    assert set(data.candidates.groupby("context_id").size()) == {6}
    assert (data.scale, data.noun) == ((1.0, 3.0), "response")
    assert not data.candidates["context"].str.contains("Fact: ").any()


@needs_data
@pytest.mark.parametrize(
    ("attributes", "scale"), [(["overall"], (1, 5)), (["groundedness", "understandability"], (0, 1))]
)
def test_topicalchat_other_scales(attributes, scale):
    data = topicalchat.load(TOPICALCHAT, attributes=attributes, fact=True)
    assert (data.scale, tuple(data.attributes)) == (scale, tuple(attributes))
    assert data.human["score"].agg(["min", "max"]).tolist() == list(scale)
    assert data.candidates["context"].str.contains("\n\nFact: ").all()


def test_topicalchat_never_mixes_scales():
    with pytest.raises(InputError, match=r"same scale.*coherence 1-3, overall 1-5"):
        topicalchat.load("nowhere", attributes=["coherence", "overall"])
    with pytest.raises(InputError, match="pass fact=True"):
        topicalchat.load("nowhere", attributes=["groundedness"])
    with pytest.raises(InputError, match="maszhongming/UniEval"):
        topicalchat.load()


RATINGS = DATA / "webnlg2020" / "en.tar.xz"


@needs_data
def test_webnlg_ratings_have_the_official_means(tmp_path):
    ratings = webnlg.read_ratings(RATINGS)
    assert len(ratings) == 5 * 8453
    assert ratings.nunique()[["context_id", "candidate_id", "attribute"]].tolist() == [178, 17, 5]
    assert ratings["score"].between(0, 100).all()
    with tarfile.open(RATINGS) as archive:
        official = json.load(archive.extractfile("en/english_humeval_data_all_teams.json"))
        archive.extractall(tmp_path, filter="data")
    means = ratings.groupby(["context_id", "candidate_id", "attribute"])["score"].mean()
    for team in official:
        for key, attribute in webnlg.KEYS.items():
            assert means[team["sample_id"], team["submission_id"], attribute] == pytest.approx(team[key])
    assert len(official) * 5 == len(means)
    pd.testing.assert_frame_equal(webnlg.read_ratings(tmp_path / "en"), ratings)


@pytest.fixture
def challenge(tmp_path):
    """Two samples of two systems and the rated human texts, in the layout of WebNLG/challenge-2020."""
    rating = dict.fromkeys(webnlg.KEYS, 50) | {"feedback": "Add dollars."}
    for system, score in (("bt5", 90), ("NILC", 10), (webnlg.UNPUBLISHED, 100)):
        (tmp_path / "en" / system).mkdir(parents=True)
        document = {"1": {"w1": rating | {"Fluency": score}}, "3": {"w1": rating, "w2": rating}}
        (tmp_path / "en" / system / "primary.json").write_text(json.dumps(document))
    for system in ("bt5", "NILC"):
        (tmp_path / "rdf2text" / system).mkdir(parents=True)
        lines = f"{system} says one.\n{system} says two.\n{system} says\u2028three.\n"
        (tmp_path / "rdf2text" / system / "primary.en").write_text(lines, encoding="utf-8")
    entry = (
        '<entry category="Airport" eid="Id{0}" size="1"><originaltripleset><otriple>x | y | z</otriple>'
        "</originaltripleset><modifiedtripleset><mtriple>Subject_{0} | is | {0}</mtriple></modifiedtripleset>"
        '<lex lang="" lid="Id1">The first text of {0}.</lex><lex lang="" lid="Id2">Another.</lex></entry>'
    )
    xml = "<benchmark><entries>" + "".join(entry.format(i) for i in (1, 2, 3)) + "</entries></benchmark>"
    (tmp_path / "test.xml").write_text(xml)
    return tmp_path


def test_webnlg_joins_ratings_texts_and_triples(challenge):
    data = webnlg.load(challenge / "en", texts=challenge / "rdf2text", triples=challenge / "test.xml")
    assert (data.n_contexts, len(data.candidates), len(data.human)) == (2, 4, 2 * 3 * 5)
    row = data.candidates.set_index(["context_id", "system"]).loc[("3", "bt5")]
    assert (row["text"], row["context"]) == ("bt5 says\u2028three.", "Subject_3 | is | 3")
    assert row["reference"] == "The first text of 3."
    assert data.human_means.loc[("1", "NILC"), "fluency"] == 10
    only = webnlg.load(challenge / "en", challenge / "rdf2text", challenge / "test.xml", systems=["bt5"])
    assert set(only.candidates["system"]) == {"bt5"}


def test_webnlg_leaves_out_blank_texts_and_counts_them(challenge):
    (challenge / "rdf2text" / "bt5" / "primary.en").write_text("\ntwo\nthree\n")
    data = webnlg.load(challenge / "en", challenge / "rdf2text", challenge / "test.xml")
    assert len(data.candidates) == 3
    assert "1 blank texts left out" in data.provenance


def test_webnlg_errors_name_the_missing_file(challenge):
    ratings, texts, xml = challenge / "en", challenge / "rdf2text", challenge / "test.xml"
    with pytest.raises(InputError, match=r"texts is None.*read_ratings"):
        webnlg.load(ratings)
    with pytest.raises(InputError, match="triples is None"):
        webnlg.load(ratings, texts=texts)
    with pytest.raises(InputError, match="WebNLG/challenge-2020"):
        webnlg.load()
    with pytest.raises(DatasetError, match=r"no primary.en of \['WebNLG-2020-reference'\].*systems="):
        webnlg.load(ratings, texts, xml, systems=[webnlg.UNPUBLISHED])
    (texts / "bt5" / "primary.en").write_text("one\n")
    with pytest.raises(DatasetError, match=r"primary\.en is '2 lines', allowed: at least 3"):
        webnlg.load(ratings, texts, xml)
    (texts / "bt5" / "primary.en").unlink()
    with pytest.raises(DatasetError, match=r"no primary.en of \['bt5'\]"):
        webnlg.load(ratings, texts, xml)
    (ratings / "bt5" / "primary.json").write_text('{"1": {"w1": {"Correctness": 101}}}')
    with pytest.raises(DatasetError, match=r"sample 1, worker w1, Correctness is 101"):
        webnlg.read_ratings(ratings)
    with pytest.raises(InputError, match="tar archive"):
        webnlg.read_ratings(xml)
