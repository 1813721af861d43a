"""An evaluator as a judge: the store keeps its scores, probes run on it, and no file of it runs code."""

import hashlib
import json
import pickle
import shutil

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.core import Choice, Score
from biaslab.core.errors import InputError, JudgeError, ModelLoadError, UnsupportedRequestError
from biaslab.distill import (
    EvaluatorJudge,
    WeightedEvaluators,
    cross_fit,
    examples,
    learning_curve,
    load_evaluator,
    load_evaluators,
    rated_by,
    scores_of,
    students,
    train,
)
from biaslab.distill.annotation import Reward

QUICK = {"epochs": 3, "hidden": (8,), "progress": False}


class Malice:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.fixture(scope="module", params=[0, 1], ids=["frozen", "top layer"])
def evaluator(request, tiny_encoder, taught):
    return train(taught, encoder=tiny_encoder, trainable=request.param, **QUICK)


@pytest.fixture(scope="module")
def folds(tiny_encoder, taught):
    return cross_fit(taught, folds=3, encoder=tiny_encoder, **QUICK)


def given(taught, rows=slice(None)):
    return [taught[name].tolist()[rows] for name in ("text", "source", "reference")]


def requests(taught, attribute="merit"):
    return [Score(*shown, attribute) for shown in zip(*given(taught), strict=True)]


def test_saved_and_loaded_it_scores_the_same(evaluator, taught, tmp_path):
    from safetensors.torch import load_file

    folder = evaluator.save(tmp_path / "e")
    assert sorted(path.name for path in folder.iterdir()) == ["evaluator.json", "evaluator.safetensors"]
    again = load_evaluator(folder)
    assert np.array_equal(again.score(*given(taught)), evaluator.score(*given(taught)))
    assert (again.id, again.training) == (evaluator.id, evaluator.training)
    names = load_file(folder / "evaluator.safetensors")
    assert any(name.startswith("encoder.") for name in names) == (evaluator.settings.trainable != 0)


def test_the_id_pins_the_weights(evaluator, tmp_path):
    again = load_evaluator(evaluator.save(tmp_path / "e"))
    weights = again.weights()
    for name in weights:
        changed = {**weights, name: weights[name] + 1e-6}
        again.load_weights(changed)
        assert again.id != evaluator.id
        assert EvaluatorJudge(again).id != EvaluatorJudge(evaluator).id
    again.load_weights(weights)
    assert again.id == evaluator.id


def test_a_score_does_not_depend_on_its_company(evaluator, taught):
    together = evaluator.score(*given(taught))
    alone = [evaluator.score(*given(taught, slice(i, i + 1)))[0] for i in range(0, 60, 7)]
    assert alone == pytest.approx(together[::7], abs=1e-6)
    assert evaluator.score([], [], []).shape == (0,)


@pytest.mark.parametrize("name", ["evaluator.bin", "evaluator.pt", "pytorch_model.bin", "evaluator.pkl"])
def test_a_pickle_is_refused_before_it_runs(name, evaluator, tmp_path):
    folder, ran = evaluator.save(tmp_path / "e"), tmp_path / "ran"
    (folder / "evaluator.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Malice(ran)))
    with pytest.raises(ModelLoadError, match=f"{name} may run code"):
        load_evaluator(folder)
    with pytest.raises(ModelLoadError, match=name):
        bl.load_judge(f"evaluator:{folder}")
    assert not ran.exists()
    pickle.loads((folder / name).read_bytes()).close()
    assert ran.exists()  # it would have run


@pytest.mark.parametrize("dump", [pickle.dumps, None])
def test_a_pickle_in_disguise_is_refused(dump, evaluator, tmp_path):
    import torch

    folder, ran = evaluator.save(tmp_path / "e"), tmp_path / "ran"
    weights = folder / "evaluator.safetensors"
    weights.write_bytes(dump(Malice(ran))) if dump else torch.save(Malice(ran), weights)
    card = json.loads((folder / "evaluator.json").read_text())
    card["weights"] = hashlib.sha256(weights.read_bytes()).hexdigest()
    (folder / "evaluator.json").write_text(json.dumps(card))
    with pytest.raises(ModelLoadError, match="cannot be read"):
        load_evaluator(folder)
    assert not ran.exists()


def test_an_encoder_that_is_a_pickle_is_refused(tiny_encoder, taught, tmp_path):
    other = shutil.copytree(tiny_encoder, tmp_path / "tiny")
    folder = train(taught, encoder=str(other), **QUICK).save(tmp_path / "e")
    ran = tmp_path / "ran"
    (other / "model.safetensors").unlink()
    (other / "pytorch_model.bin").write_bytes(pickle.dumps(Malice(ran)))
    with pytest.raises(ModelLoadError, match="could not be loaded"):
        load_evaluator(folder)
    assert not ran.exists()


CHANGES = {
    "format": ["biaslab evaluator 2", None],
    "attribute": [3],
    "revision": [1, "0" * 16],
    "layer": ["2", True, 1],
    "weights": ["0" * 64, 1],
    "training": [[], {"x": float("inf")}, {"x": {"y": 1}}],
    "settings": [{}, "x"],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in CHANGES.items() for v in values])
