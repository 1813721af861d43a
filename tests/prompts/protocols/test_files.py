"""Judge prompts in the formats in which people keep them, and recorded replies read by them alone."""

import gzip
import json
import math
import random
from dataclasses import replace

import pytest

import biaslab as bl
from biaslab.core import Reply
from biaslab.core.errors import InputError
from biaslab.prompts.parsing import parse_choice

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
    "judgebench/arena_hard_judge_system_notie.jinja2": "does not show the candidate",
    "llmbar/auxiliary/Metrics.txt": "does not show the candidate",
    "llmbar/auxiliary/Reference.txt": "does not show the candidate",
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
        full = template
        for slot in ("instruction", "output_1", "output_2"):
            full = full.replace(f"{{{slot}}}", row[slot], 1)
        expected = []
        for part in full.split("<|im_start|>")[1:]:
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
        ("a.yaml", "x: {prompt_template: gone.txt}", "a file in"),
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


CHAT = (
    "<|im_start|>system\nPick.\n<|im_end|>\n<|im_start|>user\nQ {instruction}\nm {output_1}\nM {output_2}\n<|im_end|>"
)
LLAMA = (
    "<|start_header_id|>system<|end_header_id|>\n\nPick.<|eot_id|><|start_header_id|>user<|end_header_id|><|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nQ {instruction}\n{output_1}\n{output_2}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n\n"
)
FIRST, SECOND = '{"model": "m", "rank": 1}', '{"model": "m", "rank": 2}'


@pytest.fixture
def annotator(tmp_path):
    def write(parser, options, template=CHAT, **more):
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine/prompt.txt").write_text(template)
        config = {"prompt_template": "mine/prompt.txt", "completions_kwargs": {"max_new_tokens": 7}, **more}
        config |= {"fn_completion_parser": parser} | ({"completion_parser_kwargs": options} if options else {})
        (tmp_path / "mine/configs.yaml").write_text(json.dumps({"mine": config}))  # JSON is YAML
        return tmp_path / "mine"

    return write


def reading(protocol, text):
    value, status = protocol.parse(text)
    return status if math.isnan(value) else value


def test_an_annotator_is_a_folder_and_its_limit_has_many_names(annotator):
    protocol = bl.Protocol.from_file(annotator("ranking_parser", {"model_1_name": "m"}))
    assert (protocol.name, protocol.max_tokens, protocol.choose) == ("mine", 7, "single")


@pytest.mark.parametrize(
    ("parser", "options", "readings"),
    [
        ("ranking_parser", {"model_1_name": "m"},  # all of the completion, as a Python literal
         {f"[{FIRST}]": 1, f"[{SECOND}]".replace('"', "'"): 0, f"So: [{FIRST}]": "off_format",
          '[{"model": "m", "rank": 3}]': "off_format"}),
        ("pipeline_meta_parser",
         {"parsers_to_kwargs": {"json_parser": {"annotation_key": "order"}, "ranking_parser": {"model_1_name": "m"}}},
         {f'{{"order": [{SECOND}]}}': 0, f'So ```json\n{{"order": [{FIRST}]}}\n```': 1,
          f'So {{"order": [{FIRST}]}}': "off_format"}),
        ("pipeline_meta_parser",
         {"parsers_to_kwargs": {"json_parser": {"annotation_key": "best"},
                                "replace_parser": {"replacer": {"A": 1, "B": 2}}}},
         {'{"best": "B"}': 0, '{"best": "C"}': "off_format"}),
        ("json_parser", {"annotation_key": "best"}, {'{"best": 1}': 1, '{"best": 2}': 0}),
        ("lmsys_parser", {}, {"8 7\nSince": 1, "7,8": 0, "7.5 7.5": 0.5, "7, 8": "off_format", "So 8 7": "off_format"}),
        ("regex_parser", {"outputs_to_match": {1: "first wins", 2: "second wins", 0: "draw"}},
         {"first wins": 1, "second wins": 0, "draw": 0.5, "draw, or first wins": "ambiguous"}),
        ("regex_parser", {"outputs_to_match": {1: r"(?:^|\n) ?Out \(a\)", 2: r"(?:^|\n) ?Out \(b\)"}},
         {"Out (a)": 1, "So\nOut (b)": 0, "Out (a) Out (b)": "ambiguous", "So Out (a)": "off_format"}),
        ("regex_parser", {"outputs_to_match": {1: "[[A]]", 2: "[[B]]"}},  # sets of letters, which read what they should
         {"[[A]]": 1, "[[B]]": 0, "[[A]] or [[B]]": "ambiguous"}),
        ("logprob_parser", {"numerator_token": "m", "denominator_tokens": ["m", "M"], "log_prob_index": -1},
         {"M is short.\nm": 1, "m is long. So M": 0, "m is long. So M.": "off_format"}),
    ],
)  # fmt: skip
def test_a_completion_is_read_as_its_parser_reads_it(annotator, parser, options, readings):
    protocol = bl.Protocol.from_file(annotator(parser, options))
    assert {text: reading(protocol, text) for text in readings} == readings


