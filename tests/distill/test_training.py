"""What an evaluator learns, that the same seed teaches it the same, and that a kill costs nothing."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy.stats import spearmanr

from biaslab.core.errors import InputError, TrialsError
from biaslab.distill import Settings, cross_fit, features, train
from biaslab.distill.evaluator import States, TextEncoder, _shared
from biaslab.distill.training import _split, shared_between_stars
from biaslab.judges.loading import find_model

QUICK = {"epochs": 3, "hidden": (8,), "progress": False}
EVERY = ["reference-free", "reference-based", "output"]


def same(one, two):
    one, two = one.weights(), two.weights()
    return set(one) == set(two) and all(torch.equal(one[name], two[name]) for name in one)


def test_features_are_equations_7_and_8():
    h, s, r = torch.randn(3, 4, 5).double()
    found = features(h, s, r).numpy()
    h, s, r = h.numpy(), s.numpy(), r.numpy()
    assert np.array_equal(found, np.hstack([h, r, h * s, h * r, np.abs(h - s), np.abs(h - r)]))
    free = features(torch.tensor(h), torch.tensor(s)).numpy()
    assert np.array_equal(free, np.hstack([h, s, h * s, np.abs(h - s)]))
    assert np.array_equal(features(torch.tensor(h)).numpy(), h)
    with pytest.raises(InputError, match="a source"):
        features(torch.tensor(h), None, torch.tensor(r))


@given(st.floats(0, 1), st.integers(2, 9))
def test_a_label_between_stars_is_shared_and_stays_the_mean(label, stars):
    [shares] = shared_between_stars(torch.tensor([label], dtype=torch.float64), stars).numpy()
    assert shares.sum() == pytest.approx(1)
    assert shares @ np.linspace(0, 1, stars) == pytest.approx(label)
    assert (shares > 0).sum() <= 2


@pytest.mark.parametrize("pooling", ["cls", "mean", "last"])
@pytest.mark.parametrize("layer", [1, 3])
def test_vectors_are_those_of_each_text_alone(tiny_encoder, taught, pooling, layer):
    encoder = TextEncoder(find_model(tiny_encoder), layer)
    texts = [*taught["text"].head(4), "good", "good bad"]
    found = encoder.vectors(texts, pooling)
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(tiny_encoder).eval(), AutoTokenizer.from_pretrained(tiny_encoder)
    for text, vector in zip(texts, found, strict=True):
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        with torch.inference_mode():
            states = model(ids, output_hidden_states=True).hidden_states[layer][0]
        wanted = {"cls": states[0], "mean": states.mean(0), "last": states[-1]}[pooling]
        assert vector.numpy() == pytest.approx(wanted.numpy(), abs=1e-5)


@pytest.mark.slow
def test_vector_does_not_depend_on_its_batch(tiny_encoder, taught):
    """To the last bit: a run that is taken up again encodes other texts together than the one that was killed."""
    together, alone = (TextEncoder(find_model(tiny_encoder)) for _ in range(2))
    texts = ["good", "good bad", *taught["text"], *taught["source"]]
    found = together.vectors(texts, "mean")
    assert all(torch.equal(found[i], alone.vectors([text], "mean")[0]) for i, text in enumerate(texts))


@pytest.mark.parametrize("change", ["shape", "number", "record", "optimizer", "type", "none"])
def test_checkpoint_of_others_is_refused(change, tiny_encoder, taught, tmp_path, monkeypatch):
    from biaslab.distill import checkpoints, training

    monkeypatch.setattr(training, "remove_checkpoints", lambda folder: None)
    options = {"encoder": tiny_encoder, "folder": tmp_path, **QUICK}
    whole = train(taught, **options)
    (tmp_path / "evaluator.json").unlink()
    tensors, record = checkpoints.load_checkpoint(tmp_path)
    first = next(name for name in tensors if name.startswith("now:"))
    changed = {
        "shape": ({**tensors, first: torch.zeros(9, 9, 9)}, record),
        "number": ({**tensors, first: torch.full_like(tensors[first], torch.nan)}, record),
        "record": (tensors, {"run": record["run"]}),
        "optimizer": ({**tensors, "optimizer:x:exp_avg": torch.zeros(1)}, record),
        "type": (tensors, {**record, "run": None}),
        "none": (tensors, record),
    }
    checkpoints.save_checkpoint(tmp_path, record["step"], *changed[change])
    if change == "none":
        assert same(train(taught, **options), whole)
    else:
        with pytest.raises(InputError, match="folder"):
            train(taught, **options)


@pytest.mark.slow
@pytest.mark.parametrize("inputs", EVERY)
@pytest.mark.parametrize("loss", ["regression", "classification"])
def test_cross_fitted_scores_correlate_with_labels(tiny_encoder, taught, inputs, loss):
    options = {"encoder": tiny_encoder, "inputs": inputs, "loss": loss, "pooling": "mean"}
    found = cross_fit(taught, folds=3, progress=False, learning_rate=1e-2, patience=30, **options)
    scores = found.score(taught["text"], taught["source"].tolist(), taught["reference"].tolist())
    assert spearmanr(scores, taught["label"]).statistic > 0.4
    if loss == "classification":
        assert ((scores > 0) & (scores < 1)).all()


@pytest.mark.slow
def test_training_is_seeded_and_leaves_global_random_state(tiny_encoder, taught):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    runs = [train(taught, encoder=tiny_encoder, trainable=1, seed=seed, **QUICK) for seed in (3, 3, 4)]
    assert torch.equal(torch.random.get_rng_state(), before)
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])
    assert runs[0].id == runs[1].id != runs[2].id


@pytest.mark.parametrize("trainable", [0, 1, 2, "all"])
def test_only_trainable_layers_change(tiny_encoder, taught, trainable):
    made = train(taught, encoder=tiny_encoder, trainable=trainable, layer=2, encoder_rate=1e-3, **QUICK)
    start = TextEncoder(find_model(tiny_encoder), 2).model.state_dict()
    moved = {n for n, p in made.encoder.model.state_dict().items() if not torch.equal(p, start[n])}
    expected = {0: set(), 1: {"encoder.layer.1"}, 2: {"encoder.layer.0", "encoder.layer.1"}}
    if trainable == "all":
        assert any(name.startswith("embeddings") for name in moved)
    else:
        assert {name[:15] for name in moved} == expected[trainable]
    assert {n.partition(".")[2] for n in made.weights() if n.startswith("encoder.")} >= moved


def test_the_last_layer_where_all_learn_else_three_quarters_up(tiny_encoder, taught):
    layers = {t: train(taught, encoder=tiny_encoder, trainable=t, **QUICK).encoder.layer for t in (0, 1, "all")}
    assert layers == {0: 2, 1: 2, "all": 3}


@pytest.mark.slow
def test_parts_of_a_batch_add_up(tiny_encoder, taught, monkeypatch):
    monkeypatch.setattr(TextEncoder, "learn", lambda self, on: setattr(self, "states", States()))
    options = {"encoder": tiny_encoder, "trainable": 1, "dropout": 0.0, "batch_size": 16, **QUICK}
    whole, parts = (train(taught, accumulate=n, layer=None, **options) for n in (1, 4))
    start = train(taught, accumulate=1, **{**options, "epochs": 1}).weights()
    for name, tensor in whole.weights().items():
        assert torch.allclose(tensor, parts.weights()[name], atol=5e-4)
    assert any(not torch.allclose(tensor, start[name], atol=5e-4) for name, tensor in whole.weights().items())


def test_each_text_is_encoded_once(tiny_encoder, taught, monkeypatch):
    seen = []
    computed = TextEncoder._computed

    def counting(self, texts):
        seen.append(list(texts))
        return computed(self, texts)

    monkeypatch.setattr(TextEncoder, "_computed", counting)
    train(taught.assign(text=taught["text"] + " red"), encoder=tiny_encoder, **QUICK)
    flat = [text for texts in seen for text in texts]
    assert len(flat) == len(set(flat))
    seen.clear()
    train(taught, encoder=tiny_encoder, trainable=1, batch_size=60, **{**QUICK, "epochs": 2})
    fit, held = _split(taught, Settings())
    texts = [taught["text"][rows].nunique() for rows in (fit, held)]
    assert sorted(map(len, seen)) == sorted([texts[0] + 10, texts[1] + 2] * 2)  # an article once, not once a summary


def test_vectors_are_kept_for_other_runs(tiny_encoder, taught, tmp_path, monkeypatch):
    options = {"encoder": tiny_encoder, "inputs": "output", "epochs": 2, "states": tmp_path, "progress": False}
    plain = cross_fit(taught, "merit", 2, **{**options, "states": None})
    _shared.cache_clear()  # as in another process
    first = cross_fit(taught, "merit", 2, **options)
    [folder] = tmp_path.iterdir()
    assert not list(folder.glob(".*.partial"))
    (folder / ".half.safetensors.1.partial").write_bytes(b"killed here")
    (folder / "damaged.safetensors").write_bytes(b"not what was written")
    _shared.cache_clear()
    computed = []
    encode = TextEncoder._computed
    monkeypatch.setattr(TextEncoder, "_computed", lambda self, texts: computed.extend(texts) or encode(self, texts))
    again = cross_fit(taught, "merit", 2, **options)
    texts = taught["text"].tolist()
    assert again.score(texts).tolist() == first.score(texts).tolist() == plain.score(texts).tolist()
    assert computed == []
    again.score(["Nobody has seen this."])
    assert computed == ["Nobody has seen this."]
    _shared.cache_clear()
    cross_fit(taught, "merit", 2, **{**options, "layer": 1})
    assert len(list(tmp_path.iterdir())) == 2  # another layer has vectors of its own


def test_contexts_stand_on_one_side(taught):
    fit, held = _split(taught, Settings(seed=2))
    assert len(fit) + len(held) == len(taught)
    assert not {*taught["context_id"][fit]} & {*taught["context_id"][held]}
    one = taught.assign(source="the same")
    with pytest.raises(InputError, match="at least two contexts"):
        _split(one, Settings())
    assert len(_split(one, Settings(validation=0))[0]) == len(taught)


@pytest.mark.slow
def test_training_stops_early_and_keeps_the_best_epoch(tiny_encoder, taught):
    noise = taught.assign(label=np.random.default_rng(0).random(len(taught)))
    made = train(noise, encoder=tiny_encoder, learning_rate=0.05, patience=4, progress=False)
    history = made.training["history"]
    losses = [row[2] for row in history]
    assert len(history) < 100
    assert made.training["best_epoch"] == 1 + int(np.argmin(losses))
    assert len(history) == made.training["best_epoch"] + 4
    again = train(noise, encoder=tiny_encoder, learning_rate=0.05, patience=4, epochs=len(history), progress=False)
    assert same(made, again)


def test_long_texts_are_cut_and_counted_once(tiny_encoder, taught):
    long = taught.assign(source=taught["source"] + " old new" * 20)
    with pytest.warns(UserWarning, match=r"12 of \d+ texts are truncated to the 16-token window of tiny") as caught:
        train(long, encoder=tiny_encoder, **QUICK)
    assert len(caught) == 1


def test_special_tokens_in_a_text_are_characters(tiny_encoder):
    encoder = TextEncoder(find_model(tiny_encoder))
    [(ids, _)] = encoder._reading.tokens(["[SEP] good [PAD]"])
    assert (ids.count(2), ids.count(3), ids.count(0)) == (1, 1, 0)


KILLED = """
import json, os, signal, sys
import pandas as pd
from biaslab.distill import train, checkpoints, training as learning
from biaslab.distill import evaluator as embedding
folder, cases, options = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
embedding.find_encoder(options["encoder"], None, "cpu", True)  # imported once, not by each child
taught = pd.read_json(f"{folder}/taught.json", dtype=False)
for name, (when, settings) in cases.items():
    child = os.fork()
    if child == 0:
        kill = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
        if when == "after writing":
            save = checkpoints.save_checkpoint
            checkpoints.save_checkpoint = lambda f, step, *a: (save(f, step, *a), kill() if step == 2 else None)
        elif when == "while writing":
            done = checkpoints.save_file
            checkpoints.save_file = lambda t, path, *a: (done(t, path, *a), "step-00000003" in str(path) and kill())
        else:
            learn, epochs = learning.Learning._learn, []
            def third(self, order):
                epochs.append(1)
                return learn(self, order) if len(epochs) < 3 else (learn(self, order[:20]), kill())
            learning.Learning._learn = third
        train(taught, folder=f"{folder}/{name}", progress=False, **{**options, **settings})
        os._exit(0)
    print(name, os.WTERMSIG(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "cases",
    [
        {"frozen": ("while writing", {})},
        {
            "top": ("after writing", {"trainable": 1}),
            "all": ("within an epoch", {"trainable": "all"}),
            "classes": ("after writing", {"loss": "classification", "inputs": "reference-based"}),
        },
    ],
    ids="+".join,
)
def test_a_killed_run_ends_with_the_same_weights(tiny_encoder, taught, tmp_path, as_many_threads, cases):
    options = {"encoder": tiny_encoder, "epochs": 5, "patience": 5, "hidden": [8]}
    taught.to_json(tmp_path / "taught.json", double_precision=15)
    command = [sys.executable, "-c", KILLED, str(tmp_path), json.dumps(cases), json.dumps(options)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=as_many_threads)
    assert shown.stdout.splitlines() == [f"{name} {int(signal.SIGKILL)}" for name in cases], shown.stderr[-2000:]
    for name, (_, settings) in cases.items():
        left = sorted(path.name for path in (tmp_path / name).glob("step-*"))
        assert left == ["step-00000002.safetensors"]
        resumed = train(taught, folder=tmp_path / name, progress=False, **{**options, **settings})
        straight = train(taught, progress=False, **{**options, **settings})
        assert len(resumed.training["history"]) == 5
        assert same(resumed, straight), name
        assert resumed.training == straight.training
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == ["evaluator.json", "evaluator.safetensors"]


def test_a_folder_belongs_to_one_run(tiny_encoder, taught, tmp_path, monkeypatch):
    options = {"encoder": tiny_encoder, "folder": tmp_path / "e", **QUICK}
    made = train(taught, **options)
    monkeypatch.setattr("biaslab.distill.training.Learning", None)  # nothing is learnt again
    assert same(train(taught, **options), made)
    for other in ({"seed": 1}, {"inputs": "output"}):
        with pytest.raises(InputError, match="another run"):
            train(taught, **{**options, **other})
    with pytest.raises(InputError, match="another run"):
        train(taught.assign(label=0.5), **options)


@pytest.mark.parametrize(
    "bad",
    [
        {"inputs": "source"}, {"loss": "hinge"}, {"pooling": "max"}, {"trainable": -1}, {"trainable": "some"},
        {"trainable": 0.5}, {"layer": 0}, {"hidden": (0,)}, {"hidden": 8}, {"dropout": 1.0}, {"stars": 1},
        {"learning_rate": 0}, {"encoder_rate": float("nan")}, {"weight_decay": -1}, {"batch_size": 0},
        {"accumulate": True}, {"epochs": 0}, {"patience": 1.5}, {"validation": 1}, {"seed": -1}, {"encoder": ""},
        {"score": "mode"},
    ],
)  # fmt: skip
def test_settings_that_are_not_allowed(bad, taught):
    [name] = bad
    with pytest.raises(InputError, match=name):
        train(taught, progress=False, **bad)


def test_settings_as_json():
    given = Settings(hidden=(8, 4), trainable="all", layer=2)
    assert Settings.from_json(json.loads(json.dumps(given.as_json()))) == given
    with pytest.raises(InputError, match="settings"):
        Settings.from_json({**given.as_json(), "code": "x"})
    assert {f.name for f in dataclasses.fields(Settings)} == set(given.as_json())
    later = Settings(score="likeliest")
    assert Settings.from_json(json.loads(json.dumps(later.as_json()))) == later


@pytest.mark.slow
def test_the_likeliest_star_is_the_score_where_it_is_wanted(tiny_encoder, taught):
    options = {"encoder": tiny_encoder, "loss": "classification", **QUICK}
    folds = cross_fit(taught, folds=3, **options)
    discrete = folds.taking("likeliest")
    for one, two in zip(folds.folds, discrete.folds, strict=True):
        assert same(one, two)
    shown = (taught["text"].tolist(), taught["source"].tolist())
    found = discrete.score(*shown)
    assert set(found) <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert not np.array_equal(found, folds.score(*shown))
    one = folds.folds[0]
    outputs = torch.tensor([[0.0, 3.0, 2.9, 2.9, 0.0]])
    assert float(one.taking("likeliest").worth(outputs)) == 0.25
    assert float(one.worth(outputs)) == pytest.approx(float(outputs.softmax(1) @ torch.linspace(0, 1, 5)))
    assert one.digest != one.taking("likeliest").digest
    assert one.digest == one.taking("likeliest").taking("expected").digest
    learned = train(taught, score="likeliest", **options)
    assert same(learned, train(taught, **options))  # it changes nothing that is learned
    free = train(taught, **options | {"loss": "regression"})
    assert free.digest == free.taking("likeliest").digest


def test_examples_that_cannot_be_learnt(tiny_encoder, taught):
    options = {"encoder": tiny_encoder, **QUICK}
    with pytest.raises(InputError, match="one of merit"):
        train(taught, "beauty", **options)
    with pytest.raises(InputError, match="one of merit, wit"):
        train(taught.assign(attribute=["merit", "wit"] * 30), **options)
    with pytest.raises(TrialsError, match="labels from 0 to 1"):
        train(taught.assign(label=3.0), **options)
    with pytest.raises(InputError, match="some examples have no reference"):
        train(taught.assign(reference=" "), inputs="reference-based", **options)
    with pytest.raises(TrialsError, match="label"):
        train(taught.drop(columns="label"), **options)
    with pytest.raises(InputError, match="0 to 3"):
        train(taught, layer=4, **options)
    with pytest.raises(InputError, match="0 to 2 layers"):
        train(taught, trainable=3, **options)
    for folds in (1, 13, 2.0):
        with pytest.raises(InputError, match="folds"):
            cross_fit(taught, folds=folds, **options)


@pytest.mark.slow
def test_evaluators_beside_a_store_are_read_by_the_same_run_only(tiny_encoder, taught, tmp_path):
    options = {"encoder": tiny_encoder, "inputs": "output", "store": tmp_path / "replies.sqlite", **QUICK}
    first, folds = train(taught, "merit", **options), cross_fit(taught, "merit", 2, **options)
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("evaluator.safetensors")}
    assert len(kept) == 3
    assert {file.relative_to(tmp_path).parts[0] for file in kept} == {"replies.tables"}
    assert same(train(taught, "merit", **options), first)
    texts = taught["text"].tolist()
    assert cross_fit(taught, "merit", 2, **options).score(texts) == pytest.approx(folds.score(texts))
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("evaluator.safetensors")} == kept
    train(taught, "merit", seed=1, **options)
    train(taught.head(40), "merit", **options)
    assert len(list(tmp_path.rglob("evaluator.safetensors"))) == 5
