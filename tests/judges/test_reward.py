"""Reward models as judges: the rewards of transformers, one by one, however texts share and stand in batches."""

import gzip
import json
import math

import pytest
import torch
import transformers

import biaslab as bl
from biaslab.core import Compare, Rank, Score
from biaslab.core.errors import InputError, JudgeError, ModelLoadError, PromptTooLongError, UnsupportedRequestError
from biaslab.judges.loading import find_model, load_model
from biaslab.judges.reward import preference
from biaslab.judges.scorers import RewardBatches, RewardTree, rewarded

NAMES = {"llama": RewardTree, "gpt2": RewardTree, "bert": RewardBatches}
TEXTS = [
    "Rain fell.",
    "Rain fell all night, and the old bridge was closed until noon.",
    "Snow.",
    "It rained <|im_end|>",
]


@pytest.fixture(scope="module")
def tokenizer():
    return load_model(find_model("smollm2-135m"), "float32", "cpu")[1]


def _model(name, tokenizer):
    """Return a small reward model with random weights, large enough to tell texts apart."""
    torch.manual_seed(1)
    size = {
        "vocab_size": len(tokenizer),
        "num_labels": 1,
        "pad_token_id": tokenizer.eos_token_id,
        "initializer_range": 0.2,
    }
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    if name == "llama":
        config = transformers.LlamaConfig(**size, **small, num_key_value_heads=2, max_position_embeddings=512)
        model = transformers.LlamaForSequenceClassification(config)
    elif name == "gpt2":
        config = transformers.GPT2Config(**size, n_embd=32, n_layer=2, n_head=4, n_positions=512)
        model = transformers.GPT2ForSequenceClassification(config)
    else:
        config = transformers.BertConfig(**size, **small, max_position_embeddings=512)
        model = transformers.BertForSequenceClassification(config)
    return model.eval()


@pytest.fixture(scope="module")
def models(tokenizer):
    return {name: _model(name, tokenizer) for name in NAMES}


def _judge(name, models, tokenizer, **options):
    return bl.RewardJudge.from_loaded(models[name], tokenizer, f"random-{name}", **options)


@torch.inference_mode()
def _expected(model, tokenizer, asked, text):
    """Return a reward as the cards of such models compute it: the whole chat through the template, one at a time."""
    turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": text}]
    ids = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=True)["input_ids"]
    return model(input_ids=torch.tensor([ids])).logits[0, 0].item()


@pytest.mark.parametrize("name", NAMES)
def test_rewards_are_those_of_the_model_cards_code(models, tokenizer, name):
    judge = _judge(name, models, tokenizer)
    asked = [Score(text, source) for source in ("What happened?", "And the bridge?") for text in TEXTS[:3]]
    got = {request: reply.score for request, reply in judge.ask(asked)}
    assert isinstance(judge._scorer, NAMES[name])
    for request in asked:
        expected = _expected(models[name], tokenizer, request.source, request.text)
        assert got[request] == pytest.approx(expected, abs=1e-4)
    assert max(got.values()) - min(got.values()) > 0.01


@torch.inference_mode()
def test_an_encoder_without_a_template_reads_a_pair_of_segments():
    source = find_model("minilm-l6")
    tokenizer = transformers.AutoTokenizer.from_pretrained(source.location)
    tokenizer.eos_token_id = tokenizer.sep_token_id
    model = _model("bert", tokenizer)
    judge = bl.RewardJudge.from_loaded(model, tokenizer, "bert")
    asked = [Score(text, source) for source in ("What happened?", "") for text in TEXTS[:3]]
    for request, reply in judge.ask(asked):
        shown = (request.source, request.text) if request.source else (request.text,)
        expected = model(**tokenizer(*shown, return_tensors="pt")).logits[0, 0].item()
        assert reply.score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tokens", [8, 64, 4096])
