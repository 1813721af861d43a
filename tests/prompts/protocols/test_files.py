"""Judge prompts in the formats in which people keep them, and recorded replies read by them alone."""

import gzip
import json
import math
import random

import pytest

import biaslab as bl
from biaslab.core import Reply
from biaslab.core.errors import InputError

TOML = """
form = "pair"
template = "Q: {question}\\n1: {answer_1}\\n2: {answer_2}"
pattern = 'winner: (\\w+)'
verdicts = {first = 1, second = 0}
max_tokens = 50
"""
WEIGHTED = "weighted_alpaca_eval_gpt4_turbo"
WHOLE = {
    "alpaca_eval/alpaca_eval_gpt4/configs.yaml": "pair",
    "alpaca_eval/alpaca_eval_clf_gpt4_turbo/configs.yaml": "pair",
    "alpaca_eval/weighted_alpaca_eval_gpt4_turbo/configs.yaml": "pair",
    "alpaca_eval/alpaca_eval_gpt4_turbo_fn/configs.yaml": "pair",
    "alpaca_eval/alpaca_eval_cot_gpt4_turbo_fn/configs.yaml": "pair",
    "alpaca_eval/chatgpt_fn/configs.yaml": "pair",
    "alpaca_eval/claude/configs.yaml": "pair",
    "arena_hard/arena-hard-v0.1.yaml": "pair",
    "geval/coh_detailed.txt": "score",
    "geval/con_detailed.txt": "score",
    "uncertainty_rephrased/GEval/coh_detailed.txt": "score",
    "uncertainty_rephrased/GEval/flu_detailed.txt": "score",
    "uncertainty_rephrased/Reason-GEval-prompt.txt": "score",
    **{f"uncertainty_rephrased/cot{n}/{name}_detailed.txt": "score" for n in range(1, 6) for name in ("coh", "flu")},
    "judgebench/judgelm_prompt.jinja2": "pair",
    "judgebench/pandalm_prompt.jinja2": "pair",
    "judgebench/vanilla_prompt.jinja2": "pair",
    "llmbar/comparison/CoT.txt": "pair",
    "llmbar/comparison/Metrics.txt": "pair",
    "llmbar/comparison/Reference.txt": "pair",
    "llmbar/comparison/Vanilla.txt": "pair",
    "llmbar/comparison/Vanilla_1shot.txt": "pair",
    "llmbar/rating/Rating.txt": "score",
    "llmbar/rating/Rating_Metrics.txt": "score",
    "inspect_ai/model_graded_qa.json": "score",
    "wildbench/eval_template.score.v2.md": "score",
}
NAMED = {
    ("fastchat/judge_prompts.jsonl", "pair-v2"): "pair",
    ("fastchat/judge_prompts.jsonl", "pair-math-v1"): "pair",
    ("fastchat/judge_prompts.jsonl", "single-v1"): "score",
    ("fastchat/judge_prompts.jsonl", "single-math-v1"): "score",
    ("prometheus2/absolute.json", "ABSOLUTE_PROMPT"): "score",
    ("prometheus2/absolute.json", "ABSOLUTE_PROMPT_WO_REF"): "score",
    ("prometheus2/absolute.json", "ABSOLUTE_PROMPT_WO_REF_RAG"): "score",
}
WHY_NOT = {
    "fastchat/judge_prompts.jsonl": "allowed: one of pair-v2",
    "prometheus2/absolute.json": "allowed: one of ABSOLUTE_PROMPT",
    "judgebench/arena_hard_judge_prompt.jinja2": "the meaning of replies",
    "judgebench/arena_hard_judge_system_notie.jinja2": "without the candidate",
    "llmbar/auxiliary/Metrics.txt": "without the candidate",
    "llmbar/auxiliary/Reference.txt": "without the candidate",
    "openai_evals/fact.yaml": "or give verdicts",
}


@pytest.fixture(scope="module")
def prompts(shared_data):
    return shared_data / "judge_prompts"


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_is_a_protocol(prompts, name):
    protocol = bl.Protocol.from_file(prompts / name)
    assert protocol.form == WHOLE[name]
    assert all(protocol.parse(protocol.write(value))[0] == value for value in protocol.points)