def test_changed_evaluator_card_is_refused(name, value, evaluator, tmp_path):
    folder = evaluator.save(tmp_path / "e")
    card = json.loads((folder / "evaluator.json").read_text())
    (folder / "evaluator.json").write_text(json.dumps({**card, name: value}))
    with pytest.raises(ModelLoadError):
        load_evaluator(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": "x"},
        {"hidden": "ab"},
        {"stars": 2.5},
        {"encoder": 3},
        {"trainable": None},
        {"more": 1},
        {"learning_rate": 10**400},
    ],
)
def test_settings_of_another_type(change, evaluator, tmp_path):
    folder = evaluator.save(tmp_path / "e")
    card = json.loads((folder / "evaluator.json").read_text())
    card["settings"] |= change
    (folder / "evaluator.json").write_text(json.dumps(card))
    with pytest.raises(ModelLoadError, match="cannot be read"):
        load_evaluator(folder)


@pytest.mark.parametrize(
    "declared", [{"hidden": [10**9]}, {"hidden": [1] * 10**5}, {"loss": "classification", "stars": 10**9}]
)
def test_declared_sizes_take_no_memory(declared, evaluator, tmp_path, monkeypatch):
    from biaslab.distill import evaluator as module

    folder = evaluator.save(tmp_path / "e")
    card = json.loads((folder / "evaluator.json").read_text())
    card["settings"] |= declared
    (folder / "evaluator.json").write_text(json.dumps(card))
    made, head = [], module._head
    monkeypatch.setattr(module, "_head", lambda *given: made.append(head(*given)) or made[-1])
    with pytest.raises(ModelLoadError, match="do not fit"):
        load_evaluator(folder)
    assert {layer[0].weight.device.type for layer in made} <= {"meta"}


@pytest.mark.parametrize("size", [10**5, 10**8], ids=["nested", "large"])
def test_deep_or_large_card_is_refused(size, evaluator, tmp_path):
    folder = evaluator.save(tmp_path / "e")
    with (folder / "evaluator.json").open("wb") as card:
        card.write(b"[" * 10**5)
        card.truncate(size)
    with pytest.raises(ModelLoadError, match="larger than 64 MB" if size > 10**6 else "cannot be read"):
        load_evaluator(folder)


def test_weights_that_do_not_fit(evaluator, tmp_path):
    import torch
    from safetensors.torch import load_file, save_file

    folder = evaluator.save(tmp_path / "e")
    weights = load_file(folder / "evaluator.safetensors")
    bad = {
        "shape": {**weights, "head.0.bias": torch.zeros(9)},
        "type": {**weights, "head.0.bias": torch.zeros(8, dtype=torch.float64)},
        "number": {**weights, "head.0.bias": torch.full((8,), torch.nan)},
        "more": {**weights, "head.9.bias": torch.zeros(8)},
        "less": {name: tensor for name, tensor in weights.items() if name != "head.0.bias"},
    }
    card = json.loads((folder / "evaluator.json").read_text())
    for tensors in bad.values():
        save_file(tensors, folder / "evaluator.safetensors")
        card["weights"] = hashlib.sha256((folder / "evaluator.safetensors").read_bytes()).hexdigest()
        (folder / "evaluator.json").write_text(json.dumps(card))
        with pytest.raises(ModelLoadError, match="do not fit"):
            load_evaluator(folder)