def test_prompt_that_asks_for_reasons_first_is_answered_as_text(annotator):
    options = {"numerator_token": "m", "denominator_tokens": ["m", "M"], "log_prob_index": -1}
    template = CHAT.replace("Pick.", "Start with an explanation, then m or M.")
    assert bl.Protocol.from_file(annotator("logprob_parser", options, template)).answer == "text"


def test_chat_marks_of_other_models_split_a_prompt(annotator):
    """Empty turns, and the mark after which a reply begins, are no messages."""
    protocol = bl.Protocol.from_file(annotator("ranking_parser", {}, LLAMA))
    shown = {"context": "Why?", "first": "Because.", "second": "<|eot_id|>"}
    expected = [("system", "Pick."), ("user", "Q Why?\nBecause.\n<|eot_id|>")]
    assert [tuple(message) for message in protocol.messages(shown)] == expected
    phi = "<|system|>\nPick.<|end|>\n<|user|>\n{question} {answer_a} {answer_b}<|end|>\n<|assistant|>\n"
    made = bl.Protocol.from_template(phi, verdicts={"[[A]]": 1, "[[B]]": 0})
    assert [role for role, _ in made.turns] == ["system", "user"]
    open_ended = CHAT + "\n<|im_start|>assistant\n"
    assert [role for role, _ in bl.Protocol.from_file(annotator("lmsys_parser", {}, open_ended)).turns][-1] == "user"


@pytest.mark.parametrize(
    ("parser", "options", "more", "message"),
    [
        ("regex_parser", {"outputs_to_match": {1: "a", 2: "b"}}, {"batch_size": 5}, "batch_size is 5"),
        ("regex_parser", None, {}, "options with outputs_to_match"),
        ("regex_parser", {"outputs_to_match": {1: "a", 5: "b"}}, {}, "preference is .5"),
        ("eval_parser", {}, {}, "one of regex_parser"),
    ],
)
def test_an_annotator_that_cannot_be_used_says_why(annotator, parser, options, more, message):
    with pytest.raises(InputError, match=message):
        bl.Protocol.from_file(annotator(parser, options, **more))