@pytest.mark.parametrize(("name", "part"), NAMED)
def test_a_file_of_several_holds_each_by_name(prompts, name, part):
    protocol = bl.Protocol.from_file(prompts / name, part)
    assert (protocol.name, protocol.form) == (part, NAMED[name, part])
    assert protocol.turns[0][0] == "system"


@pytest.mark.parametrize("name", WHY_NOT)
def test_a_file_that_is_none_says_why(prompts, name):
    with pytest.raises(InputError, match=WHY_NOT[name]):
        bl.Protocol.from_file(prompts / name)


def test_every_file_is_loaded_or_explained(prompts):
    helpers = {"arena_hard/system_prompts.json", "prometheus2/parser_cases_absolute.json"}
    names = {str(path.relative_to(prompts)) for path in prompts.rglob("*") if path.is_file()}
    templates = {name for name in names if name.startswith("alpaca_eval/") and name.endswith(".txt")}
    assert names - templates - helpers == {*WHOLE, *WHY_NOT, *(name for name, _ in NAMED)}


def test_missing_fields_of_a_file_are_arguments(prompts):
    system = (prompts / "judgebench/arena_hard_judge_system_notie.jinja2").read_text()
    verdicts = {"[[A>B]]": 1, "[[B>A]]": 0}
    protocol = bl.Protocol.from_file(
        prompts / "judgebench/arena_hard_judge_prompt.jinja2", system=system, verdicts=verdicts
    )
    assert [role for role, _ in protocol.turns] == ["system", "user"]
    fact = bl.Protocol.from_file(
        prompts / "openai_evals/fact.yaml", verdicts={"A": 0.5, "B": 0.7, "C": 1, "D": 0, "E": 0.9}
    )
    assert fact.parse("The answers agree.\nC")[0] == 1
    assert fact.parse("D") == (0.0, "ok")


@pytest.mark.parametrize(
    ("annotator", "name", "n"),
    [
        ("alpaca_eval_cot_gpt4_turbo_fn", "alpaca_eval_new/cohere__alpaca_eval_cot_gpt4_turbo_fn.jsonl", 805),
        ("alpaca_eval_gpt4_turbo_fn", "alpaca_eval_new/cohere__alpaca_eval_gpt4_turbo_fn.jsonl", 805),
        ("alpaca_eval_cot_gpt4_turbo_fn", "alpaca_eval_new/alpaca-7b__alpaca_eval_cot_gpt4_turbo_fn.jsonl", 802),
        (WEIGHTED, f"alpaca_eval_new/Qwen-14B-Chat__{WEIGHTED}.jsonl", 801),
        (WEIGHTED, f"null_model/{WEIGHTED}_annotations.json", 805),
    ],
)  # fmt: skip
def test_recorded_replies_give_the_recorded_preferences(shared_data, prompts, annotator, name, n):
    protocol = bl.Protocol.from_file(prompts / f"alpaca_eval/{annotator}/configs.yaml")
    with gzip.open(shared_data / "recorded" / f"{name}.gz", "rt") as file:
        rows = json.load(file) if name.endswith(".json") else [json.loads(line) for line in file]
    readings = [(row, protocol.read(_reply(protocol, row["raw_completion"]))) for row in rows]
    readable = [(row, value) for row, (value, status) in readings if status == "ok"]
    assert len(readable) == n
    for row, first in readable:
        assert row["preference"] - 1 == pytest.approx(first if _switched(row["instruction"]) else 1 - first, abs=1e-6)


def _switched(instruction):
    """Say whether output 2 was shown first, as AlpacaEval draws it."""
    return random.Random(f"is_switched_outputs{instruction}0").choices([False, True])[0]


def _reply(protocol, raw):
    """Make a reply of what a server said; a label that it did not show is at most as likely as the last it showed."""
    if protocol.answer == "text" or not isinstance(raw, dict):
        return Reply(text=json.dumps(raw))
    shown = {each["token"]: each["logprob"] for each in raw["logprobs"]["content"][0]["top_logprobs"]}
    labels = protocol.request({"context": "", "first": "", "second": ""}).labels
    return Reply(logprobs=tuple(shown.get(label, min(shown.values())) for label in labels))