@pytest.mark.slow
def test_the_encoder_may_have_moved_but_not_changed(tiny_encoder, taught, tmp_path):
    other = shutil.copytree(tiny_encoder, tmp_path / "tiny")
    made = train(taught, encoder=str(other), **QUICK)
    folder = made.save(tmp_path / "e")
    shutil.rmtree(other)
    with pytest.raises(ModelLoadError):
        load_evaluator(folder)
    assert load_evaluator(folder, encoder=tiny_encoder).id == made.id
    with pytest.raises(ModelLoadError, match="not the one"):
        load_evaluator(folder, encoder="minilm-l6")


def test_judge_answers_score_requests(evaluator, taught):
    judge, asked = EvaluatorJudge(evaluator, "student"), requests(taught)
    judge.check(asked)
    replies = dict(judge.ask(asked))
    assert [replies[r].score for r in asked] == pytest.approx(evaluator.score(*given(taught)))
    assert judge.id.startswith("student/merit=evaluator:merit:tiny:reference-free@")
    assert isinstance(judge, bl.Judge)
    whole = Score(asked[0].text, asked[0].source)
    assert dict(judge.ask([whole]))[whole].score == pytest.approx(replies[asked[0]].score)


def test_judge_refuses_other_attributes_and_requests(evaluator, tiny_encoder, taught):
    judge = EvaluatorJudge(evaluator)
    with pytest.raises(JudgeError, match="no evaluator for the attribute 'wit', only for merit"):
        judge.check([Score("good", "bad", attribute="wit")])
    with pytest.raises(JudgeError, match="trained with a source"):
        judge.check([Score("good", attribute="merit")])
    with pytest.raises(UnsupportedRequestError):
        judge.check([Choice("good?", ("A", "B"))])
    based = EvaluatorJudge(train(taught, encoder=tiny_encoder, inputs="reference-based", **QUICK))
    with pytest.raises(JudgeError, match="trained with a reference"):
        based.check([Score("good", "bad", attribute="merit")])
    output = EvaluatorJudge(train(taught, encoder=tiny_encoder, inputs="output", **QUICK))
    output.check([Score("good", attribute="merit")])
    with pytest.raises(InputError, match="one for each attribute"):
        EvaluatorJudge([evaluator, evaluator])
    with pytest.raises(InputError, match="at least one"):
        EvaluatorJudge([])
    with pytest.raises(InputError, match="a source for each text"):
        evaluator.score(["good"], [" "])


def test_the_multiple_evaluator_judges_the_whole(evaluator, tiny_encoder, taught):
    multiple = train(taught.assign(attribute="multiple"), encoder=tiny_encoder, seed=3, **QUICK)
    judge = EvaluatorJudge([evaluator, multiple])
    asked = Score("good bad", "red blue")
    assert dict(judge.ask([asked]))[asked].score == pytest.approx(multiple.score(["good bad"], ["red blue"])[0])
    named = EvaluatorJudge({"merit": evaluator, "wit": multiple})
    with pytest.raises(JudgeError, match="''"):
        named.check([asked])


def test_cross_fit_scores_with_folds_that_never_saw_the_source(folds, taught):
    texts, sources, _ = given(taught)
    judges = [folds.unseen_by(text, source) for text, source in zip(texts, sources, strict=True)]
    assert {len(numbers) for numbers in judges} == {1}
    places = [number for (number,) in judges]
    assert sorted(set(places)) == [0, 1, 2]
    assert taught.assign(fold=places).groupby("context_id")["fold"].nunique().max() == 1
    found = folds.score(texts, sources)
    for number, evaluator in enumerate(folds.folds):
        mine = [i for i, place in enumerate(places) if place == number]
        assert evaluator.training["examples"] == len(texts) - len(mine)
        own = evaluator.score([texts[i] for i in mine], [sources[i] for i in mine])
        assert found[mine] == pytest.approx(own, abs=1e-6)
    new = folds.score(["good bad"], ["new new"])
    assert new == pytest.approx(np.mean([e.score(["good bad"], ["new new"]) for e in folds.folds], axis=0), abs=1e-6)


