"""RoSE and the hub: conversion of records in their published schema; the Hub itself is not asked."""

import gzip
import importlib.util
import json
import re

import pytest

from biaslab.core.errors import DatasetError, InputError, MissingDependencyError
from biaslab.datasets import hub, load_dataset, rose


def rose_record(**changes):
    """Return a record as ``Salesforce/rose`` declares it, of the GPT-3 protocol part, shortened."""
    rated = {"prior": 4.0, "ref_based": 2.0, "ref_free": 3.5, "acu_labels": [1, 0], "acu": 0.5}
    rated["normalized_acu"] = 0.25
    unrated = {
        "prior": 3.0,
        "ref_based": -1,
        "ref_free": 4.0,
        "acu_labels": [],
        "acu": -1,
        "normalized_acu": -1,
    }
    record = {"source": "An article.", "reference": "A reference.", "reference_acus": ["a", "b"]}
    record |= {"count_id": 53, "example_id": "012acd", "annotations": {"bart": rated, "reference": unrated}}
    return {**record, "system_outputs": {"bart": "A summary."}, **changes}


def test_rose_records_become_a_data_set():
    data = rose.from_records([rose_record()])
    assert (data.scale, data.human["score"].tolist()) == ((0.0, 1.0), [0.5])
    assert dict(zip(data.candidates["system"], data.candidates["text"], strict=True)) == {
        "bart": "A summary.",
        "reference": "A reference.",
    }
    protocols = rose.from_records([rose_record()], attributes=["prior", "ref_free", "ref_based"])
    assert protocols.scale == (1.0, 5.0)
    assert len(protocols.human) == 5
    with pytest.raises(InputError, match="acu 0-1, prior 1-5"):
        rose.from_records([rose_record()], attributes=["acu", "prior"])
    with pytest.raises(DatasetError, match="row 1, column 'source'"):
        rose.from_records([rose_record(source=None)])
    with pytest.raises(DatasetError, match="no ratings"):
        rose.from_records([rose_record(annotations={"bart": {"acu": None}})])


def test_rose_file(tmp_path):
    file = tmp_path / "cnndm.test.acus.aggregated.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(rose_record()).encode()))
    assert rose.load(file, attributes=["normalized_acu"]).human["score"].tolist() == [0.25]
    with pytest.raises(InputError, match="rose_data"):
        rose.load()


def hub_record(**changes):
    record = {"id": "dm-test-1", "text": "An article.", "machine_summaries": ["One.", "Two."]}
    record |= {"human_summaries": ["First.", "Second."], "relevance": [1.0, 5.0], "coherence": [2.0, 4.0]}
    return {**record, "fluency": [3.0, 3.0], "consistency": [1.3333333, 5.0], **changes}


def test_hub_converts_the_records_it_is_served():
    asked = []

    def fetch(*request):
        asked.append(request)
        return [hub_record()] if request[0] == "mteb/summeval" else [rose_record()]

    data = hub.load(fetch=fetch)
    assert data.candidates["candidate_id"].tolist() == ["0", "1"]
    assert data.candidates["reference"].tolist() == ["First.", "First."]
    assert data.human_means.loc[("dm-test-1", "1")].to_dict() == {
        "coherence": 4.0,
        "consistency": 5.0,
        "fluency": 3.0,
        "relevance": 5.0,
    }
    assert hub.load(name="Salesforce/rose", config="xsum", fetch=fetch, attributes=["prior"]).scale == (
        1.0,
        5.0,
    )
    assert asked == [
        ("mteb/summeval", None, "test", None),
        ("Salesforce/rose", "xsum", "data", "refs/convert/parquet"),
    ]
    with pytest.raises(DatasetError, match=r"row 1 has 1 scores of fluency, not 2"):
        hub.load(fetch=lambda *_: [hub_record(fluency=[3.0])])


def test_any_data_set_of_the_hub_loads_through_columns():
    asked = []

    def fetch(*request):
        asked.append(request)
        rows = [("Sun.", "a", "It shines.", 4), ("Sun.", "b", "It rains.", 1)]
        return [dict(zip(("article", "by", "summary", "rating"), row, strict=True)) for row in rows]

    columns = {"context": "article", "system": "by", "text": "summary", "quality": "rating"}
    options = {"columns": columns, "attributes": {"quality": "how good it is"}, "noun": "summary", "fetch": fetch}
    data = load_dataset("hub", name="somebody/summaries", split="train", revision="abc", **options)
    assert asked == [("somebody/summaries", None, "train", "abc")]
    assert (data.name, data.noun, data.human["score"].tolist()) == ("somebody/summaries", "summary", [4.0, 1.0])
    assert "somebody/summaries" in data.provenance
    own = hub.load(name="mteb/summeval", provenance="mine", **options)  # with columns it is as any other
    assert (asked[1], own.provenance) == (("mteb/summeval", None, "test", None), "mine")
    with pytest.raises(DatasetError, match=r"column 'sumary' is missing, .* article, by, summary, rating"):
        hub.load(name="somebody/summaries", **options | {"columns": columns | {"text": "sumary"}})
    with pytest.raises(DatasetError, match="row 2, column 'quality' is 4, allowed: a number from 0 to 3"):
        hub.load(name="a/b", scale=(0, 3), **options | {"fetch": lambda *_: [*reversed(fetch())]})
    with pytest.raises(DatasetError, match="empty"):
        hub.load(name="a/b", **options | {"fetch": lambda *_: []})


def test_hub_refuses_unknown_names():
    with pytest.raises(InputError, match=r"mteb/summeval.*columns=\{'context': 'article', 'text': 'summary'\}"):
        hub.load(name="mteb/summ")
    with pytest.raises(InputError, match="load_dataset"):
        hub.load(path="somewhere")


@pytest.mark.skipif(importlib.util.find_spec("datasets") is not None, reason="the package datasets is installed")
def test_hub_names_the_package_that_is_missing():
    with pytest.raises(MissingDependencyError, match=re.escape("pip install '.[hub]'")):
        hub.load()
