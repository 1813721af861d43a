"""Overlap metrics against hand counts, and what they are compared with."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core.errors import InputError, ModelLoadError
from biaslab.core.schema import CANDIDATE_COLUMNS
from biaslab.measures.scoring import bert_scores, load_encoder, reference_scores
from biaslab.measures.scoring.encoder import TokenEmbedder
from biaslab.measures.scoring.reference import _rarity, _score, compared_with, match

pytest.importorskip("sacrebleu", reason="sacrebleu is not installed: pip install '.[text-metrics]'")
WORDS = st.lists(st.sampled_from(["rain", "fell", "snow", "on", "roof"]), min_size=1, max_size=8).map(" ".join)


def dataset(texts, references, contexts=None):
    rows = [
        (f"c{i}", (contexts or [""] * len(texts))[i], "x", "s", text, reference)
        for i, (text, reference) in enumerate(zip(texts, references, strict=True))
    ]
    human = pd.DataFrame(columns=["context_id", "candidate_id", "attribute", "annotator", "score"])
    return bl.Dataset("d", pd.DataFrame(rows, columns=list(CANDIDATE_COLUMNS)), human, {"a": "A.", "b": "B."})


@pytest.mark.slow
def test_scores_counted_by_hand():
    text, reference = "the cat sat on a mat", "the cat lay on the mat"
    found = reference_scores(dataset([text], [reference]), attributes=["a"]).set_index("scorer")["score"]
    assert found["ROUGE-1 (reference)"] == pytest.approx(4 / 6)  # the, cat, on, mat
    assert found["ROUGE-2 (reference)"] == pytest.approx(1 / 5)  # the cat
    assert found["ROUGE-L (reference)"] == pytest.approx(4 / 6)
    # BLEU: 4/6, 1/5, and smoothed 1/(2·4), 1/(4·3), equal lengths
    assert found["BLEU (reference)"] == pytest.approx(100 * (4 / 6 * 1 / 5 * 1 / 8 * 1 / 12) ** 0.25)
    assert 0 < found["chrF (reference)"] < 100


def chrf(text, other):
    """F2 of character n-grams to 6, precision and recall averaged over the orders that both texts have."""
    grams = [[list(zip(*(t.replace(" ", "")[i:] for i in range(n)), strict=False)) for n in range(1, 7)]
             for t in (text, other)]  # fmt: skip
    p, r = [], []
    for one, two in zip(*grams, strict=True):
        if one and two:
            shared = sum(min(one.count(g), two.count(g)) for g in set(one))
            p.append(shared / len(one))
            r.append(shared / len(two))
    p, r = np.mean(p), np.mean(r)
    return 100 * 5 * p * r / (4 * p + r) if p + r else 0.0


@given(WORDS, WORDS)
def test_chrf_is_the_f2_of_character_ngrams(text, other):
    assert _score("chrF")(text, [other]) == pytest.approx(chrf(text, other), abs=1e-6)


@given(WORDS, WORDS)
@pytest.mark.parametrize("metric", ["ROUGE-1", "ROUGE-2", "ROUGE-L", "BLEU", "chrF"])
def test_ranges_and_identity(metric, text, other):
    most = 1 if metric.startswith("ROUGE") else 100
    assert 0 <= _score(metric)(text, [other]) <= most + 1e-9
    if len(text.split()) > 1:
        assert _score(metric)(text, [text]) == pytest.approx(most)


def test_every_attribute_has_the_same_score_and_its_provenance(graded):
    found = reference_scores(graded, ["ROUGE-L", "BLEU"])
    assert set(found["attribute"]) == set(graded.attributes)
    wide = found.pivot_table(index=["scorer", "context_id", "candidate_id"], columns="attribute", values="score")
    assert (wide.to_numpy() == wide.to_numpy()[:, :1]).all()
    assert set(found["judge"].str.split().str[0]) == {"rouge-score", "sacrebleu"}
    assert not found.duplicated(["scorer", "attribute", "context_id", "candidate_id"]).any()


def test_source_where_there_is_no_reference():
    texts = ["Rain fell.", "Snow fell."]
    both = dataset(texts, ["Rain.", "Snow."], ["It rained.", "It snowed."])
    some = dataset(texts, ["Rain.", " "], ["It rained.", "It snowed."])
    assert compared_with(both) == ("reference", ["Rain.", "Snow."])
    assert compared_with(some) == ("source", ["It rained.", "It snowed."])
    assert compared_with(both, "source")[0] == "source"
    assert reference_scores(some, ["BLEU"])["scorer"].unique().tolist() == ["BLEU (source)"]
    with pytest.raises(InputError, match="context 'c1', candidate 'x' has no reference"):
        compared_with(some, "reference")
    with pytest.raises(InputError, match="has no source"):
        compared_with(dataset(texts, ["", ""]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metrics": ["METEOR"]}, "chrF"),
        ({"metrics": "BLEU"}, "a list"),
        ({"metrics": []}, "a list"),
        ({"attributes": ["beauty"]}, "beauty"),
        ({"against": "humans"}, "reference, source"),
    ],
)
def test_bad_parameters_are_named(graded, options, words):
    with pytest.raises(InputError, match=words):
        reference_scores(graded, **options)


def test_a_copy_of_the_reference_is_best(graded):
    copies = replace(graded, candidates=graded.candidates.assign(text=graded.candidates["reference"]))
    for metric in ("ROUGE-1", "BLEU", "chrF"):
        assert (reference_scores(graded, [metric])["score"] <= reference_scores(copies, [metric])["score"] + 1e-9).all()


def test_rouge_is_the_mean_over_several_references():
    one, two = (dataset(["rain fell on snow"], [reference]) for reference in ("rain fell", "snow on roof"))
    both = replace(one, candidates=one.candidates.assign(reference_2=two.candidates["reference"], reference_3=""))
    for metric in ("ROUGE-1", "ROUGE-2"):
        isolated = [reference_scores(each, [metric])["score"] for each in (one, two)]
        assert reference_scores(both, [metric])["score"].to_numpy() == pytest.approx(np.mean(isolated, axis=0))
    best = max(_score("chrF")("rain fell on snow", [other]) for other in ("rain fell", "snow on roof"))
    assert reference_scores(both, ["chrF"])["score"].iloc[0] == pytest.approx(best)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_rouge_on_summeval_reproduces_table_1_of_wang2023(shared_data):
    data = bl.load_dataset("summeval", shared_data / "summeval" / "means_1600.json.gz")
    assert data.variables == tuple(f"reference_{number}" for number in range(2, 12))
    scores = reference_scores(data, ["ROUGE-1", "ROUGE-2"])
    scores["metric"] = scores["scorer"].str.removesuffix(" (reference)")
    means = data.human_means.reset_index().melt(
        ["context_id", "candidate_id"], var_name="attribute", value_name="human"
    )
    scores = scores.merge(means, on=["context_id", "candidate_id", "attribute"])
    printed = bl.published.load("wang2023", table=1)
    printed = printed[printed["row"].str.contains("ROUGE-[12]")]
    assert len(printed) == 24
    for row in printed.itertuples():
        cell = scores[(scores["attribute"] == row.attribute) & (scores["metric"] == row.row.split(" | ")[-1])]
        within = [part["score"].corr(part["human"], row.metric) for _, part in cell.groupby("context_id")]
        assert np.nanmean(within) == pytest.approx(row.value, abs=0.003), row.row


WORDS_bert_score = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "on", "mat", "dog", ".", "a", "ran"]
SIZES = {"vocab_size": len(WORDS_bert_score), "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
TEXTS = ["the cat sat on the mat .", "a dog ran", "the", "a dog sat on the cat . the cat ran ."]


def tokenizer(special=True):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS_bert_score)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = {"cls_token": "[CLS]", "sep_token": "[SEP]"} if special else {"bos_token": "[CLS]"}
    if special:
        ends = [("[CLS]", 2), ("[SEP]", 3)]
        made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", **marks)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[local]'")
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    config = BertConfig(num_hidden_layers=4, max_position_embeddings=18, initializer_range=0.5, **SIZES)
    BertModel(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[local]'")
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(num_hidden_layers=3, initializer_range=0.5, **SIZES)).save_pretrained(folder)
    tokenizer(special=False).save_pretrained(folder)
    return folder


def test_greedy_matching_by_hand():
    half = np.sqrt(0.5)
    candidate, reference = [[1, 0], [half, half], [0, -1]], [[1, 0], [0, 1]]
    # cosines: (1, 0), (.707, .707), (0, -1)
    found = match(candidate, reference)
    assert found.precision == pytest.approx((1 + half + 0) / 3)
    assert found.recall == pytest.approx((1 + half) / 2)
    assert found.f1 == pytest.approx(2 * found.precision * found.recall / (found.precision + found.recall))
    weighted = match(candidate, reference, [0, 1, 1], [3, 1])
    assert (weighted.precision, weighted.recall) == pytest.approx((half / 2, (3 + half) / 4))
    assert np.isnan(match(candidate, reference, [0, 0, 0])).any()
    assert np.isnan(match(np.empty((0, 2)), reference)).all()


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_exchanging_the_texts_exchanges_precision_and_recall(n, m, seed):
    rng = np.random.default_rng(seed)
    one, two = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (rng.normal(size=(k, 3)) for k in (n, m)))
    there, back = match(one, two), match(two, one)
    assert (there.precision, there.recall, there.f1) == pytest.approx((back.recall, back.precision, back.f1))
    assert match(one, one).f1 == pytest.approx(1)
    assert there.precision <= 1 + 1e-9


def test_rarity_is_plus_one_smoothed():
    weigh = _rarity([np.array([1, 2, 2]), np.array([2]), np.array([3])])
    assert weigh(np.array([1, 2, 9])) == pytest.approx(-np.log(np.array([2, 3, 1]) / 4))


def test_vectors_are_those_of_each_text_alone(bert):
    """Batches and padding change nothing; special tokens are seen by the model and not returned."""
    import torch

    encoder = load_encoder(str(bert))
    assert (encoder.layer, encoder.window, encoder.name) == (3, 16, f"{bert.name}, layer 3")
    encoded = encoder.encode(TEXTS)
    for text, found in zip(TEXTS, encoded, strict=True):
        ids = [2, *(WORDS_bert_score.index(word) for word in text.split()), 3]
        with torch.inference_mode():
            states = encoder.model(torch.tensor([ids]), output_hidden_states=True).hidden_states[3][0, 1:-1].numpy()
        assert found.ids.tolist() == ids[1:-1]
        assert found.vectors == pytest.approx(states / np.linalg.norm(states, axis=1, keepdims=True), abs=1e-5)


def test_a_causal_model_gives_its_last_states_after_a_beginning(llama):
    import torch

    encoder = load_encoder(str(llama))
    assert encoder.layer == 3
    [found] = encoder.encode(["a dog ran"])
    with torch.inference_mode():
        states = encoder.model(torch.tensor([[2, 11, 9, 12]])).last_hidden_state[0, 1:].numpy()
    assert found.ids.tolist() == [11, 9, 12]
    assert found.vectors == pytest.approx(states / np.linalg.norm(states, axis=1, keepdims=True), abs=1e-5)


def test_truncated_texts_raise_a_warning_with_their_count(bert):
    encoder = load_encoder(str(bert))
    with pytest.warns(UserWarning, match="1 of 2 texts are truncated to the 16-token window"):
        encoded = encoder.encode(["the cat " * 20, "a dog"])
    assert [len(found.ids) for found in encoded] == [14, 2]


def test_special_tokens_in_a_text_are_characters(bert):
    [found] = load_encoder(str(bert)).encode(["[SEP] the"])
    assert 3 not in found.ids
    assert found.ids[-1] == WORDS_bert_score.index("the")


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("measure", ["precision", "recall", "F1"])
def test_scores_of_a_data_set(graded, bert, idf, measure):
    """The pipeline is match() on the encoder's vectors with the weights of the references."""
    full = load_encoder(str(bert))
    encoder = TokenEmbedder(full.name, full.model, _Cut(full.tokenizer), full.layer)
    small = graded.head(2)
    found = bert_scores(small, encoder, measure, ["fluency"], idf=idf)
    assert found["scorer"].unique().tolist() == [f"BERTScore {measure}{', idf' if idf else ''} (reference)"]
    assert found["judge"].unique().tolist() == [encoder.name]
    weigh = _rarity([e.ids for e in encoder.encode(list(dict.fromkeys(small.candidates["reference"])))])
    for score, row in zip(found["score"], small.candidates.itertuples(), strict=True):
        one, two = encoder.encode([row.text, row.reference])
        weights = [weigh(e.ids) if idf else np.ones(len(e.ids)) for e in (one, two)]
        expected = getattr(match(one.vectors, two.vectors, *weights), measure.lower())
        assert score == pytest.approx(expected, abs=1e-5, nan_ok=True)