def test_held_out_labels_cannot_reach_their_own_scores(tiny_encoder, taught, folds):
    """Other labels for the contexts of one fold leave the scores of that fold as they are, and move the others."""
    places = np.array([folds.unseen_by(t, s)[0] for t, s in zip(taught["text"], taught["source"], strict=True)])
    changed = taught.assign(label=taught["label"].where(places != 0, 1 - taught["label"]))
    other = cross_fit(changed, folds=3, encoder=tiny_encoder, **QUICK)
    before, after = (each.score(taught["text"].tolist(), taught["source"].tolist()) for each in (folds, other))
    assert after[places == 0] == pytest.approx(before[places == 0])
    assert np.abs(after - before)[places != 0].max() > 1e-3


@pytest.mark.slow
def test_repeats_are_cross_fits_whose_mean_judges(tiny_encoder, taught, folds, tmp_path):
    options = {"folds": 3, "encoder": tiny_encoder, **QUICK}
    twice, other = cross_fit(taught, repeats=2, **options), cross_fit(taught, seed=1, **options)
    assert [e.digest for e in twice.folds] == [e.digest for e in (*folds.folds, *other.folds)]
    texts, sources, _ = given(taught)
    found = twice.score(texts, sources)
    assert found == pytest.approx((folds.score(texts, sources) + other.score(texts, sources)) / 2, abs=1e-6)
    new = [e.score(["good bad"], ["new new"])[0] for e in twice.folds]
    assert twice.score(["good bad"], ["new new"])[0] == pytest.approx(np.mean(new), abs=1e-6)
    again = load_evaluators(twice.save(tmp_path / "twice"))
    assert again.id == twice.id != folds.id
    assert np.array_equal(again.score(texts, sources), found)
    with pytest.raises(InputError, match="repeats"):
        cross_fit(taught, repeats=0, **options)


def test_judges_by_name(evaluator, folds, taught, tmp_path):
    asked = requests(taught)[:3]
    for saved in (evaluator, folds):
        folder = saved.save(tmp_path / type(saved).__name__)
        judge = bl.load_judge(f"evaluator:{folder}")
        assert judge.id == EvaluatorJudge(saved, folder.name).id
        assert dict(judge.ask(asked)) == dict(EvaluatorJudge(saved).ask(asked))
    evaluator.save(tmp_path / "both" / "merit")
    cross = load_evaluators(tmp_path / "Evaluators")
    cross.save(tmp_path / "both" / "other")
    with pytest.raises(ModelLoadError, match="several evaluators of one attribute"):
        bl.load_judge(f"evaluator:{tmp_path / 'both'}")
    shutil.rmtree(tmp_path / "both" / "other")
    assert list(bl.load_judge(f"evaluator:{tmp_path / 'both'}").evaluators) == ["merit"]
    with pytest.raises(ModelLoadError, match=r"evaluator folder .* does not exist"):
        bl.load_judge(f"evaluator:{tmp_path / 'nowhere'}")


@pytest.mark.parametrize(
    "change",
    [
        {"folds": 4},
        {"folds": 10**30},
        {"held_out": {"x": [7]}},
        {"held_out": {"x": []}},
        {"held_out": {"x": 1}},
        {"held_out": []},
        {"format": 1},
        {"more": 1},
    ],
)
def test_folds_that_are_not_there(change, folds, tmp_path):
    folder = folds.save(tmp_path / "e")
    card = json.loads((folder / "folds.json").read_text())
    (folder / "folds.json").write_text(json.dumps({**card, **change}))
    with pytest.raises(ModelLoadError):
        load_evaluators(folder)


@pytest.fixture(scope="module")
def student(tiny_encoder):
    data = bl.load_dataset("graded", limit=4)
    stars = bl.collect(bl.distill.Stars(aspects=["fluency"]), bl.SimulatedJudge(data), data, progress=False)
    with pytest.warns(UserWarning, match="are truncated"):
        made = cross_fit(examples(stars, data), folds=2, encoder=tiny_encoder, **QUICK)
    return data, EvaluatorJudge(made, "student")


