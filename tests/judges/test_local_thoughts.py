"""Models on this machine that think: thoughts begin, end and are closed as the family does, and labels follow them."""

import math

import numpy as np
import pytest

import biaslab as bl
from biaslab.core import Choice, Completion, Likelihood, request_key
from biaslab.core.errors import InputError, JudgeError, PromptTooLongError
from biaslab.judges import load_judge
from biaslab.judges.local_thoughts import ThoughtPrompts, ThoughtWriter, _drawn
from biaslab.judges.thinking import ThinkingOption

#: The shape of Qwen3's template: earlier thoughts are dropped, and a switch closes the thought before it begins.
SWITCHED = (
    "{%- for m in messages %}{%- set content = m.content %}"
    "{%- if m.role == 'assistant' and '</think>' in content %}"
    "{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}"
    "{{- '<|im_start|>' + m.role + '\\n' + content + '<|im_end|>' + '\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
    "{%- endif %}"
)
#: The shape of DeepSeek-R1's and of Qwen3-Thinking's: the prompt opens the thought, and nothing switches it off.
OPENED = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n' }}{%- endif %}"
)
LABELS = ("Summary A", "Summary B")
QUESTION = "Which summary is better, Summary A or Summary B?"
BUDGET = 12


@pytest.fixture(scope="module")
def model(make_model, byte_level):
    """A tiny Qwen3 of random weights."""
    ends = {"eos_token_id": byte_level.eos_token_id, "pad_token_id": byte_level.eos_token_id}
    sizes = {"head_dim": 8, "max_position_embeddings": 2048}
    return make_model("Qwen3Config", vocab_size=len(byte_level), **ends, **sizes)


@pytest.fixture
def judge_of(model, make_tokenizer):
    def make(thinking=BUDGET, template=SWITCHED, of=model):
        tokenizer = make_tokenizer(chat_template=template)
        return bl.LocalJudge.from_loaded(of, tokenizer, "thinker", thinking=thinking)

    return make


@pytest.fixture
def favouring(model):
    """Make tokens likelier in every pass, from the module's model and back; what is added to their logits."""
    handles = []

    def favour(levels):
        def add(_, __, output):
            for token, level in levels.items():
                output.logits[..., token] += level
            return output

        handles.append(model.register_forward_hook(add))

    yield favour
    for handle in handles:
        handle.remove()


def logits_of(model, ids):
    """Logits of one plain pass, in float64."""
    import torch

    with torch.inference_mode():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()


def rendered(judge, messages, **options):
    tokenizer = judge._loaded[1]
    turns = [{"role": role, "content": content} for role, content in messages]
    return tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **options)


def encoded(judge, text):
    return judge._loaded[1](text, add_special_tokens=False).input_ids


def by_hand(judge, request, prompt):
    """Log P(label, end of the label | prompt): one plain forward pass a label."""
    model, tokenizer = judge._loaded
    values = []
    for label in request.labels:
        ids = encoded(judge, label)
        logprobs = logits_of(model, [*prompt, *ids]).log_softmax(-1)
        texts = ["" if i in tokenizer.all_special_ids else tokenizer.decode([i]) for i in range(len(tokenizer))]
        ends = [
            i
            for i, text in enumerate(texts)
            if not (text and text[0].isascii() and (text[0].isalnum() or text[0] == "_"))
        ]
        value = sum(float(logprobs[len(prompt) - 1 + i, token]) for i, token in enumerate(ids))
        values.append(value + float(logprobs[-1, ends].logsumexp(0)))
    return values


def thought_of(judge, request, budget=BUDGET):
    """The tokens between a request's prompt and its answer."""
    ((thought,),) = [each.values() for each in judge._writer.write({request: (judge._prompt(request).ids, budget)})]
    return thought


def drawn_by_hand(judge, prompt, uniforms, ends):
    """Token by token from plain passes: the first whose cumulative probability exceeds a random number."""
    ids = []
    for number in uniforms:
        upto = logits_of(judge._loaded[0], [*prompt, *ids])[-1].softmax(-1).cumsum(-1)
        token = int((upto <= number * upto[-1]).sum())
        if token in judge._end_of_turn:
            break
        ids.append(token)
        if token == ends:
            break
    return ids


