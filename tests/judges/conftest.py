"""Real components, but tiny: tokenizers trained here, random models built from configurations.

What is heavy is imported where it is used: most tests here need no model.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from biaslab.core.errors import JudgeError
from biaslab.judges import ray_cluster, ray_judge

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEXTS = [
    "Which summary is better, Summary A or Summary B? Answer with Summary A or Summary B.",
    "The council voted on 12 May 2024 to close the old bridge; 10 people said it should stay open.",
    "user system assistant score 1 2 3 4 5 6 7 8 9 10 100 A+ B- <|im_end|> |im_start| end",
] * 3
FAMILY = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _byte_level(**options: Any) -> Any:
    import tokenizers
    import transformers
    from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS, trainer)
    plain = [("<think>", False), ("</think>", False), ("<|im_", False), ("    ", True), ("  ", True), ("\n\n\n", True)]
    backend.add_tokens([AddedToken(text, normalized=normalized, special=False) for text, normalized in plain])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, **{"eos_token": "<|im_end|>", "chat_template": CHATML, **options}
    )


def _metaspace(**options: Any) -> Any:
    import tokenizers
    import transformers
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers

    trained = tokenizers.Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
    trained.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    vocabulary = dict(model["vocab"])
    for byte in range(256):
        vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
    merges = [tuple(m) for m in model["merges"]]
    backend = tokenizers.Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.add_special_tokens(special)
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", backend.token_to_id("<s>"))]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        **{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "chat_template": CHATML, **options},
    )


def _randomise(model: Any, seed: int, spread: float = 0.3) -> Any:
    import torch

    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(0, spread, generator=generator)
    return model.eval()


@pytest.fixture(scope="session")
def byte_level() -> Any:
    return _byte_level()


@pytest.fixture(scope="session")
def metaspace() -> Any:
    return _metaspace()


@pytest.fixture(scope="session")
def make_tokenizer() -> Callable[..., Any]:
    return lambda kind="byte_level", **options: {"byte_level": _byte_level, "metaspace": _metaspace}[kind](**options)


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Any]:
    """Build a tiny random model: the name of a configuration class, then what differs from the common sizes."""
    import torch
    import transformers

    def make(config: str = "LlamaConfig", seed: int = 0, seq2seq: bool = False, **options: Any) -> Any:
        auto = transformers.AutoModelForSeq2SeqLM if seq2seq else transformers.AutoModelForCausalLM
        torch.manual_seed(seed)
        return _randomise(auto.from_config(getattr(transformers, config)(**{**FAMILY, **options})), seed)

    return make


@pytest.fixture(scope="session")
def make_judge(make_model: Any, byte_level: Any) -> Callable[..., Any]:
    """Wrap a tiny model whose vocabulary is the tokenizer's."""
    from biaslab.judges.local import LocalJudge

    def make(tokenizer: Any = None, max_batch_tokens: int = 4096, **options: Any) -> Any:
        tokenizer = tokenizer or byte_level
        ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.eos_token_id}
        model = make_model(**{"vocab_size": len(tokenizer), **ends, **options})
        return LocalJudge.from_loaded(model, tokenizer, "tiny", max_batch_tokens=max_batch_tokens)

    return make


@pytest.fixture(scope="session")
def embedded() -> Any:
    from biaslab.judges.local import LocalJudge

    return LocalJudge()


@pytest.fixture(scope="session")
def local_cluster():
    """One Ray cluster on this machine for all tests that need one; who uses it first starts it, the last stops it."""
    pytest.importorskip("ray", reason="replicas need Ray: pip install '.[ray]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        patch.setattr(ray_judge, "_SECONDS", 1800.0)  # on a machine that does much else, a replica starts in minutes
        try:
            ray_cluster.join(joined)
        except JudgeError as error:
            pytest.skip(str(error))
        assert ray_cluster.is_ours()
        yield
        ray_cluster.leave(joined)


def joined():
    """Stand for the tests that use the cluster."""


@pytest.fixture
def judge_of(request):
    """Make API judges of the module's patience ``QUICK`` that are closed in the end."""
    from biaslab.judges.api import ApiJudge

    made = []

    def make(server, **options):
        made.append(ApiJudge("judge", server.url, **{"patience": request.module.QUICK, "timeout": 5.0, **options}))
        return made[-1]

    yield make
    for judge in made:
        judge.close()
