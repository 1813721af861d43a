"""Tiny generation models: a vocabulary of words, random weights from a configuration.

What is heavy is imported where it is used: not all tests here need a model.
"""

import os
from typing import Any

import numpy as np
import pandas as pd
import pytest

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "LlamaConfig": {},
    "GPT2Config": {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64},
    "MistralConfig": {"sliding_window": 5},
    "BartConfig": {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "decoder_start_token_id": 0,
        "forced_eos_token_id": None,
    },
    "T5Config": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
}
FAMILY = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "eos_token_id": 0,
    "pad_token_id": 0,
    "bos_token_id": 1,
}


def make(name="LlamaConfig", words="abcdef", seed=0, spread=0.5, **options):
    """Build a policy whose vocabulary is an end, a beginning and words; ``<eos>`` is special."""
    import tokenizers
    import torch
    import transformers
    from tokenizers import models, pre_tokenizers

    from biaslab.distill.policy import Policy

    vocabulary = {word: i for i, word in enumerate(["<eos>", *words])}
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=words[0]))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>", pad_token="<eos>")
    kind = getattr(transformers, name)
    config = kind(**{"vocab_size": len(vocabulary), **FAMILY, **ARCHITECTURES[name], **options})
    config.bos_token_id = None
    causal = not config.is_encoder_decoder
    auto = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForSeq2SeqLM
    torch.manual_seed(seed)
    model = auto.from_config(config)
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.data.normal_(0, spread, generator=generator)
    return Policy(model, tokenizer, f"tiny {name} {seed}")


@pytest.fixture(scope="session")
def make_policy():
    return make


#: One of a decoder and one of an encoder and decoder; the others are slow.
QUICK = {"LlamaConfig", "T5Config"}


@pytest.fixture(
    params=[pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in sorted(ARCHITECTURES)]
)
def policy(request):
    return make(request.param)


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "big", "small", "old", "new", "red", "blue"]


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory):
    """A folder with a BERT of three small layers over a few words, random weights."""
    import tokenizers
    import torch
    import transformers
    from tokenizers import models, pre_tokenizers, processors

    vocabulary = tokenizers.Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    vocabulary.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    vocabulary.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=vocabulary, **marks)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 3}
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=18, initializer_range=0.5, **sizes)
    folder = tmp_path_factory.mktemp("encoder") / "tiny"
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def taught():
    """Examples whose label is the share of good words in the text: 12 contexts of 5 candidates."""
    rng, rows = np.random.default_rng(0), []
    for context in range(12):
        source, reference = (" ".join(rng.choice(WORDS[4:], 8)) for _ in range(2))
        for candidate in range(5):
            words = np.where(rng.random(8) < rng.random(), "good", rng.choice(WORDS[5:], 8))
            label = float((words == "good").mean())
            shown = {"text": " ".join(words), "source": source, "reference": reference}
            about = {"context_id": f"c{context}", "candidate_id": f"s{candidate}", "attribute": "merit"}
            rows.append({**about, **shown, "label": label, "human": 5 * label})
    return pd.DataFrame(rows)


@pytest.fixture
def as_many_threads():
    """The environment of a child process that sums with as many threads as this one, and so to the same last bit."""
    import torch

    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return os.environ | dict.fromkeys(names, str(torch.get_num_threads()))
