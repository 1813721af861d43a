"""Loaders of published data sets, against the published files and small ones in their layout."""

import gzip
import json
import re
import tarfile
from pathlib import Path

import pandas as pd
import pytest
from beside_data import EXPERT_ALPHAS

import biaslab as bl
from biaslab.core.errors import DatasetError, InputError
from biaslab.datasets import evalbiasbench, summeval, topicalchat, webnlg
from biaslab.datasets.webnlg_2017 import published_scores
from biaslab.stats.correlation import correlation
from biaslab.stats.reliability import estimate_alpha
from biaslab.stats.resample import Resampling

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


@pytest.mark.slow
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
        numbers = re.findall(r"(?i:score|rating)\D{0,10}(\d(?:\.\d+)?)", reply) or re.findall("[1-5]", reply)
        return float(numbers[-1])

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
    with pytest.raises(DatasetError, match=r"one\.jsonl, row 2 has no column 'text'.*pair the file first"):
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


@pytest.mark.slow
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
    with pytest.raises(InputError, match=r"texts is missing.*read_ratings"):
        webnlg.load(ratings)
    with pytest.raises(InputError, match="triples is missing"):
        webnlg.load(ratings, texts=texts)
    with pytest.raises(InputError, match="WebNLG/challenge-2020"):
        webnlg.load()
    with pytest.raises(DatasetError, match=r"lacks primary.en of WebNLG-2020-reference.*systems="):
        webnlg.load(ratings, texts, xml, systems=[webnlg.UNPUBLISHED])
    (texts / "bt5" / "primary.en").write_text("one\n")
    with pytest.raises(DatasetError, match=r"primary\.en has 2 lines, expected: at least 3"):
        webnlg.load(ratings, texts, xml)
    (texts / "bt5" / "primary.en").unlink()
    with pytest.raises(DatasetError, match=r"lacks primary.en of bt5"):
        webnlg.load(ratings, texts, xml)
    (ratings / "bt5" / "primary.json").write_text('{"1": {"w1": {"Correctness": 101}}}')
    with pytest.raises(DatasetError, match=r"sample 1, worker w1, Correctness is 101"):
        webnlg.read_ratings(ratings)
    with pytest.raises(InputError, match="tar archive"):
        webnlg.read_ratings(xml)


@pytest.fixture
def podcasts(tmp_path):
    def write(*scores):
        rows = [
            {
                "transcript": f"We talk of {'this ' * 40}{n // 2}.",
                "summary": f"Talk {n}.",
                "score": score,
                "system_id": n,
            }
            | {"episode_id": f"e{n // 2}", "attributes": [1, 0]}
            for n, score in enumerate(scores)
        ]
        (tmp_path / "podcast.json").write_text(json.dumps(rows), encoding="utf-8")
        return tmp_path / "podcast.json"

    return write


def test_podcasts_have_one_score_a_summary(podcasts):
    data = bl.load_dataset("podcast", path=podcasts("B", "Excellent", 2, 1.0), words=10)
    assert (data.n_contexts, len(data.candidates)) == (2, 4)
    assert data.human["score"].tolist() == [0.0, 3.0, 2.0, 1.0]
    assert data.candidates["context"].str.split().str.len().max() == 10
    assert data.noun == "summary"


def test_invalid_grade_error_names_row_and_column(podcasts):
    with pytest.raises(DatasetError, match="row 2, column 'score'"):
        bl.load_dataset("podcast", path=podcasts("B", "splendid"))


@pytest.fixture
def translations(tmp_path):
    rows = [
        {"lp": lp, "src": f"Satz {n}.", "mt": f"Sentence {n}, {system}.", "ref": f"Sentence {n}.", "system": system}
        | {"score": -float(n + at), "year": year, "domain": "news", "annotators": 1}
        for lp, year in (("de-en", 2020), ("zh-en", 2021))
        for n in range(3)
        for at, system in enumerate(("A", "B"))
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "mqm.csv", index=False)
    return tmp_path / "mqm.csv"


def test_translations_of_one_language_pair(translations):
    data = bl.load_dataset("wmt", path=translations, pair="de-en")
    assert (data.n_contexts, len(data.candidates), data.scale) == (3, 6, (-25.0, 0.0))
    means = data.human_means.groupby(level="candidate_id")["quality"].mean()
    assert means.to_dict() == {"A": -1.0, "B": -2.0}
    assert (data.candidates["reference"] != "").all()


def test_a_judge_ranks_the_systems_of_translations(translations):
    """At the level of systems the better of two is told, as in the accuracy of WMT's metrics tasks."""
    data = bl.load_dataset("wmt", path=translations, year=2020)
    scorer = bl.scoring.PromptScoring(["quality"], scale="1-100")
    trials = bl.collect(scorer, bl.SimulatedJudge(data, quality=1.0), data, progress=False)
    found = trials.groupby("candidate_id")["value"].mean()
    assert found["A"] > found["B"]