@pytest.mark.parametrize("closes", [False, True])
def test_labels_after_a_thought_equal_a_plain_pass(judge_of, favouring, closes):
    """A thought is what token by token sampling writes; forced to end, or ended by the model; then labels are exact."""
    judge = judge_of()
    (tag,) = encoded(judge, "</think>")
    favouring({tag: 6.0 if closes else -50.0, judge._end_of_turn[0]: -50.0})
    requests = [Choice([("system", "Be fair."), ("user", QUESTION)], LABELS, replicate=n) for n in range(3)]
    replies = dict(judge.ask(requests))
    prompt = encoded(judge, rendered(judge, requests[0].messages, enable_thinking=True) + "<think>\n")
    for request in requests:
        thought = thought_of(judge, request)
        seed = _drawn(request)[1]
        uniforms = np.random.default_rng(seed).random(BUDGET)
        written = drawn_by_hand(judge, prompt, uniforms, tag)
        assert list(thought.ids[: thought.written]) == written
        assert (written[-1] == tag) == closes
        assert list(thought.ids[len(written) :]) == encoded(judge, "\n\n" if closes else "\n</think>\n\n")
        reply = replies[request]
        assert reply.logprobs == pytest.approx(by_hand(judge, request, [*prompt, *thought.ids]), abs=1e-4)
        assert reply.thought == judge._loaded[1].decode(written[:-1] if closes else written).strip()
        assert reply.usage.reasoning_tokens == reply.usage.completion_tokens == len(written)
        assert closes or len(written) == BUDGET
    assert len({reply.logprobs for reply in replies.values()}) > 1


def test_the_end_of_the_turn_ends_a_thought(judge_of, favouring):
    judge = judge_of()
    favouring({judge._end_of_turn[0]: 50.0})
    thought = thought_of(judge, Choice(QUESTION, LABELS))
    assert (thought.text, thought.written) == ("", 0)
    assert list(thought.ids) == encoded(judge, "\n</think>\n\n")


def test_thinking_off_differs_from_unset(judge_of):
    request = Choice(QUESTION, LABELS)
    judges = {str(how): judge_of(how) for how in (None, "off", BUDGET, {"effort": "none"})}
    replies = {how: reply for how, judge in judges.items() for _, reply in judge.ask([request])}
    off = encoded(judges["off"], rendered(judges["off"], request.messages, enable_thinking=False))
    assert replies["off"].logprobs == pytest.approx(by_hand(judges["off"], request, off), abs=1e-4)
    assert replies["off"].thought is None
    assert replies["off"].logprobs == replies["{'effort': 'none'}"].logprobs
    plain = encoded(judges["None"], rendered(judges["None"], request.messages))
    assert replies["None"].logprobs == pytest.approx(by_hand(judges["None"], request, plain), abs=1e-4)
    assert judges["None"].id == "local:thinker:float32"
    assert judges["off"].id == 'local:thinker:float32:{"thinking":"off"}'
    assert judges[str(BUDGET)].id == 'local:thinker:float32:{"thinking":{"tokens":12}}'
    assert len({request_key(request, judge.id) for judge in judges.values()}) == 4
    assert [judge.thought_tokens for judge in judges.values()] == [0, 0, BUDGET, 0]


def test_replicates_enter_a_key_only_where_there_are_several():
    assert request_key(Choice("A or B?", ("A", "B"), replicate=0), "j") == request_key(
        Choice("A or B?", ("A", "B")), "j"
    )
    assert request_key(Choice("A or B?", ("A", "B"), replicate=1), "j") != request_key(
        Choice("A or B?", ("A", "B")), "j"
    )


def test_a_prompt_that_opens_the_thought(judge_of):
    """It is opened once; without a switch it is left out by closing it at once."""
    request = Choice(QUESTION, LABELS)
    opened = judge_of(template=OPENED)
    prompt = encoded(opened, rendered(opened, request.messages))
    assert list(opened._prompt(request).ids) == prompt
    ((_, reply),) = opened.ask([request])
    thought = thought_of(opened, request)
    assert reply.logprobs == pytest.approx(by_hand(opened, request, [*prompt, *thought.ids]), abs=1e-4)
    off = judge_of("off", OPENED)
    ((_, reply),) = off.ask([request])
    closed = [*prompt, *encoded(off, "\n</think>\n\n")]
    assert reply.logprobs == pytest.approx(by_hand(off, request, closed), abs=1e-4)


