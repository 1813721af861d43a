"""The table bias × form is what the probes declare."""

from dataclasses import dataclass

import pytest

import biaslab as bl
from biaslab.core import Metric
from biaslab.probes import FORMS, available
from biaslab.probes.base import WRITTEN, ScoreProbe


def test_each_primary_metric_has_one_row_per_form():
    rows = bl.probes.table()
    assert not rows.duplicated(["probe", "form", "metric"]).any()
    for name, kind in available().items():
        own = rows[rows["probe"] == name]
        assert set(own["form"]) == set(kind.asks_for) <= set(FORMS)
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
        taken = {form for form in str(getattr(kind, "protocol_form", "")).split() if form != "or"}
        assert taken <= set(kind.asks_for), name


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
