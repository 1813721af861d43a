"""The judge that the README's second figure names, as a hub delivers it: the same files, but small random weights."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from biaslab.core import Choice, Completion, Message
from biaslab.judges.local import LocalJudge

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
    assert (figures / "position__first_position_logit.png").stat().st_size > 0
    first, left_out, again = (re.findall(r"([\d,]+) judge calls?.*?([\d,]+) repl", text)[-1] for text in said)
    assert left_out == ("0", "0")
    assert first == again[::-1] != ("0", "0")
    assert "0" in first