def test_an_answer_that_has_begun_follows_the_thought(judge_of):
    messages = [("user", QUESTION), ("assistant", "The better one is ")]
    request = Choice(messages, LABELS)
    for thinking in (BUDGET, "off"):
        judge = judge_of(thinking)
        ((_, reply),) = judge.ask([request])
        asked = rendered(judge, messages[:1], enable_thinking=thinking != "off")
        before = encoded(judge, asked + ("" if thinking == "off" else "<think>\n"))
        thought = [] if thinking == "off" else thought_of(judge, request).ids
        whole = [*before, *thought, *encoded(judge, messages[1][1])]
        assert reply.logprobs == pytest.approx(by_hand(judge, request, whole), abs=1e-4)


def test_a_model_without_thoughts_says_so(judge_of, model, make_tokenizer, metaspace):
    plain = OPENED.replace("<think>\\n", "")
    with pytest.raises(JudgeError, match=r"no switch for thinking \(enable_thinking"):
        judge_of("off", plain).check([Choice(QUESTION, LABELS)])
    prompts = ThoughtPrompts(metaspace, len(metaspace), ThinkingOption(8))
    with pytest.raises(JudgeError, match=r"thinking tags \(<think>.*omit thinking="):
        prompts.prompt(Choice(QUESTION, LABELS).messages)


@pytest.mark.slow
def test_the_tree_shares_a_prompt_over_thoughts(judge_of):
    judge = judge_of()
    requests = [Choice(QUESTION, LABELS, replicate=n) for n in range(8)]
    assert len(dict(judge.ask(requests))) == 8
    sequences = [s.ids for r in requests for s in judge._sequences(r, thought_of(judge, r).ids)]
    distinct = {ids[:length] for ids in sequences for length in range(1, len(ids) + 1)}
    assert judge._scorer.computed == len(distinct)
    prompt = len(judge._prompt(requests[0]).ids)
    assert judge._scorer.computed <= prompt + sum(len(ids) - prompt for ids in sequences)


def test_texts_and_labels_follow_the_same_thoughts(judge_of):
    """Whatever the labels, the limit and the budget are, which only goes on with a thought."""
    judge, longer = judge_of(), judge_of(2 * BUDGET)
    asked = [Choice(QUESTION, LABELS, replicate=1), Choice(QUESTION, ("1", "2"), replicate=1)]
    asked += [Completion(QUESTION, 1.0, limit, 1) for limit in (4, 9)]
    asked += [Completion(QUESTION, 0.0, 4, replicate) for replicate in (0, 1)]
    thoughts = [dict(judge.ask(asked))[request].thought for request in asked]
    assert len(set(thoughts[:4])) == len(set(thoughts[4:])) == 1
    assert thoughts[0] != thoughts[4]
    short, long = (thought_of(each, asked[0], each.thought_tokens) for each in (judge, longer))
    assert long.ids[:BUDGET] == short.ids[:BUDGET]
    assert long.written == 2 * BUDGET


def test_greedy_text(judge_of):
    judge, request = judge_of(), Completion(QUESTION, 0.0, 6)
    ((_, reply),) = judge.ask([request])
    prompt, ids = encoded(judge, rendered(judge, request.messages, enable_thinking=True) + "<think>\n"), []
    for length, close in ((BUDGET, encoded(judge, "\n</think>\n\n")), (6, [])):
        for _ in range(length):
            ids.append(int(logits_of(judge._loaded[0], [*prompt, *ids])[-1].argmax()))
        ids += close
    decode = judge._loaded[1].decode
    assert reply.thought == decode(ids[:BUDGET]).strip()
    assert reply.text == decode(ids[-6:])
    assert (reply.finish_reason, reply.usage.reasoning_tokens, reply.usage.completion_tokens) == (
        "length",
        BUDGET,
        BUDGET + 6,
    )
    assert reply.usage.prompt_tokens == len(prompt) + len(encoded(judge, "\n</think>\n\n"))