class _Cut:
    """The tokenizer, made to read the first letters of each word as words, so that tiny vocabularies have hits."""

    def __init__(self, tokenizer):
        self.tokenizer, self.bos_token_id, self.pad_token_id = tokenizer, None, 0
        self.model_max_length = tokenizer.model_max_length

    def __call__(self, text, **options):
        known = WORDS_bert_score[4:]
        words = [known[len(word) % len(known)] for word in text.split()[:12]]
        return self.tokenizer(" ".join(words), **options)


def test_bad_parameters_of_bert_score_are_named(graded, bert):
    with pytest.raises(InputError, match="recall"):
        bert_scores(graded, measure="accuracy")
    with pytest.raises(InputError, match="beauty"):
        bert_scores(graded, attributes=["beauty"])
    with pytest.raises(InputError, match="0 to 4"):
        load_encoder(str(bert), layer=5)
    with pytest.raises(ModelLoadError, match="no model at"):
        load_encoder("/no/such/folder")


@pytest.mark.slow
def test_the_embedded_model_prefers_the_text_itself(graded):
    encoder = load_encoder()
    assert (encoder.name, encoder.layer) == ("smollm2-135m, layer 30", 30)
    reference, other = graded.candidates["reference"].iloc[0], graded.candidates["reference"].iloc[-1]
    same, near, far = encoder.encode([reference, graded.candidates["text"].iloc[0], other])
    assert match(same.vectors, same.vectors).f1 == pytest.approx(1, abs=1e-5)
    assert match(near.vectors, same.vectors).f1 > match(far.vectors, same.vectors).f1