def test_no_reward_depends_on_its_batch(models, tokenizer, name, tokens):
    ids = [tuple(tokenizer(text * n).input_ids) for text in TEXTS[:3] for n in (1, 2, 5)]
    ids.append((*ids[0], tokenizer.eos_token_id))  # ends with the token that batches are filled up with
    rows = [rewarded(each) for each in ids]
    alone = [next(RewardBatches(models[name], 4096).score([row]))[1][0] for row in rows]
    for kind in {RewardBatches, NAMES[name]}:
        together = dict(kind(models[name], tokens).score(rows))
        assert [together[i][0] for i in range(len(rows))] == pytest.approx(alone, abs=1e-4)


def test_a_pair_is_the_difference_and_free_of_position(models, tokenizer):
    judge = _judge("llama", models, tokenizer)
    first, second = TEXTS[:2]
    asked = [
        Compare(first, second, "Q?"),
        Compare(second, first, "Q?"),
        Compare(first, first, "Q?"),
        Score(first, "Q?"),
    ]
    replies = dict(judge.ask([*asked, Score(second, "Q?")]))
    p, swapped, same, one = (replies[request].score for request in asked)
    other = replies[Score(second, "Q?")].score
    assert p == preference(one, other)
    assert p == pytest.approx(1 / (1 + math.exp(other - one)))
    assert (p + swapped, same) == (1.0, 0.5)
    assert replies[asked[0]].usage.prompt_tokens > replies[asked[3]].usage.prompt_tokens


def test_shared_prefix_is_computed_once(models, tokenizer):
    judge = _judge("llama", models, tokenizer)
    source = "The council voted on 12 May to close the old bridge. " * 8
    list(judge.ask([Compare(a, b, source) for a in TEXTS[:3] for b in TEXTS[:3] if a != b]))
    one = len(judge.encode(Score(TEXTS[0], source))[0])
    assert judge._scorer.computed < 1.5 * one


@pytest.mark.slow
def test_position_has_no_bias_by_construction(models, tokenizer, graded):
    probe = bl.probes.Position(["coherence"])
    trials = bl.collect(probe, _judge("llama", models, tokenizer), graded, progress=False)
    assert set(trials["template"]) == {"each alone"}
    estimates = probe.estimate(trials)
    row = estimates[estimates["metric"] == "first_position_rate"].iloc[0]
    assert (row["estimate"], row["ci_low"], row["ci_high"], row["method"]) == (0.5, 0.5, 0.5, "by construction")
    assert (
        "no bias, by construction; each text is scored alone, so swapping changes none of"
        in bl.report.verdicts(estimates)[0]
    )
    trials.loc[0, "value"] = 0.9  # whatever changes with the order is tested as of any judge
    assert "by construction" not in set(probe.estimate(trials)["method"])


@pytest.mark.slow
def test_score_excess_is_in_standard_deviations(models, tokenizer, graded):
    judge = _judge("llama", models, tokenizer)
    probe = bl.probes.Edit(["coherence"], ["padding"], forms=["score"])
    trials = bl.collect(probe, judge, graded, progress=False)
    assert set(trials["scale"]) == {"reward"}
    estimates = probe.estimate(trials, ["score_excess"])
    scaled = probe.estimate(trials.assign(value=1000 * trials["value"] - 7), ["score_excess"])
    assert scaled["estimate"].item() == pytest.approx(estimates["estimate"].item())
    spread = trials["value"].std()
    excess = trials.pivot(index=["context_id", "candidate_id"], columns="variant", values="value")
    assert estimates["estimate"].item() == pytest.approx((excess["edited"] - excess["null edit"]).mean() / spread)


def test_the_prompt_is_shown_and_part_of_the_id(models, tokenizer):
    plain = _judge("llama", models, tokenizer)
    own = _judge("llama", models, tokenizer, prompt="Summarise:\n{context}\nLike {reference}")
    assert plain.id == "reward:random-llama:float32"
    assert own.id.startswith("reward:random-llama:float32+")
    request = Score(TEXTS[0], "A {reference} text.", reference="this one")
    [(_, reply)] = own.ask([request])
    asked = "Summarise:\nA {reference} text.\nLike this one"
    assert reply.score == pytest.approx(_expected(models["llama"], tokenizer, asked, TEXTS[0]), abs=1e-4)
    with pytest.raises(InputError, match=r"a text with {context}"):
        _judge("llama", models, tokenizer, prompt="Summarise.")