def test_a_parser_sees_the_answer_alone(judge_of, model):
    """A model that writes one verdict into its thought and another one behind it."""
    judge = judge_of(64)
    probe = bl.probes.Position(["coherence"], [1], answer="text")
    trial = next(iter(probe.design(bl.load_dataset("graded", limit=1))))
    words = encoded(judge, "[[B]] Summary B is better.\n</think>"), encoded(judge, "Summary A")
    start = len(judge._prompt(trial.request).ids)
    gap = len(encoded(judge, "\n\n"))
    script = [*words[0], *[0] * gap, *words[1], judge._end_of_turn[0]]

    def write(_, __, kwargs, output):
        import torch

        places = kwargs.get("position_ids")
        size = output.logits.shape[1]
        if places is None:
            places = torch.arange(kwargs["input_ids"].shape[1])[None]
        for row, ats in enumerate(places.expand(len(output.logits), -1)[:, -size:].tolist()):
            for column, at in enumerate(ats):
                if 0 <= at - start + 1 < len(script):
                    output.logits[row, column, script[at - start + 1]] += 1000.0
        return output

    handle = model.register_forward_hook(write, with_kwargs=True)
    ((_, reply),) = judge.ask([trial.request])
    handle.remove()
    assert (reply.thought, reply.text, reply.finish_reason) == ("[[B]] Summary B is better.", "Summary A", "stop")
    assert probe.read(trial, reply) == (1.0, "ok")
    assert reply.usage.reasoning_tokens == len(words[0])


def test_padded_batches_write_the_same_thoughts(judge_of, favouring):
    """The way of architectures that take no slots."""
    from biaslab.judges.generation import PaddedGenerator

    judge = judge_of()
    (tag,) = encoded(judge, "</think>")
    favouring({tag: 3.0})
    requests = [Choice(f"{QUESTION} {n}", LABELS, replicate=n) for n in range(6)]
    asked = {r: (judge._prompt(r).ids, BUDGET) for r in requests}
    plain = PaddedGenerator(judge._loaded[0], judge._end_of_turn)
    padded = ThoughtWriter(judge._writer.prompts, plain)
    one, other = ({r: t for each in writer.write(asked) for r, t in each.items()} for writer in (judge._writer, padded))
    assert one == other
    assert {len(t.ids) for t in one.values()} != {len(one[requests[0]].ids)}


def test_a_tag_of_several_tokens(make_tokenizer):
    """Its last token may hold what stands behind it; what is missing up to the answer is added."""
    tokenizer = make_tokenizer("metaspace", chat_template=OPENED.replace("<|im_start|>", "").replace("<|im_end|>", ""))
    prompts = ThoughtPrompts(tokenizer, len(tokenizer), ThinkingOption(64))
    assert len(prompts.encoder.trusted("</think>")) > 1
    ids = prompts.encoder.continuation("A is better, or B?\n</think>")
    assert [n for n in range(len(ids) + 1) if prompts.ends(ids[:n])] == [len(ids)]
    whole = prompts.thought(ids)
    assert (whole.text, whole.written) == ("A is better, or B?", len(ids))
    assert prompts.encoder.decode(whole.ids).endswith("B?\n</think>\n\n")
    further = prompts.encoder.continuation("A is better, or B?\n</think>\n")
    assert prompts.encoder.decode(prompts.thought(further).ids).endswith("B?\n</think>\n\n")
    cut = prompts.encoder.continuation("A is better, or\n")
    assert prompts.encoder.decode(prompts.thought(cut).ids).endswith("or\n</think>\n\n")


@pytest.mark.slow
def test_a_request_sets_its_own_budget(judge_of, tmp_path):
    """Of a judge that was told nothing, and of one that was told another; budgets of one prompt share a thought."""
    asked = {budget: Choice(QUESTION, LABELS, thinking=budget) for budget in (0, 5, BUDGET)}
    expected = {0: "off", 5: 5, BUDGET: BUDGET}
    for judge in (judge_of(None), judge_of(7), judge_of("off")):
        replies = dict(judge.ask(asked.values()))
        for budget, request in asked.items():
            ((_, alone),) = judge_of(expected[budget]).ask([Choice(QUESTION, LABELS)])
            assert replies[request].logprobs == pytest.approx(alone.logprobs, abs=1e-4)
            assert (replies[request].thought, replies[request].usage) == (alone.thought, alone.usage)
    assert replies[asked[BUDGET]].usage.reasoning_tokens == BUDGET
    with bl.Store(tmp_path / "replies.sqlite") as store:
        mean = store.wrap(bl.MeanOverThoughts(judge_of(7), 3))
        means = dict(mean.ask(asked.values()))
        assert mean.judge.judge.asked == 1 + 3 + 3
    assert means[asked[0]].logprobs == pytest.approx(replies[asked[0]].logprobs, abs=1e-4)


