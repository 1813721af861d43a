"""A real vLLM server with a tiny random model, and what transformers makes of the same weights.

``BIASLAB_VLLM`` names ``bin/python`` of an environment of its own that has vLLM, which pins what it needs.
"""

import contextlib
import math
import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from biaslab.core import Choice
from biaslab.judges.loading import find_model, load_model

MODEL = "tiny"
SCALE = tuple(map(str, range(1, 11)))
#: Labels of one token, of several, one the beginning of another; a conversation, and an answer that has begun.
REQUESTS = (
    Choice("Which fruit is red, A: apple or B: banana?", ("A", "B")),
    Choice("Which summary is better, Summary A or Summary B?", ("Summary A", "Summary B")),
    Choice("How good is this text, from 1 to 10? The council closed the old bridge in May.", SCALE),
    Choice([("system", "Be short."), ("user", "Is 7 even?"), ("assistant", "no"), ("user", "Is 8?")], ("yes", "no")),
    Choice([("user", "Score this text: a ferry crosses the river."), ("assistant", "Score:")], SCALE[:3]),
)


def tiny_model(folder):
    """Save a small random Llama with the embedded judge's tokenizer; return both."""
    import torch
    import transformers

    tokenizer = load_model(find_model("smollm2-135m"), "float32", "cpu")[1]
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.15, generator=generator)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


@contextlib.contextmanager
def serving(python, folder, log, *options):
    """Start a server and yield its address; the log is where it says what went wrong."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--model", str(folder), "--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port)]
    words += ["--dtype", "float32", "--max-model-len", "1024", "--max-num-seqs", "32", "--enforce-eager", *options]
    path = f"{Path(python).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    own = {"PATH": path, "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    given = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "OMP_NUM_THREADS")}
    with Path(log).open("w") as stream:
        command = [str(python), "-m", "vllm.entrypoints.openai.api_server", *words]  # vllm-cpu has no program
        server = subprocess.Popen(command, stdout=stream, stderr=stream, env=given | own, start_new_session=True)
        try:
            for _ in range(1200):
                assert server.poll() is None, Path(log).read_text()[-3000:]
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                    break
                except OSError:
                    time.sleep(0.5)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait(30)


def expected(model, tokenizer, request):
    """Log-probabilities of labels by transformers, path by path: P(it is written) less P(another goes on from it)."""
    import torch

    last = request.messages[-1]
    turns = [message._asdict() for message in request.messages]
    begun = {"continue_final_message": True} if last.role == "assistant" else {"add_generation_prompt": True}
    prompt = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=True, **begun)["input_ids"]
    ways = {
        label: [tuple(tokenizer(text, add_special_tokens=False).input_ids) for text in (label, f" {label}")]
        for label in request.labels
    }
    paths = {path for each in ways.values() for path in each}

    def chance(path):
        with torch.no_grad():
            levels = model(torch.tensor([[*prompt, *path]])).logits[0].double().log_softmax(-1)
        return math.exp(sum(levels[len(prompt) - 1 + at, token].item() for at, token in enumerate(path)))

    def ends(path):
        onward = {other[: len(path) + 1] for other in paths if len(other) > len(path) and other[: len(path)] == path}
        return chance(path) - sum(map(chance, onward))

    return [math.log(sum(map(ends, ways[label]))) for label in request.labels]