def test_replies_of_prometheus_are_read_as_its_authors_do(prompts):
    protocol = bl.Protocol.from_file(prompts / "prometheus2/absolute.json", "ABSOLUTE_PROMPT")
    for case in json.loads((prompts / "prometheus2/parser_cases_absolute.json").read_text()):
        value, _ = protocol.parse(case["text"])
        assert (None if math.isnan(value) else value) == case["expected"], case["text"]


def test_the_prompt_is_the_one_that_alpaca_eval_sends(shared_data, prompts):
    """Reconstructed by hand: slots are replaced as text, then the chat marks split messages, which are stripped."""
    protocol = bl.Protocol.from_file(prompts / "alpaca_eval/weighted_alpaca_eval_gpt4_turbo/configs.yaml")
    template = (prompts / "alpaca_eval/alpaca_eval_clf_gpt4_turbo/alpaca_eval_clf.txt").read_text()
    name = "alpaca_eval_new/Qwen-14B-Chat__weighted_alpaca_eval_gpt4_turbo.jsonl.gz"
    with gzip.open(shared_data / "recorded" / name, "rt") as file:
        rows = [json.loads(next(file)) for _ in range(10)]
    for row in rows:
        whole = template
        for slot in ("instruction", "output_1", "output_2"):
            whole = whole.replace(f"{{{slot}}}", row[slot], 1)
        expected = []
        for part in whole.split("<|im_start|>")[1:]:
            role, _, content = part.partition("\n")
            expected.append((role.strip(), content.split("<|im_end|>", 1)[0].strip()))
        shown = {"context": row["instruction"], "first": row["output_1"], "second": row["output_2"]}
        assert [tuple(message) for message in protocol.messages(shown)] == expected


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("My verdict: [[A>>B]]", 1.0),
        ("[[A>B]], or rather [[B>A]]", 0.25),
        ("a tie: [[a=b]]", 0.5),
        ("only single brackets [B>>A]", 0.0),
    ],
)
def test_arena_hard_takes_the_last_of_five_verdicts(prompts, reply, value):
    assert bl.Protocol.from_file(prompts / "arena_hard/arena-hard-v0.1.yaml").parse(reply)[0] == value


def test_fast_chat_looks_for_a_first(prompts):
    protocol = bl.Protocol.from_file(prompts / "fastchat/judge_prompts.jsonl", "pair-v2")
    assert protocol.parse("[[B]] ... no, [[A]]") == protocol.parse("[[A]] ... no, [[B]]") == (1.0, "ok")
    single = bl.Protocol.from_file(prompts / "fastchat/judge_prompts.jsonl", "single-v1")
    assert single.parse("Rating: [[7]]") == (7.0, "ok")


def test_custom_toml_file_is_a_protocol(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    protocol = bl.Protocol.from_file(path)
    assert (protocol.name, protocol.max_tokens) == ("mine", 50)
    assert protocol.parse("The winner: second") == (0.0, "ok")
    assert bl.Protocol.from_file(path, max_tokens=7).max_tokens == 7
    (tmp_path / "prompt.txt").write_text("{question} {answer_1} {answer_2}")
    path.write_text(TOML.replace(TOML.split("\n")[2], 'template_file = "prompt.txt"'))
    assert bl.Protocol.from_file(path).turns[0][1].slots == ("question", "answer_1", "answer_2")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.toml", TOML.replace("pattern", "patern"), "did you mean pattern"),
        ("a.toml", "form =", "a TOML file"),
        ("a.toml", 'form = "pair"', "a template or template_file"),
        ("a.yaml", "a: [", "a YAML file"),
        ("a.yaml", "a: 1", "a file of AlpacaEval"),
        ("a.json", "{", "a JSON file"),
        ("a.jsonl", "{}", "lines of FastChat"),
        ("a.yaml", "x: {prompt_template: gone.txt}", "a file beside"),
        ("a.txt", "\udcff", "UTF-8"),
    ],
)
def test_a_broken_file_is_explained(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=message):
        bl.Protocol.from_file(tmp_path / name)


def test_an_argument_that_is_none_is_named(tmp_path):
    (tmp_path / "mine.toml").write_text(TOML)
    with pytest.raises(InputError, match="did you mean choose"):
        bl.Protocol.from_file(tmp_path / "mine.toml", chose="first")
    with pytest.raises(InputError, match="a text file"):
        bl.Protocol.from_file(tmp_path / "gone.toml")