def test_likelihoods_have_no_thought(judge_of):
    replies = [dict(judge_of(how).ask([Likelihood("a text", "given")])) for how in (None, BUDGET)]
    assert replies[0] == replies[1]


def test_the_window_holds_prompt_thought_and_answer(judge_of):
    request = Completion(QUESTION, 0.0, 8)
    size = len(judge_of()._prompt(request).ids) + len(encoded(judge_of(), "\n</think>\n\n")) + 8
    judge_of(2048 - size).check([request])
    with pytest.raises(
        PromptTooLongError, match=r"plus up to 2,015 thinking tokens, but the context window is 2048; .*lower thinking="
    ) as caught:
        judge_of(2048 - size + 1).check([request])
    assert caught.value.request is request
    auto = judge_of("auto")
    assert auto.thought_tokens == 1024
    assert auto._budget(request, auto._sequences(request)) == 2048 - size


@pytest.mark.parametrize("bad", ["loud", 0, True, {"budget": 3}, {}, 2.5])
def test_invalid_thinking_is_refused(judge_of, bad):
    with pytest.raises(InputError, match="thinking"):
        judge_of(bad)


def test_judge_names_with_thinking(model, byte_level, tmp_path):
    model.save_pretrained(tmp_path)
    byte_level.save_pretrained(tmp_path)
    judge = load_judge(f"{tmp_path}?thinking=64")
    assert judge.id.endswith(':float32:{"thinking":{"tokens":64}}')
    assert load_judge(f"{tmp_path}?thinking=low").thought_tokens == 4096
    mean = load_judge(f"thoughts:8:{tmp_path}?thinking=64")
    assert (mean.k, mean.id) == (8, f"thoughts:8:{judge.id}")
    for bad in (f"{tmp_path}?think=64", f"{tmp_path}?thinking=", f"thoughts:many:{tmp_path}", f"thoughts:8:{tmp_path}"):
        with pytest.raises(InputError):
            load_judge(bad)


@pytest.mark.slow
def test_the_mean_over_thoughts(judge_of, tmp_path):
    """Each thought is kept under the judge's own id, and more of them go on with those that there are."""
    judge, path = judge_of(), tmp_path / "replies.sqlite"
    request = Choice(QUESTION, LABELS)
    alone = [dict(judge.ask([Choice(QUESTION, LABELS, replicate=n)])).popitem()[1] for n in range(6)]
    with bl.Store(path) as store:
        for k, asked in ((4, 4), (6, 2)):
            stored = store.wrap(bl.MeanOverThoughts(judge, k))
            ((_, reply),) = stored.ask([request])
            mean = np.exp([each.logprobs for each in alone[:k]]).mean(axis=0)
            assert np.exp(reply.logprobs) == pytest.approx(mean, rel=1e-4)
            assert reply.usage.reasoning_tokens == k * BUDGET
            assert stored.judge.judge.asked == asked
        assert {record.judge for record in store.records()} == {
            judge.id,
            f"thoughts:4:{judge.id}",
            f"thoughts:6:{judge.id}",
        }
        assert not store.missing(bl.MeanOverThoughts(judge, 5), [request])
        assert store.missing(bl.MeanOverThoughts(judge, 7), [request]) == [request]
        split = bl.MeanOverThoughts(store.wrap(judge), 6).variance([request, Choice(f"{QUESTION} 2", LABELS)])
    shares = [math.exp(a) / (math.exp(a) + math.exp(b)) for a, b in (each.logprobs for each in alone)]
    assert split.between > 0
    assert split.factor.n_contexts == 2
    one = bl.stats.thought_variance([[each.logprobs for each in alone]])
    assert one.between == pytest.approx(np.var(shares, ddof=1), rel=1e-3)
    assert one.factor.estimate == pytest.approx(1 + one.within / one.between)


