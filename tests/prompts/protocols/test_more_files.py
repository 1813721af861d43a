"""Judge prompts of more kinds, as packages keep them: annotators' parsers, chat marks, marks of verdicts, messages."""

import json
import math
from dataclasses import replace

import pytest

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.prompts.parsing import parse_choice

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
        ({"messages": "x"}, "without the candidate"),
    ],
)
def test_messages_that_cannot_be_sent_are_refused(tmp_path, document, message):
    (tmp_path / "mine.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        bl.Protocol.from_file(tmp_path / "mine.json")