@pytest.mark.filterwarnings("ignore:.* texts are truncated")
def test_a_probe_runs_on_it_and_the_store_keeps_its_scores(student, tmp_path):
    data, judge = student
    perplexity = {text: len(text) / 100 for text in data.candidates["text"]}
    probe = bl.probes.Familiarity(["fluency"], sources=False, answer="score", log_perplexity=perplexity)
    runs = [bl.collect(probe, judge, data, store=tmp_path / "s.sqlite", progress=False) for _ in range(2)]
    assert [run.attrs["asked"] for run in runs] == [len(data.candidates), 0]
    assert runs[0]["value"].equals(runs[1]["value"])
    raw = judge.evaluators["fluency"].score(data.candidates["text"].tolist(), data.candidates["context"].tolist())
    assert runs[0]["value"].to_numpy() == pytest.approx(1 + 4 * raw, abs=1e-5)
    estimates = probe.estimate(runs[0])
    assert estimates["estimate"].notna().any()
    assert set(estimates["judge"]) == {judge.id}


@pytest.mark.filterwarnings("ignore:.* texts are truncated")
def test_reward_and_rerank_choose_the_same_texts(student):
    data, judge = student
    rewards = bl.collect(Reward(), judge, data, progress=False)
    best = bl.distill.rerank(data, judge, progress=False)
    top = rewards.loc[rewards.groupby("context_id")["value"].idxmax()]
    assert set(zip(top["context_id"], top["candidate_id"], strict=True)) == set(
        zip(best.candidates["context_id"], best.candidates["candidate_id"], strict=True)
    )


QUICK_weighted = {"epochs": 2, "hidden": (4,), "progress": False}


@pytest.fixture(scope="module")
def evaluators(tiny_encoder, taught):
    options = {"encoder": tiny_encoder, **QUICK_weighted}
    return {
        "alone": train(taught, inputs="output", **options),
        "folds": cross_fit(taught, folds=2, inputs="reference-based", seed=1, **options),
    }


def shown(taught):
    return [taught[name].tolist() for name in ("text", "source", "reference")]


def test_scores_are_the_weighted_sum(evaluators, taught):
    both = WeightedEvaluators(evaluators, {"alone": 3.0, "folds": 1.0})
    one, two = (each.score(*shown(taught)) for each in evaluators.values())
    np.testing.assert_allclose(both.score(*shown(taught)), 0.75 * one + 0.25 * two)
    equal = WeightedEvaluators(evaluators)
    np.testing.assert_allclose(equal.score(*shown(taught)), (one + two) / 2)
    assert both.needs == ("source", "reference")
    assert WeightedEvaluators({"alone": evaluators["alone"]}).needs == ()


def test_an_evaluator_without_weight_is_not_asked(evaluators, taught):
    only = WeightedEvaluators(evaluators, {"alone": 1.0, "folds": 0.0})
    assert only.score(taught["text"].tolist()).shape == (len(taught),)  # the other needs a reference


def test_the_id_pins_evaluators_and_weights(evaluators):
    ids = {WeightedEvaluators(evaluators, {"alone": w, "folds": 1.0}).id for w in (1.0, 2.0, 2.0 + 1e-12)}
    assert len(ids) == 3
    assert WeightedEvaluators(evaluators).id == WeightedEvaluators(evaluators, {"alone": 2.0, "folds": 2.0}).id
    swapped = dict(zip(evaluators, reversed(evaluators.values()), strict=True))
    assert WeightedEvaluators(swapped).id != WeightedEvaluators(evaluators).id


def test_weighted_evaluators_serve_as_a_judge(evaluators, taught):
    both = WeightedEvaluators(evaluators)
    judge = EvaluatorJudge(both)
    for attribute in ("", "multiple"):
        requests = [Score(*texts, attribute) for texts in zip(*shown(taught), strict=True)]
        judge.check(requests)
        replies = dict(judge.ask(requests))
        np.testing.assert_allclose([replies[r].score for r in requests], both.score(*shown(taught)))


@pytest.mark.parametrize("weights", [(1.0,), (1.0, -1.0), (0.0, 0.0), (float("nan"), 1.0)])
def test_invalid_weights_are_refused(evaluators, weights):
    weights = dict(zip(evaluators, weights, strict=False))
    with pytest.raises(InputError, match="a non-negative number for each of alone, folds"):
        WeightedEvaluators(evaluators, weights)
    with pytest.raises(InputError, match="at least one"):
        WeightedEvaluators({})