PAIR = "{question}\n\n1: {answer_a}\n\n2: {answer_b}\n\n"
TEXTS = {
    "letters.txt": (PAIR + 'End with "[[A]]", "[[B]]" or, for a tie, "[[C]]".', "pair", {"So [[B]]": 0, "[[C]]": 0.5}),
    "grades.jinja2": (
        "{{prompt}} {{answer_a}} {{answer_b}}: [[A>>B]], [[A>B]], [[A=B]], [[B>A]] or [[B>>A]]", "pair",
        {"[[ B>A ]]": 0.25, "[[A>>B]] or [[A=B]]": 0.5, "[[A]]": "off_format"},
    ),
    "no ties.txt": (PAIR + "[[A>B]] or [[B>A]]", "pair", {"[[A>B]]": 1, "[[B>A]]": 0}),
    "relative.txt": (
        "{instruction} {response_A} {response_B} {rubric}: (feedback) [RESULT] (A or B)", "pair",
        {"A is short. [RESULT] B": 0, "So [Response A]": 1, "[Result] Response B": 0, "[RESULT: A]": 1,
         "I prefer Response B.": "off_format", "[RESULT] (A or B)": "off_format", "[RESULT] A [RESULT] B": 1},
    ),
    "absolute.txt": ("{instruction} {response} {rubric}: (feedback) [RESULT] (1 to 5)", "score", {"[RESULT] 4/5": 4}),
    "decision.txt": (
        "{query} {response} {response_another} So, the final decision is Response 1 / Response 2 / Tie", "pair",
        {"Response 1 is long. So, the final decision is Response 2.": 0, "Response 1 is better": "off_format"},
    ),
    "choice.md": (
        '{$user_query} {$candidate_A} {$candidate_B}: {"choice": "[A++ or A+ or A=B or B+ or B++]"}', "pair",
        {'{"why": "short", "choice": "A++"}': 1, '```\n{"choice": "B+",\n}\n```': 0.25},
    ),
    "messages.json": (
        json.dumps([{"role": "system", "content": "Be fair."}, {"role": "user", "content": PAIR + "[[A]] or [[B]]"}]),
        "pair", {"[[A]]": 1},
    ),
    "classes.yaml": (
        json.dumps({"prompt": "{input} {completion}", "choice_strings": "12345", "choice_scores": "from_strings"}),
        "score", {"4": 4, "2, since 4 is too much": 2},
    ),
    "reasons.yaml": (
        json.dumps({"x": {"prompt": "{input} {completion}", "choice_strings": "YN", "choice_scores": {"Y": 1, "N": 0},
                          "eval_type": "cot_classify"}}), "score", {"It is so.\nN\nOr rather:\nY": 1},
    ),
    "battle.yaml": (
        json.dumps({"prompt": "{input1} {completion1} {input2} {completion2}", "choice_strings": ["Yes", "No"],
                    "choice_scores": {"Yes": 1, "No": 0}}), "pair", {"Yes": 1, "No": 0},
    ),
    "old.yaml": (
        json.dumps({"regex_pattern": r"\[\[([AB<>=]+)\]\]", "system_prompt": "Be fair.",
                    "prompt_template": ["{question_1} {answer_1} {answer_2}"]}),
        "pair", {"[[A>B]] [[A>B]]": 0.75, "[[A>B]] [[B>A]]": "ambiguous"},
    ),
    "both.jsonl": (
        json.dumps({"name": "p", "prompt_template": PAIR, "output_format": "[[rating_a,rating_b]]"}),
        "pair", {"[[8,7]]": 1, "[[7, 9]]": 0, "[[7,7]]": 0.5},
    ),
    "graded.json": (
        json.dumps({"template": "{question} {answer} {criterion}", "grade_pattern": r"(?i)GRADE\s*:\s*([CPI])(.*)$"}),
        "score", {"GRADE: C": 1, "grade: P, partly": 0.5},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_prompt_that_says_how_replies_look_needs_nothing_else(tmp_path, name):
    text, form, readings = TEXTS[name]
    (tmp_path / name).write_text(text)
    protocol = bl.Protocol.from_file(tmp_path / name)
    assert protocol.form == form
    assert {text: reading(protocol, text) for text in readings} == readings


def test_choice_from_n_is_a_list_in_the_authors_format(tmp_path):
    document = {"prompt": "Which of {n}? {input}\n{completion}", "choice_strings": "from_n"}
    (tmp_path / "best.yaml").write_text(
        json.dumps(document | {"completion_sample_templates": {"completion": "{i}. {output}\n"}})
    )
    protocol = bl.Protocol.from_file(tmp_path / "best.yaml")
    shown = {"k": "2", "context": "Why?", "candidates": protocol.candidates(["Because.", "{{ k }}"])}
    assert protocol.messages(shown)[0].content == "Which of 2? Why?\n1. Because.\n2. {{ k }}\n"
    assert protocol.parse_list("2", 2) == ((0, 1), "ok")


@pytest.mark.parametrize(
    ("template", "shows"),
    [
        ("{instruction} {input} {output_1} {output_2}", {"instruction": "context", "input": "input"}),
        ("{input} {prediction} {prediction_b}", {"prediction": "first", "prediction_b": "second"}),
        ("{prompt} {response} {response_another}", {"response": "first", "response_another": "second"}),
        ("{question} {assistant_a_answer} {assistant_b_answer}", {"assistant_b_answer": "second"}),
        ("{question_1} {answerA} {answerB}", {"question_1": "context", "answerA": "first"}),
    ],
)
def test_slots_show_what_their_names_say_and_no_two_the_context(template, shows):
    variables = dict(bl.Protocol.from_template(template, verdicts={"[[A]]": 1, "[[B]]": 0}).variables)
    assert shows.items() <= variables.items()
    assert list(variables.values()).count("context") == 1


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("A", 1), ("B.", 0), ("**A**", 1), ("Answer: B", 0), ("The answer is A.", 1),
        ("A is better than B.", 1), ("I prefer B over A", 0), ("B\n\nA is worse, since it is long.", 0),
        ("A: short\nB: long\n\nVerdict: A", 1), ("A is worse.", "ambiguous"), ("Neither A nor B", "ambiguous"),
        ("I'm sorry, I cannot compare A and B.", "refused"), ("a", "off_format"), ("", "off_format"),
    ],
)  # fmt: skip
def test_single_letter_label_counts_only_as_a_decision(text, read):
    protocol = bl.Protocol.from_template(PAIR, verdicts={"A": 1, "B": 0})
    assert reading(protocol, text) == read


