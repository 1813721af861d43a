"""Log-perplexities of the judged texts: those of the familiarity probe, kept, resumed, of no more than 512 tokens."""

import gzip
import json
import math

import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.atlas import judgements
from biaslab.core import Likelihood, Reply
from biaslab.datasets import Dataset
from biaslab.datasets._files import text_key
from tools.atlas import perplexity, raw_texts

TEXTS = ["It rained.", "The bridge was closed for ten days.", "x", "A word " * 200, "It rained all day long."]
SOURCE = ["topical_chat_means"]


@pytest.fixture(scope="module")
def reader():
    """A tiny random model that reads bytes."""
    import tokenizers
    import torch
    import transformers
    from tokenizers import decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(models.BPE({letter: at for at, letter in enumerate(alphabet)}, []))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    backend.add_special_tokens(["<|end|>"])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>")
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 2048}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 4, "eos_token_id": 256, "pad_token_id": 256}
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**sizes, **layers)).eval()
    return bl.LocalJudge.from_loaded(model, tokenizer, "tiny", max_batch_tokens=2048)


@pytest.fixture
def folder(tmp_path):
    records = [
        {
            "source": f"Dialogue {at}.",
            "context": "",
            "system_id": "us",
            "system_output": text,
            "scores": {"overall": 3.0},
        }
        for at, text in enumerate([*TEXTS, TEXTS[0]])
    ]
    file = tmp_path / raw_texts.TOPICAL_CHAT
    file.parent.mkdir()
    file.write_bytes(gzip.compress(json.dumps(records).encode()))
    return tmp_path


class Watched:
    """A judge that notes what it is asked."""

    def __init__(self, judge):
        self.judge, self.asked = judge, []

    def __getattr__(self, name):
        return getattr(self.judge, name)

    def ask(self, requests):
        self.asked += list(requests)
        return self.judge.ask(requests)


def test_perplexities_are_those_of_the_probe(folder, reader):
    file = folder / "kept.parquet"
    assert list(perplexity.complete(folder, reader, file, SOURCE)) == [(5, 5)]
    kept = perplexity.read_kept(file)
    short = [text for text in TEXTS if 1 < len(text) < 512]
    rows = [(str(at), "", "us", "us", text, "") for at, text in enumerate(short)]
    columns = ["context_id", "context", "candidate_id", "system", "text", "reference"]
    human = pd.DataFrame(columns=["context_id", "candidate_id", "attribute", "annotator", "score"])
    data = Dataset("mine", pd.DataFrame(rows, columns=columns), human, {"overall": "good"}, (1, 5), "text")
    trials = bl.collect(bl.probes.Familiarity(asks="likelihoods", sources=False), reader, data, progress=False)
    theirs = trials.set_index("context_id")["value"]
    for at, text in enumerate(short):
        assert kept[text_key(text)] == pytest.approx(theirs[str(at)], abs=1e-4)
    assert math.isnan(kept[text_key("x")])


def test_a_long_text_is_cut(folder, reader):
    watched = Watched(reader)
    list(perplexity.complete(folder, watched, folder / "kept.parquet", SOURCE))
    lengths = [len(reader.encode(request)[0]) for request in watched.asked]
    assert max(lengths) == perplexity.LONGEST
    cut = next(request.text for request in watched.asked if len(request.text) > 100)
    assert TEXTS[3].startswith(cut)


def test_a_second_run_goes_on(folder, reader):
    file, watched = folder / "kept.parquet", Watched(reader)
    list(perplexity.complete(folder, watched, file, SOURCE))
    assert len(watched.asked) == 5
    whole = pd.read_parquet(file)
    whole[whole["text"] != text_key(TEXTS[1])].to_parquet(file, index=False)
    assert list(perplexity.complete(folder, watched, file, SOURCE)) == [(5, 5)]
    assert [request.text for request in watched.asked[5:]] == [TEXTS[1]]
    pd.testing.assert_frame_equal(pd.read_parquet(file), whole)
    assert list(perplexity.complete(folder, watched, file, SOURCE)) == []


def test_missing_table_reads_as_empty(tmp_path):
    assert perplexity.read_kept(tmp_path / "none.parquet").empty


@pytest.mark.slow
@given(st.text(max_size=80), st.integers(1, 40))
def test_cut_text_is_a_prefix_of_allowed_length(text, longest):
    def count(part):
        return len(part.encode("utf-8", "surrogatepass"))

    short = perplexity.cut(text, count, max(longest, 4))
    assert text.startswith(short)
    assert count(short) <= max(longest, 4)
    if count(text) <= longest:
        assert short == text


def test_carried_rows_have_the_stored_perplexities():
    """Each text has one number; answers of two tokens may be very unlikely, articles are not."""
    kept = set(perplexity.read_kept().dropna().round(4))
    for name in ("summeval_experts", "pandalm"):
        rows = bl.atlas.trials(name)
        for column, who in judgements.PERPLEXITIES.items():
            known = rows.dropna(subset=column)
            assert known[column].between(0.2, 25).all()
            assert known.loc[known[column.replace("log_perplexity", "words")] > 20, column].between(0.2, 9).all()
            assert known.groupby(["context_id", who])[column].nunique().max() in (1, math.nan) or known.empty
            assert set(known[column].round(4)) <= kept


@pytest.mark.slow
def test_an_audit_of_experts_is_about_familiarity_too():
    rows = bl.atlas.trials("summeval_experts").query("attribute == 'coherence'")
    found = bl.audit(rows, only=["familiarity"], resampling=bl.Resampling(n=100))
    slopes = found[found["metric"] == "familiarity_slope"].set_index("judge")
    assert slopes.index.tolist() == ["expert-1", "expert-2", "expert-3"]
    assert (slopes["estimate"].abs() < 0.3).all()
    without = bl.audit(rows.drop(columns="log_perplexity"), only=["familiarity"])
    assert without.attrs["not_run"] == {"familiarity": "needs log perplexities of the judged texts"}


@pytest.mark.slow
def test_the_embedded_model_gives_them_again(shared_data):
    judge, kept = bl.load_judge(perplexity.READER), perplexity.read_kept()
    texts = sorted(raw_texts.summeval(shared_data)["text"], key=len)[:4]
    for request, reply in judge.ask(map(Likelihood, texts)):
        assert kept[text_key(request.text)] == pytest.approx(perplexity.log_perplexity(reply), abs=2e-3)


def test_no_token_is_no_number():
    assert math.isnan(perplexity.log_perplexity(Reply(logprobs=())))
    assert perplexity.log_perplexity(Reply(logprobs=(-1.0, -2.0))) == 1.5