def test_invalid_mean_over_thoughts_is_refused(judge_of):
    data = bl.load_dataset("graded", limit=1)
    with pytest.raises(InputError, match="a judge that thinks before it answers"):
        bl.MeanOverThoughts(bl.SimulatedJudge(data), 3)
    with pytest.raises(InputError, match="a judge that thinks before it answers"):
        bl.MeanOverThoughts(judge_of("off"), 3)
    with pytest.raises(InputError, match="k is 1"):
        bl.MeanOverThoughts(judge_of(), 1).variance([Choice(QUESTION, LABELS)])
    with pytest.raises(JudgeError, match="has no replicates"):
        list(bl.MeanOverThoughts(judge_of(), 2).ask([Choice(QUESTION, LABELS, replicate=1)]))


def test_thoughts_are_announced(judge_of):
    from biaslab.study.token_counts import count_tokens

    judge, requests = judge_of(), [Choice(QUESTION, LABELS), Completion(QUESTION, 0.0, 5)]
    assert count_tokens(judge, requests).written.tolist() == [BUDGET, BUDGET + 5]
    budgets = [Choice(QUESTION, LABELS, thinking=0), Choice(QUESTION, LABELS, thinking=3)]
    assert count_tokens(judge, budgets).written.tolist() == [0, 3]
    assert count_tokens(bl.MeanOverThoughts(judge, 4), requests).written.tolist() == [4 * BUDGET, BUDGET + 5]


class Interrupted(BaseException):
    """What a signal raises."""


@pytest.mark.slow
def test_an_interrupted_study_writes_no_stored_thought_again(judge_of, model, tmp_path):
    """Thoughts that were answered are kept, the others are written; each reply is what an undisturbed run gives."""
    judge, path, passes, limit = judge_of(3), tmp_path / "replies.sqlite", [], 0
    requests = [Choice(f"{QUESTION} {n}", LABELS) for n in range(40)]
    judge._generator.most_rows = 4  # so that thoughts come a few at a time

    def interrupt(*_):
        passes.append(1)
        if len(passes) == limit:
            raise Interrupted

    handle = model.register_forward_pre_hook(interrupt)
    expected = dict(bl.MeanOverThoughts(judge, 3).ask(requests))
    limit = len(passes) + 17 * len(passes) // 20
    with bl.Store(path) as store, pytest.raises(Interrupted):
        list(store.wrap(bl.MeanOverThoughts(judge, 3)).ask(requests))
    limit = 0
    with bl.Store(path) as store:
        kept = [record for record in store.records() if record.judge == judge.id]
        mean = store.wrap(bl.MeanOverThoughts(judge, 3))
        replies = dict(mean.ask(requests))
        again = [record for record in store.records() if record.judge == judge.id]
    handle.remove()
    assert 60 < len(kept) < 110
    assert all(record.reply.thought for record in kept)
    assert mean.judge.judge.asked == 120 - len(kept)
    assert {r.key: r.created for r in kept}.items() <= {r.key: r.created for r in again}.items()
    assert len(again) == 120
    for request in requests:
        assert np.exp(replies[request].logprobs) == pytest.approx(np.exp(expected[request].logprobs), rel=1e-4)


def test_a_request_with_a_budget_is_asked_at_it(judge_of, model):
    """One judge at several budgets: at 0 it says what a judge does that was told "off", and thoughts keep to theirs."""
    judge, off = judge_of(), judge_of("off")
    requests = {each: Choice(QUESTION, LABELS, thinking=each) for each in (0, 5, 30)} | {None: Choice(QUESTION, LABELS)}
    judge.check(requests.values())
    replies = dict(judge.ask(requests.values()))
    [(_, plain)] = off.ask([Choice(QUESTION, LABELS)])
    assert replies[requests[0]].logprobs == pytest.approx(plain.logprobs, abs=1e-6)
    spent = {each: replies[request].usage.reasoning_tokens for each, request in requests.items()}
    assert spent[0] == 0 < spent[5] <= 5 < spent[30] <= 30
    assert 0 < spent[None] <= BUDGET
    mean = bl.MeanOverThoughts(judge, 2)
    assert {each.thinking for each in mean.expand(requests[5])} == {5}
    assert mean.thinks


@pytest.mark.slow
def test_a_model_without_tags_of_a_thought_takes_no_budget():
    judge = bl.LocalJudge()
    with pytest.raises(JudgeError, match="has thinking tags"):
        judge.check([Completion(QUESTION, thinking="low")])
