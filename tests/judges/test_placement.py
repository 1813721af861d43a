"""A model that is spread over several places answers as one in one place does, whatever lies where."""

import gc
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from biaslab.core import Choice, Completion, Likelihood
from biaslab.core.errors import InputError, MissingDependencyError, ModelLoadError
from biaslab.judges.batches import BatchScorer
from biaslab.judges.loading import (
    choose_main_device,
    computing_devices,
    input_device,
    is_spread,
)
from biaslab.judges.local import LocalJudge
from biaslab.judges.prefix_tree import TreeScorer

TEXT = "The council voted on 12 May 2024 to close the old bridge; 10 people said it should stay open. "
ASKED = [
    *(
        Choice(f"{TEXT * 3}Which summary is better?{end}", ("Summary A", "Summary B", "10"))
        for end in ("", " A", " B!")
    ),
    Likelihood(TEXT, given="user"),
    *(Completion(TEXT + end, max_tokens=8) for end in ("", "Answer:")),
    *(Completion(TEXT, temperature=1.0, max_tokens=8, replicate=i) for i in range(2)),
]
SHARED = {"model.embed_tokens": "cpu", "model.rotary_emb": "cpu", "lm_head": "cpu"}
ASIDE = {"model": "disk", "lm_head": "cpu"}
MAPS = {
    "automatic": "auto",
    "one device": {"": "cpu"},
    "all but the head aside": ASIDE,
    "last layer and norm aside": {**SHARED, "model.layers.0": "cpu", "model.layers.1": "disk", "model.norm": "disk"},
    "ends aside": {
        **dict.fromkeys(SHARED, "disk"),
        "model.rotary_emb": "cpu",
        "model.layers": "cpu",
        "model.norm": "cpu",
    },
}
MIXED = {"sliding_window": 40, "layer_types": ["sliding_attention", "full_attention"], "head_dim": 8}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}
T5_PARTS = {"shared": "cpu", "encoder.embed_tokens": "cpu", "decoder.embed_tokens": "cpu", "lm_head": "cpu"}
T5_PARTS |= {f"{half}.{part}": "disk" for half in ("encoder", "decoder") for part in ("block", "final_layer_norm")}
FAMILIES = {
    "qwen2": ("Qwen2Config", {}, ASIDE),
    "gemma2": ("Gemma2Config", {**MIXED, "tie_word_embeddings": False}, ASIDE),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4}, ASIDE),
    "gpt2": ("GPT2Config", {**GPT, "tie_word_embeddings": False}, {"transformer": "disk", "lm_head": "cpu"}),
    "mamba": ("MambaConfig", {"tie_word_embeddings": False}, {"backbone": "disk", "lm_head": "cpu"}),
    "t5": ("T5Config", {"seq2seq": True, **T5}, T5_PARTS),
}


@pytest.fixture
def save(tmp_path, make_model, byte_level):
    """Save a tiny model and return its folder."""

    def saved(config="LlamaConfig", **options):
        ends = {"eos_token_id": byte_level.eos_token_id, "pad_token_id": byte_level.eos_token_id}
        folder = tmp_path / config
        make_model(config, vocab_size=len(byte_level), **ends, **options).save_pretrained(folder)
        byte_level.save_pretrained(folder)
        return str(folder)

    return saved


def same(found, wanted):
    assert found.keys() == wanted.keys()
    for request, reply in found.items():
        assert reply.text == wanted[request].text
        assert (reply.logprobs or ()) == pytest.approx(wanted[request].logprobs or (), abs=1e-4)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if at > 1 else []) for at, name in enumerate(MAPS)]
)
def test_a_spread_model_answers_as_one_in_one_place(save, name):
    folder = save(tie_word_embeddings=False)
    whole, spread = LocalJudge(folder, device="cpu"), LocalJudge(folder, device_map=MAPS[name], dtype="float32")
    same(dict(spread.ask(ASKED)), dict(whole.ask(ASKED)))
    assert spread.id == whole.id
    assert isinstance(spread._scorer, TreeScorer)
    aside = {name for name, weight in spread._loaded[0].named_parameters() if weight.device.type == "meta"}
    assert bool(aside) == is_spread(spread._loaded[0]) == ("aside" in name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("qwen2", "t5") else pytest.mark.slow) for name in FAMILIES]
)
def test_every_family_can_be_put_aside(save, name):
    config, options, parts = FAMILIES[name]
    folder = save(config, **options)
    whole, spread = LocalJudge(folder, device="cpu"), LocalJudge(folder, device_map=parts)
    same(dict(spread.ask(ASKED)), dict(whole.ask(ASKED)))
    assert type(spread._scorer) is type(whole._scorer)
    assert is_spread(spread._loaded[0])


@pytest.mark.slow
def test_tied_embeddings_apart_from_the_rest(save):
    folder = save(tie_word_embeddings=True)
    spread = LocalJudge(
        folder, device_map={**MAPS["last layer and norm aside"], "model.embed_tokens": "disk", "lm_head": "disk"}
    )
    same(dict(spread.ask(ASKED)), dict(LocalJudge(folder, device="cpu").ask(ASKED)))


