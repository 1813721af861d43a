"""The page of replications: each pair opens to how both numbers are computed, and its command gives ours again."""

import html
import re

import pytest

import biaslab as bl
from biaslab.atlas.judgements import rows_named
from biaslab.core.errors import InputError, TrialsError

PAIR = re.compile(r"<details.*?</details>", re.S)


@pytest.fixture(scope="module")
def found():
    return bl.atlas.replications()


@pytest.fixture(scope="module")
def page(found):
    return bl.atlas.replication_page(found).to_html()


def test_page_explains_every_pair_of_numbers_without_script(found, page):
    pairs = PAIR.findall(page)
    assert len(pairs) == len(found)
    for shown, row in zip(pairs, found.to_dict("records"), strict=True):
        text = html.unescape(shown)
        assert text.count("<summary>") == 1
        assert row["theirs_is"] in text
        assert row["ours_is"] in text
        assert row["printed"] in text
        assert row["table"] in text
        assert row["why"] in text
        assert "arxiv.org/abs/" in text
        known = row["estimate"] == row["estimate"]
        assert known == ("bl.atlas.estimates(" in text)
        assert not known or f"{int(row['n_contexts']):,} context" in text


def test_the_page_fetches_nothing_and_says_how_many_come_out(found, page):
    assert not re.search(r"\bsrc=|\bimport[(]|url\(|\bfetch\(|<link|@import", page)
    said = re.findall(r"[\d,]+ of [\d,]+", bl.atlas.replication_page(found).headline)
    known = found[found["estimate"].notna()]
    counts = known["outcome"].value_counts()
    assert said == [f"{counts['equal']} of {len(known) - counts['not comparable']}", f"270 of {len(known)}"]
    assert all(each in page for each in said)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["comparative_accuracy", "accuracy_both_orders", "order_consistency", "win_rate"])
def test_the_command_estimates_our_number_again(found, page, metric):
    place = next(
        place
        for place, shown in enumerate(PAIR.findall(page))
        if found["metric"].iloc[place] == metric and "biaslab audit" in shown
    )
    [name] = re.findall(r"biaslab audit &#34;(.+?)&#34;", PAIR.findall(page)[place])
    row = found.iloc[place]
    again = bl.audit(rows_named(html.unescape(name)), only=[row["probe"]], breakdowns=False)
    again = again[(again["metric"] == metric) & (again["probe"] == row["probe"])]
    again = again[again["subset"] == row["subset"]] if row["probe"] == "subsets" else again
    assert (again["estimate"] - row["estimate"]).abs().min() < 1e-6


def test_some_rows_make_a_page_and_none_do_not(found, tmp_path):
    some = bl.atlas.replication_page(found[found["paper"] == "wang2024"])
    assert some.headline == "5 of 5 printed numbers measure a different quantity"
    assert len(PAIR.findall(some.save(tmp_path / "pairs.html").read_text(encoding="utf-8"))) == 5
    assert some._rows_at([1, 0])["judge"].tolist() == found.loc[found["paper"] == "wang2024", "judge"].tolist()[1::-1]
    with pytest.raises(InputError, match="at least one row"):
        bl.atlas.replication_page(found.head(0))
    with pytest.raises(TrialsError, match="theirs_is"):
        bl.atlas.replication_page(found.drop(columns="theirs_is"))