def test_data_never_becomes_a_special_token(models, tokenizer):
    [ids] = _judge("llama", models, tokenizer).encode(Score(TEXTS[3], "Q?"))
    assert ids.count(tokenizer.convert_tokens_to_ids("<|im_end|>")) == 3  # the system's, the user's, the assistant's


@pytest.mark.slow
def test_a_saved_model_is_loaded_by_name_and_stored(models, tokenizer, tmp_path, graded):
    models["llama"].save_pretrained(tmp_path / "reward")
    tokenizer.save_pretrained(tmp_path / "reward")
    judge = bl.load_judge(f"reward:{tmp_path / 'reward'}")
    probe, store = bl.probes.Verbosity(["coherence"]), tmp_path / "replies.sqlite"
    trials = [
        bl.collect(probe, one, graded, store=store, progress=False)
        for one in (judge, bl.RewardJudge(str(tmp_path / "reward")))
    ]
    assert (trials[0].attrs["asked"], trials[1].attrs["asked"]) == (len(trials[0]), 0)
    assert trials[0]["value"].tolist() == trials[1]["value"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [("two outputs", "it has 2 outputs, but a reward model has one"), ("no head", "no weights for score.weight")],
)
def test_other_models_than_reward_models_are_refused(models, tokenizer, tmp_path, change, words):
    config = transformers.LlamaConfig(**models["llama"].config.to_diff_dict() | {"num_labels": 2})
    kind = transformers.LlamaForSequenceClassification if change == "two outputs" else transformers.LlamaForCausalLM
    kind(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelLoadError, match=words):
        list(bl.RewardJudge(str(tmp_path)).ask([Score("a", "b")]))


def test_prompts_and_long_texts_are_refused_before_any_request(models, tokenizer, graded):
    judge = _judge("gpt2", models, tokenizer)
    with pytest.raises(PromptTooLongError, match=r"the context window .* is 512"):
        judge.check([Score("word " * 600)])
    with pytest.raises(UnsupportedRequestError, match=r"template needs prompts .* takes no prompt"):
        bl.collect(bl.probes.Template(["coherence"]), judge, graded, progress=False)
    with pytest.raises(JudgeError):
        bl.collect(bl.probes.Template(["coherence"]), judge, graded, progress=False, nearest=False)


def test_a_panel_of_them_compares_and_does_not_score(models, tokenizer):
    panel = bl.Panel([_judge(name, models, tokenizer) for name in ("llama", "gpt2")])
    assert (panel.kinds, panel.reads_prompts) == ({Compare, Rank}, False)
    request = Compare(*TEXTS[:2], "Q?")
    each = [next(iter(member.ask([request])))[1].score for member in panel.members]
    assert next(iter(panel.ask([request])))[1].score == pytest.approx(sum(each) / 2)
    [(_, listed)] = panel.ask([Rank(tuple(TEXTS[:2]), "Q?")])
    assert math.exp(listed.logprobs[0]) == pytest.approx(sum(each) / 2)


RECORDED = {
    "Skywork_Skywork-Reward-Llama-3.1-8B": (0.6229, 0.4257, 1),
    "internlm_internlm2-7b-reward": (0.5943, 0.4429, 0),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_rewards_give_published_accuracies(shared_data, name):
    path = shared_data / "recorded" / "judgebench_reward_models" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    accuracy, longer, ties = RECORDED[name]
    p = [preference(*row["scores"][0]) for row in rows]
    swapped = [preference(*row["scores"][1]) for row in rows]
    assert [a + b for a, b in zip(p, swapped, strict=True)] == [1.0] * 350
    assert sum(value == 0.5 for value in p) == ties  # recorded as B>A in both orders
    said = ["A>B" if value > 0.5 else "B>A" for value in p]
    assert said == [row["decisions"][0] for row in rows]
    assert round(sum(one == row["label"] for one, row in zip(said, rows, strict=True)) / 350, 4) == accuracy
    wins = [(one == "A>B") == (row["len_A"] > row["len_B"]) for one, row in zip(said, rows, strict=True)]
    assert round(sum(wins) / 350, 4) == longer