@pytest.mark.parametrize(
    ("options", "says"),
    [({}, "one of de-en, zh-en"), ({"pair": "de-fr"}, "among de-en, zh-en"), ({"year": 1999}, "among 2020, 2021")],
)
def test_unknown_wmt_options_are_refused(translations, options, says):
    with pytest.raises(InputError, match=says):
        bl.load_dataset("wmt", path=translations, **options)


def test_wmt_table_without_scores_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("lp,src\nde-en,Satz\n", encoding="utf-8")
    with pytest.raises(DatasetError, match=r"mt.*ref.*score"):
        bl.load_dataset("wmt", path=tmp_path / "t.csv")


@pytest.fixture
def webnlg_2017(tmp_path):
    def write(fluency="2.5", drop=()):
        header = "id,mr,team,text,category,type,bleu,meteor,ter,systemtype,triplesize,fluency,grammar,semantics"
        triples = "Ann | born | Ulm<br>Ann | job | baker"
        rows = [
            f'1,{triples},adapt,"ann, a baker, is of ulm.",Person,seen,0.1,0.9,80,neural,2triple,{fluency},2,3',
            f"2,{triples},vietnam,null,Person,seen,0,0,100,template,2triple,1.0,1.0,1.0",
            f'3,{triples},webnlg,"ann is a baker , born in ulm .\n",Person,seen,1,1,0,human,2triple,3,3,3',
            '4,"Bob | likes | ""tea""",adapt,bob likes tea .,Person,seen,0.3,0.4,60,neural,1triple,3,3,3',
            '5,"Bob | likes | ""tea""",vietnam,tea .,Person,seen,0.2,0.1,90,template,1triple,1,2,1.3333333333333333',
            '6,"Bob | likes | ""tea""",webnlg,tea is liked by bob .,Person,seen,1,1,0,human,1triple,3,3,3',
        ]
        table = [line for number, line in enumerate([header, *rows]) if number not in drop]
        (tmp_path / "all_data_final_averaged.csv").write_text("\n".join(table), encoding="utf-8")
        return tmp_path / "all_data_final_averaged.csv"

    return write


def test_webnlg_2017_has_three_attributes_and_references(webnlg_2017):
    data = bl.load_dataset("webnlg_2017", path=webnlg_2017())
    assert list(data.attributes) == ["fluency", "grammar", "semantics"]
    assert (data.scale, data.noun, data.n_contexts) == ((1.0, 3.0), "text", 2)
    assert data.candidates["candidate_id"].tolist() == ["adapt", "adapt", "vietnam"]
    assert data.candidates["context"].iloc[0] == "Ann | born | Ulm\nAnn | job | baker"
    assert data.candidates["reference"].iloc[0] == "ann is a baker , born in ulm ."
    assert data.human["score"].tolist() == [2.5, 2, 3, 3, 3, 3, 1, 2, pytest.approx(4 / 3)]
    assert "1 texts without words" in data.provenance
    assert bl.load_dataset("webnlg_2017?systems=webnlg", path=webnlg_2017()).n_contexts == 2


def test_webnlg_2017_has_metrics_of_its_own(webnlg_2017):
    data = bl.load_dataset("webnlg_2017", path=webnlg_2017())
    found = published_scores(webnlg_2017(), data)
    one = found[found["attribute"] == "grammar"].pivot_table("score", "scorer", "candidate_id", "max")
    assert one.to_dict("index") == {
        "BLEU (reference)": {"adapt": 0.3, "vietnam": 0.2},
        "METEOR (reference)": {"adapt": 0.9, "vietnam": 0.1},
        "TER (reference)": {"adapt": -60.0, "vietnam": -90.0},
    }


def test_webnlg_2017_errors_name_row_column_and_option(webnlg_2017):
    with pytest.raises(DatasetError, match="row 1, column 'fluency'"):
        bl.load_dataset("webnlg_2017", path=webnlg_2017("great"))
    with pytest.raises(DatasetError, match="mr"):
        bl.load_dataset("webnlg_2017", path=webnlg_2017(drop=(0,)))
    with pytest.raises(InputError, match="adapt, vietnam, webnlg"):
        bl.load_dataset("webnlg_2017", path=webnlg_2017(), systems=["upf"])
    with pytest.raises(InputError, match="gitlab"):
        bl.load_dataset("webnlg_2017")


KINDS = {
    "length": 17,
    "concreteness": 14,
    "empty reference": 13,
    "content continuation": 12,
    "nested instruction": 12,
    "familiar knowledge": 12,
}


@pytest.fixture(scope="module")
def published(shared_data):
    return shared_data / "evalbiasbench" / "biasbench.json.gz"