def test_padded_batches_of_a_spread_model(save):
    folder = save()
    whole, spread = (LocalJudge(folder, **where)._loaded[0] for where in ({"device": "cpu"}, {"device_map": ASIDE}))
    sequences = LocalJudge(folder, device="cpu")._encode(ASKED[0])
    wanted = dict(BatchScorer(whole).score(sequences))
    found = dict(BatchScorer(spread).score(sequences))
    assert all(found[i] == pytest.approx(wanted[i], abs=1e-4) for i in wanted)


@pytest.mark.slow
def test_a_loaded_model_that_is_spread(save):
    judge = LocalJudge(save(), device_map=ASIDE)
    model, tokenizer = judge._loaded
    again = LocalJudge.from_loaded(model, tokenizer, "tiny")
    assert (again.device, again.dtype) == ("cpu", "float32")
    same(dict(again.ask(ASKED)), dict(judge.ask(ASKED)))
    assert computing_devices(model) == [input_device(model)] == [torch.device("cpu")]


@pytest.mark.slow
def test_weights_put_aside_go_with_the_model(save, tmp_path, monkeypatch):
    """Weights that are no safetensors are written again, into a folder that is there as long as the model."""
    folder, aside = Path(save()), tmp_path / "aside"
    model, _ = LocalJudge(str(folder), device="cpu")._loaded
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    aside.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(aside))
    judge = LocalJudge(str(folder), device_map=ASIDE)
    wanted = LocalJudge.from_loaded(model, judge._loaded[1], "tiny")
    same(dict(judge.ask(ASKED)), dict(wanted.ask(ASKED)))
    assert [*aside.rglob("*.safetensors")]
    del judge
    gc.collect()
    assert not [*aside.iterdir()]


def test_failed_load_leaves_no_files(save, tmp_path, monkeypatch):
    folder, aside = save(), tmp_path / "aside"
    aside.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(aside))
    judge = LocalJudge(folder, device_map={"model.layers.0": "disk"})
    with pytest.raises(ModelLoadError, match="could not be loaded"):
        list(judge.ask(ASKED))
    assert not [*aside.iterdir()]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device_map": "auto", "device": "cpu"}, "allowed: not used with device, which is 'cpu'"),
        ({"device_map": "atuo"}, "did you mean auto"),
        ({"device_map": "cuda:1"}, "for one device, use device='cuda:1'"),
        ({"device_map": {}}, "device_map is {}, allowed: one of auto, balanced"),
        ({"device_map": {0: "cpu"}}, "parts by name"),
        ({"device_map": 1}, "parts by name"),
        ({"device_map": {"lm_head": "cuda:99"}}, r"\['lm_head'\] is 'cuda:99', allowed: a device available to torch"),
        ({"device_map": {"lm_head": 99}}, r"device_map\['lm_head'\] is 99"),
        ({"device_map": {"lm_head": "meta"}}, "or write 'disk'"),
        ({"device_map": {"lm_head": None}}, "device_map"),
    ],
)  # fmt: skip
def test_invalid_device_map_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        LocalJudge(**given)


def test_missing_accelerate_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(MissingDependencyError, match=r"needs accelerate: pip install '\.\[local\]'"):
        LocalJudge(device_map="auto")


def test_a_device_map_names_its_main_device():
    assert choose_main_device({"a": "disk", "b": "cpu"}) == "cpu"
    assert choose_main_device("balanced") in ("cpu", "cuda", "mps")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("family", ["LlamaConfig", "gemma2", "mixtral", "t5"])
@pytest.mark.parametrize("first", [0, 1])
def test_two_gpus_give_what_the_cpu_gives(save, family, first):
    """The first layers on one GPU, the last on the other, either way round."""
    config, options, _ = FAMILIES.get(family, (family, {}, {}))
    folder = save(config, **{**options, "tie_word_embeddings": False})
    parts: dict[str, str | int]
    if family == "t5":
        parts = {"shared": first, "encoder": first, "decoder": 1 - first, "lm_head": 1 - first}
    else:
        parts = {"model.embed_tokens": first, "model.rotary_emb": first, "model.layers.0": first}
        parts |= dict.fromkeys(("model.layers.1", "model.norm", "lm_head"), 1 - first)
    spread = LocalJudge(folder, device_map=parts, dtype="float32")
    whole = LocalJudge(folder, device="cpu")
    found, wanted = dict(spread.ask(ASKED)), dict(whole.ask(ASKED))
    for request, reply in found.items():
        assert (reply.logprobs or ()) == pytest.approx(wanted[request].logprobs or (), abs=1e-3)
    assert len(computing_devices(spread._loaded[0])) == 2
    assert type(spread._scorer) is type(whole._scorer)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_model_on_the_second_gpu(save):
    folder = save()
    found = dict(LocalJudge(folder, device="cuda:1", dtype="float32").ask(ASKED))
    wanted = dict(LocalJudge(folder, device="cpu").ask(ASKED))
    for request, reply in found.items():
        assert (reply.logprobs or ()) == pytest.approx(wanted[request].logprobs or (), abs=1e-3)
