"""Records of any shape become flat rows: dotted columns, lists as rows or numbered columns."""

import pandas as pd
import pytest

import biaslab as bl
from biaslab.logs.readers.flatten import Unnesting, flattened, steps_of_paths, unnesting
from biaslab.logs.readers.rows import Log, Rows


def flat(record, *steps):
    return list(flattened(Rows([record], [1], Log("x"), False), steps).records)


def is_outcome(name, _):
    return name.endswith("score")


def test_objects_become_dotted_columns():
    assert flat({"a": {"b": {"c": 1}}, "d": [1, 2]}) == [{"a.b.c": 1, "d[0]": 1, "d[1]": 2}]


def test_field_with_a_dotted_name_hides_the_path():
    for record in ({"a.b": "x", "a": {"b": "y"}}, {"a": {"b": "y"}, "a.b": "x"}):
        assert flat(record) == [{"a.b": "x"}]


def test_innermost_list_of_scores_sets_the_rows():
    record = {"id": 1, "qs": [{"q": "u", "docs": [{"score": 1}, {"score": 2}]}, {"q": "v", "docs": [{"score": 3}]}]}
    steps = unnesting([record], is_outcome).steps
    assert steps == ("qs[]", "qs[].docs[]")
    rows = flat(record, *steps)
    assert [(row["id"], row["qs[].q"], row["qs[].docs[].score"]) for row in rows] == [
        (1, "u", 1), (1, "u", 2), (1, "v", 3)
    ]  # fmt: skip


def test_lists_without_an_outcome_stay():
    assert unnesting([{"score": 3, "notes": [{"text": "x"}]}], is_outcome) == Unnesting()


def test_list_of_one_object_is_flat_unless_a_message():
    assert flat({"by": [{"model": "j", "why": "so"}]}) == [{"by[0].model": "j", "by[0].why": "so"}]
    for record in ({"by": [{"role": "user", "content": "Why?"}]}, {"by": [{"model": "j"}, {"model": "k"}]}):
        assert flat(record) == [record]


def test_keys_of_lists_of_one_shape_are_a_column():
    record = {"ann": [{"score": 1}], "bob": [{"score": 2}, {"score": 3}]}
    rows = flat(record, *unnesting([record], is_outcome).steps)
    assert [(row["*"], row["*[].score"]) for row in rows] == [("ann", 1), ("bob", 2), ("bob", 3)]


def test_lists_side_by_side_are_rows():
    record = {"q": "u", "model": ["x", "y"], "score": [3, 4]}
    rows = flat(record, *unnesting([record], is_outcome).steps)
    assert [(row["q"], row["model[]"], row["score[]"]) for row in rows] == [("u", "x", 3), ("u", "y", 4)]


def test_paths_of_a_mapping_name_the_lists():
    assert steps_of_paths(["a[].b[].c", "a[].d", "e"]) == ("a[]", "a[].b[]")
    assert steps_of_paths(["a.b", "c"]) == ()


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_mapping_reads_nested_scores_at_any_depth(levels):
    name = "".join(f"l{level}[]." for level in range(levels))
    record = [{"q": f"q{n}", "model": "x", "score": 1 + n % 5} for n in range(20)]
    for level in reversed(range(levels)):
        record = [{f"l{level}": record}]
    trials = bl.read_judgements(
        pd.DataFrame(record),
        mapping={"context_id": f"{name}q", "candidate_id": f"{name}model", "score": f"{name}score", "scale": "=1-5"},
    )
    assert trials["value"].tolist() == [1.0 + n % 5 for n in range(20)]