def written(folder, **kinds):
    file = folder / "biasbench.json.gz"
    file.write_bytes(gzip.compress(json.dumps(kinds).encode()))
    return file


def record(**changes):
    return {"instruction": "Add.", "response1": "It is 4.", "response2": "It is 5, I am sure.", "label": 1} | changes


def by_kind(trials):
    return trials.assign(subset=trials["context_id"].str.partition("/")[0])


def test_eighty_pairs_in_six_kinds(published):
    data = bl.load_dataset("evalbiasbench", path=published)
    assert (data.n_contexts, len(data.candidates), data.noun) == (80, 160, "response")
    kinds = data.candidates.drop_duplicates("context_id")["context_id"].str.partition("/")[0]
    assert kinds.value_counts().to_dict() == KINDS
    assert data.human_means["overall"].groupby("candidate_id").agg(["min", "max"]).to_numpy().tolist() == [
        [0, 0],
        [1, 1],
    ]
    assert "BSD-3" in data.provenance


def test_the_label_says_which_response_is_good(tmp_path):
    file = written(tmp_path, length_bias=[record(), record(label=2)])
    data = bl.load_dataset("evalbiasbench", path=file)
    texts = data.candidates.set_index(["context_id", "candidate_id"])["text"]
    assert texts["length/01", "good"] == texts["length/02", "bad"] == "It is 4."
    assert texts["length/02", "good"] == "It is 5, I am sure."


def test_some_kinds(tmp_path):
    file = written(tmp_path, length_bias=[record()], nested_instruction=[record(), record()])
    assert bl.load_dataset("evalbiasbench?kinds=nested instruction", path=file).n_contexts == 2
    with pytest.raises(InputError, match="length, nested instruction"):
        evalbiasbench.load(file, kinds=["lenght"])


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"a": [record(label=3)]}, r"a, row 1, column 'label'.*1 or 2"),
        ({"a": [record(label="1")]}, "type int"),
        ({"a": [record(response2=None)]}, "'response2'"),
        ({"a": "text"}, "a list of records"),
        ({"a": [4]}, "a JSON object"),
        ([record()], "an object with one list per kind of bias"),
    ],
)
def test_damaged_files_say_where(tmp_path, document, words):
    file = tmp_path / "biasbench.json"
    file.write_text(json.dumps(document))
    with pytest.raises(DatasetError, match=words):
        evalbiasbench.load(file)


def test_missing_path_is_refused():
    with pytest.raises(InputError, match="ncsoft/offsetbias"):
        bl.load_dataset("evalbiasbench")


@pytest.mark.filterwarnings("ignore::biaslab.core.errors.RepeatedTextsWarning")  # two of its instructions are one
def test_accuracy_by_kind_of_a_simulated_judge(published):
    """Where the good response is worth a logit, decisions go its way as often as the normal noise has it."""
    data = bl.load_dataset("evalbiasbench", path=published)
    judge = bl.SimulatedJudge(data, quality=1.0, noise=1.0)
    trials = bl.collect(bl.probes.Position(templates=[1]), judge, data, progress=False)
    found = bl.audit(by_kind(trials), only=["subsets"])
    accuracy = found[found["metric"] == "comparative_accuracy"].set_index("subset")
    assert accuracy["n_contexts"].to_dict() == KINDS
    assert (accuracy["n_trials"] == 2 * accuracy["n_contexts"]).all()
    covered = (accuracy["ci_low"] < 0.841) & (accuracy["ci_high"] > 0.841)
    assert covered.sum() >= 5
    for kind, part in by_kind(trials).groupby("subset"):
        right = (part["value"] > 0.5) == (part["human_gap"] > 0)
        assert accuracy.loc[kind, "estimate"] == pytest.approx(right.mean())


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::biaslab.core.errors.RepeatedTextsWarning")
def test_accuracy_of_the_embedded_judge(published):
    """It decides for what stands first; what both orders have in common falls for the longer, bad response."""
    data = bl.load_dataset("evalbiasbench", path=published, kinds=["length", "familiar knowledge"])
    probe = bl.probes.Position(templates=[1], attributes=["overall"])
    trials = bl.collect(probe, bl.load_judge("smollm2-135m"), data, progress=False)
    found = bl.audit(by_kind(trials), only=["subsets"])
    accuracy = found[found["metric"] == "comparative_accuracy"]
    assert accuracy["n_contexts"].tolist() == [17, 12]
    assert accuracy["estimate"].tolist() == [0.5, 0.5]
    length = trials[trials["context_id"].str.startswith("length/")]
    table = bl.ranking.compare_remedies(length, data.human_means, remedies=["swap-average"], orders=["both"])
    averaged = table[(table["metric"] == "comparative_accuracy") & (table["against"] == "")]
    assert averaged["ci_high"].item() < 0.4