def test_several_labels_may_have_one_meaning():
    words = bl.Protocol.from_template("{question} {answer}", "score", verdicts={"good": 1, "great": 1, "bad": 0})
    assert [reading(words, text) for text in ("This is great work overall", "Overall: bad")] == [1, 0]


def test_custom_parser_is_called_once_per_reply():
    seen = []
    mine = bl.Protocol.from_template(
        PAIR, parse=lambda text: seen.append(text) or float("A" in text), verdicts={"A": 1, "B": 0}
    )
    seen.clear()
    assert mine.parse("A it is") == (1.0, "ok")
    assert seen == ["A it is"]


def test_last_label_counts_if_marked_and_first_if_chosen():
    marked = bl.Protocol.from_template(PAIR, verdicts={"[[A]]": 1, "[[B]]": 0})
    assert marked.parse("[[A]] is better than [[B]]") == (0.0, "ok")
    first = bl.Protocol.from_template(PAIR, verdicts={"A": 1, "B": 0}, choose="first")
    assert first.parse("B is worse than A") == (0.0, "ok")


def test_verdicts_may_differ_by_case_only():
    words = bl.Protocol.from_template(PAIR, verdicts={"m": 1, "M": 0})
    readings = {"m": 1, "**M**": 0, "The best is M.": 0, "M is better than m": "ambiguous"}
    assert {text: reading(words, text) for text in readings} == readings
    assert [parse_choice(text, ("m", "M"))[0] for text in ("m", "M")] == [0, 1]
    protocol = bl.Protocol.from_template(PAIR, verdicts={"m": 1, "M": 0}, json="best")
    assert (protocol.parse('{"best": "m"}')[0], protocol.parse('{"best": "M"}')[0]) == (1, 0)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("So: {'score': 4}, I think.", 4),
        ('```\n{"why": "it is short, clear", "score": 4,\n}\n```', 4),
        ("{“score”: 4}", 4),
        ('[{"score": 4}]', 4),
        ('<tool_call>{"name": "rate", "arguments": {"score": 4}}</tool_call>', 4),
        ('{"score": "4/5"}', "off_format"),
        ('{"score": [4, 2]}', "off_format"),
        (r"So: {'score': 4, 'why': '\d'}", 4),
        ("1if 2else 3", "off_format"),
    ],
)
def test_json_is_read_as_models_write_it(text, score, recwarn):
    protocol = bl.Protocol.from_template("{question} {answer}", "score", scale="1-5", json="score")
    assert reading(protocol, text) == score
    assert not recwarn.list


def test_reply_cut_off_between_verdicts_has_none():
    """As of a model whose prompt opens a thought, which no tag shows until it ends."""
    protocol = bl.Protocol.from_template(PAIR, verdicts={"[[A]]": 1, "[[B]]": 0})
    weighs = bl.Reply(text="Is it [[A]]? Or rather [[B]], since", finish_reason="length")
    assert protocol.read(weighs)[1] == "cut_off"
    assert protocol.read(replace(weighs, finish_reason="stop")) == (0.0, "ok")
    assert protocol.read(replace(weighs, text="[[A]], since the other is")) == (1.0, "ok")
    ranking = bl.Protocol.from_template("{question} {candidates}", "list", replies="order")
    assert ranking.read_list(replace(weighs, text="[1] > [2]? Or [2] > [1]"), 2)[1] == "cut_off"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([{"role": "judge", "content": "x"}], "role is 'judge'"),
        ([{"role": "user", "content": [{"text": "x"}]}], "a content that is a text"),
        ({"messages": "x"}, "does not show the candidate"),
    ],
)
def test_messages_that_cannot_be_sent_are_refused(tmp_path, document, message):
    (tmp_path / "mine.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        bl.Protocol.from_file(tmp_path / "mine.json")