QUICK_students = {"epochs": 2, "hidden": (8,), "inputs": "output", "progress": False}


class Longer:
    """Stands for cross-fitted evaluators: longer texts score more."""

    def score(self, texts, sources, references):
        assert len(texts) == len(sources) == len(references)
        return np.array([len(text) for text in texts], float)


@pytest.fixture(scope="module")
def labelled(graded):
    return bl.distill.annotate(bl.SimulatedJudge(graded, noise=1), graded, ["coherence", "fluency"], progress=False)


def test_labels_agree_perfectly_with_their_teacher(graded, labelled):
    rated = {"teacher": rated_by(labelled, graded, "t"), "humans": rated_by(labelled, graded, "h", label=False)}
    found = bl.scoring.agreement(scores_of(labelled, graded), rated, ["dataset"], ["spearman"])
    by = found.set_index(["agreement_with", "attribute"])["estimate"]
    assert by["teacher"].to_numpy() == pytest.approx([1, 1])
    assert (by["humans"] < 1).all()
    assert (by["humans"] > 0.5).all()
    alone = bl.scoring.agreement(scores_of(labelled, graded), rated["humans"], ["dataset"], ["spearman"])
    assert alone["estimate"].to_numpy() == pytest.approx(by["humans"].to_numpy())


def test_evaluators_score_the_texts_of_their_attribute(graded, labelled):
    mixed = labelled.sample(frac=1, random_state=0)
    scores = scores_of(mixed, graded, {"coherence": Longer(), "fluency": Longer()}, "length")
    assert scores["score"].tolist() == [len(text) for text in mixed["text"]]
    assert set(scores["scorer"]) == {"length"}
    with pytest.raises(InputError, match="no evaluator of fluency"):
        scores_of(labelled, graded, {"coherence": Longer()})


def test_ratings_lie_on_the_scale_of_the_data_set(graded, labelled):
    rated = rated_by(labelled.assign(label=1.0), graded, "generous")
    assert set(rated.human["score"]) == {graded.scale[1]}
    assert set(rated.human["annotator"]) == {"generous"}
    assert list(rated.attributes) == ["coherence", "fluency"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* texts are truncated")
def test_each_attribute_has_a_student_with_its_inputs(tiny_encoder, graded, labelled):
    shown = QUICK_students | {"inputs": {"coherence": "reference-free", "fluency": "output"}}
    taught = students(labelled, folds=50, encoder=str(tiny_encoder), **shown)
    assert {name: each.needs for name, each in taught.items()} == {"coherence": ("source",), "fluency": ()}
    assert len(taught["fluency"].folds) == graded.n_contexts
    with pytest.raises(InputError, match="inputs for fluency"):
        students(labelled, inputs={"coherence": "output"}, progress=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* texts are truncated")
@pytest.mark.parametrize(("fewer", "counts", "used"), [("texts", [1, 2, 99], [6, 12]), ("sources", [12, 99], [12])])
def test_curves_teach_with_fewer_texts_and_score_all(tiny_encoder, graded, labelled, fewer, counts, used):
    one = labelled[labelled["attribute"] == "fluency"]
    curve = learning_curve(one, graded, counts, fewer, folds=4, encoder=str(tiny_encoder), **QUICK_students)
    sizes = curve.groupby("annotations", sort=False)["score"].agg(["size", "count"])
    assert sizes.to_numpy().tolist() == [[len(one), len(one)]] * len(used)
    assert sizes.index.tolist() == used
    again = learning_curve(one, graded, counts, fewer, folds=4, encoder=str(tiny_encoder), **QUICK_students)
    pd.testing.assert_frame_equal(curve, again)


def test_ratings_are_of_the_teacher_and_of_humans_if_known(graded, labelled):
    rated = bl.distill.ratings(labelled, graded, "t")
    assert list(rated) == ["teacher", "reference scores"]
    expected = rated_by(labelled, graded, "reference scores", label=False)
    pd.testing.assert_frame_equal(rated["reference scores"].human, expected.human)
    assert list(bl.distill.ratings(labelled.assign(human=np.nan), graded)) == ["teacher"]
