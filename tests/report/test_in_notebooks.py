"""What JupyterLab shows of data sets, judges, plans and stores: facts, with text from data escaped."""

import dataclasses

import biaslab as bl


def test_a_data_set_says_what_it_holds(graded):
    shown = dataclasses.replace(graded, name="<b>", provenance="a & b")._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "a &amp; b" in shown
    assert '<td style="text-align: left">8</td>' in shown
    assert all(f"attribute {name}" in shown for name in graded.attributes)


def test_a_simulated_judge_says_what_is_planted(graded):
    shown = bl.SimulatedJudge(graded, position=0.5, noise=1.0)._repr_html_()
    assert "<tr><th>position</th><td>0.5</td></tr>" in shown
    assert "a fair judge" in bl.SimulatedJudge(graded)._repr_html_()


def test_a_store_and_a_plan_are_shown(graded, tmp_path):
    judge = bl.SimulatedJudge(graded)
    probe = bl.probes.Position(["coherence"], [1])
    planned = bl.plan(probe, judge, graded)
    assert planned._repr_html_().count("<li>") == len(str(planned).splitlines()) - 1
    with bl.Store(tmp_path / "s.sqlite") as store:
        bl.collect(probe, judge, graded, store=store, progress=False)
        assert "240 replies" in store._repr_html_()
