"""Loaders of data that papers use and that are not at hand: small files in the published layout."""

import json

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import DatasetError, InputError


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
    found = bl.datasets._loader("webnlg_2017").published_scores(webnlg_2017(), data)
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
