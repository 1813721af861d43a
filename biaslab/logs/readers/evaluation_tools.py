r"""Formats of evaluation tools: promptfoo, DeepEval, Ragas, HELM, lm-eval, OpenAI evals and Inspect.

promptfoo (``promptfoo eval --output results.json`` or ``.jsonl``): assertions that a model graded.

The results are in ``results.results``, or one per line: ``provider`` (id, label), ``vars``, ``promptIdx``, ``response``
(output) and ``gradingResult.componentResults``, each with ``score`` (0 to 1), ``reason`` and ``assertion`` (type,
metric, provider). Assertions by code (``contains``, ``equals`` …) are left out.

promptfoo's CSV (``promptfoo eval --output results.csv``, or a download): a column of outputs for each provider.

Columns of variables are the context, and each output is headed ``[PROVIDER] prompt``. The next columns are ``Status,
Score, Named Scores, Grader Reason, Comment``; earlier versions pack these into its cell: ``[PASS] (0.80, clarity:
0.90)``, then the answer and ``Pass Reason: …``, each after an empty line. Named scores are each an attribute; an output
without them has its score, the mean over assertions. The file does not say whether a model or code gave a score.

DeepEval: test runs (``testCases``, ``metricsData``) and evaluation results (``test_results``, ``metrics_data``).

Each metric has ``name``, ``score`` (0 to 1), ``reason`` and, if graded by a model, ``evaluationModel``; metrics without
a model were computed by code and are left out. A test case has ``input`` and ``actualOutput``.

Ragas results (``result.to_pandas()`` as CSV, JSON or a frame): question, response and one column per metric.

``user_input, response`` or, before version 0.2, ``question, answer``. Model-graded metrics are recognised by their
names; other numeric columns are left out and counted. Scores that Ragas could not compute are empty. Scores range from
0 to 1, those of rubrics from 1 to 5.

HELM: statistics of instances (``per_instance_stats.json``) and judged annotations (``scenario_state.json``).

``per_instance_stats.json``: a list of ``instance_id, train_trial_index, stats``, each with ``name.name`` and ``mean``.
Only statistics known to come from a judge, such as ``wildbench_score``, are read; the others are computed by code.
``scenario_state.json``: ``adapter_spec`` and ``request_states``, whose ``annotations`` have ``NAME_score`` and
``NAME_reasoning`` for each annotator. Scores range from 0 to 1, those of WildBench from 1 to 10; other scales need
``--map scale==LOW-HIGH``.

lm-evaluation-harness: logged samples (``samples_TASK_TIME.jsonl``, from ``--log_samples``).

``doc_id, target, resps, filtered_resps, metrics``, and a number for each name in ``metrics``. These are scores of the
evaluated model, 0 to 1, by the harness or by a judge that the task calls; the file does not say which, so metrics that
the harness is known to compute are left out. The file name gives the task, the folder name the model, and the filter
becomes the configuration.

OpenAI evals (``oaieval``): events of a run; those of model-graded evals are scores.

Each line is an event: ``run_id, event_id, sample_id, type, data``. A ``metrics`` event with a ``choice`` and a
``score`` is a judge's grade of the sample; the ``sampling`` event before it contains the prompt. ``match`` events and
other metrics are computed by code and left out, as are lines about the run itself (``spec``, ``final_report``). The
score comes from ``choice_scores``, 0 to 1; other scales need ``--map scale==LOW-HIGH``.

Inspect logs (``.eval`` or JSON), read with the package ``inspect_ai`` if it is installed.

Every score is a judgement: the context is the sample, the candidate the evaluated model, the attribute the scorer, and
the replicate the epoch. C, P and I (correct, partial, incorrect) are 1, ½ and 0 on the scale "0-1"; numbers need a
``scale`` in the mapping. Each comparison by `biaslab.logs.inspect_extension.pair_graded` gives two judgements of a
pair, one per order.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from biaslab.core.errors import InputError, MissingDependencyError
from biaslab.logs.readers.containers import is_inspect as is_inspect_archive
from biaslab.logs.readers.documents import LogDocument
from biaslab.logs.readers.readings import BY_CODE, JudgedScore, field, number_of, score_trials
from biaslab.logs.readers.rows import CALL_FAILED, LogSource, Rows, at

PROMPTFOO_FIELDS = frozenset({"results"})
PROMPTFOO_LINE_FIELDS = frozenset({"gradingResult", "provider"})
_BY_MODEL = (
    "llm-rubric", "g-eval", "model-graded-closedqa", "model-graded-factuality", "factuality", "closed-qa",
    "answer-relevance", "context-faithfulness", "context-recall", "context-relevance", "conversation-relevance", "pi",
    "search-rubric", "agent-rubric",
)  # fmt: skip
_CHOICES = ("select-best", "max-score")
_FAILED = "the call failed"


def is_promptfoo(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether any record contains promptfoo results."""
    return any(
        "gradingResult" in result
        for record in records
        for result in _promptfoo_results(record)
        if isinstance(result, dict)
    )


def read_promptfoo(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per model-graded assertion."""
    return score_trials(rows, source, _promptfoo_scores, "promptfoo")


def _promptfoo_results(record: Mapping[str, Any]) -> Sequence[Any]:
    if "gradingResult" in record:
        return [record]
    results = record.get("results")
    inner = results.get("results") if isinstance(results, dict) else results
    return inner if isinstance(inner, list) else []


def _promptfoo_scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
    for result in _promptfoo_results(record):
        grading, provider = result["gradingResult"], result["provider"]
        if grading is None:
            yield _FAILED
            continue
        name = provider.get("label") or provider["id"] if isinstance(provider, dict) else provider
        prompt = result.get("promptIdx") or 0
        candidate = f"{name} (prompt {prompt})" if prompt else name
        output = (result.get("response") or {}).get("output")
        counts: Counter[str] = Counter()
        for component in grading.get("componentResults") or [grading]:
            assertion = component.get("assertion") or {}
            kind = str(assertion.get("type", "")).removeprefix("not-")
            if kind in _CHOICES:
                yield "a choice among outputs, which is no score"
                continue
            if kind not in _BY_MODEL:
                yield BY_CODE
                continue
            attribute = assertion.get("metric") or kind
            counts[attribute] += 1
            attribute = attribute if counts[attribute] == 1 else f"{attribute} {counts[attribute]}"
            grader = assertion.get("provider")
            judge = grader.get("id") if isinstance(grader, dict) else grader
            yield JudgedScore(
                result["vars"],
                candidate,
                attribute,
                component["score"],
                judge,
                reply=component.get("reason"),
                text=output,
            )


PROMPTFOO_TABLE_FIELDS: frozenset[str] = frozenset()
_BESIDE = ("Status", "Score", "Named Scores", "Grader Reason")
_PACKED = re.compile(
    r"\[(?P<status>PASS|FAIL|ERROR)\] \((?P<score>-?\d+\.\d+)(?:, (?P<named>.*?))?\)(?:\n\n(?P<rest>.*))?", re.DOTALL
)
_ONE_NAMED = re.compile(r"(.+?): (-?\d+\.\d+)(?:, |$)")
_BECAUSE = re.compile(r"(?:\A|\n\n)\s*(?:Pass|Fail) Reason: ")
_PROVIDER = re.compile(r"\[([^\]]+)\]\s")


class _PromptfooTableOutput(NamedTuple):
    """One output in a row: its text, status, score, named scores, and their reason."""

    text: str
    status: str
    score: float
    named: dict[str, Any]
    reason: str | None


def is_promptfoo_table(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether records contain outputs of promptfoo, with their status in the next column or in the same cell."""
    return any(_promptfoo_table_outputs(list(record), record) for record in records)


def read_promptfoo_table(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per output and named score."""
    return score_trials(rows, source, _promptfoo_table_scores, "promptfoo")


def _promptfoo_table_scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
    names = list(record)
    outputs = _promptfoo_table_outputs(names, record)
    if not outputs:
        raise ValueError("no output")
    variables = {name: record[name] for name in names[: outputs[0]] if name != "Description"}
    systems = _promptfoo_table_systems([names[at] for at in outputs])
    for position, system in zip(outputs, systems, strict=True):
        output = _promptfoo_table_output(names, position, record)
        if output is None or output.status == "ERROR":
            yield CALL_FAILED
            continue
        scores = output.named or {"score": output.score}
        for attribute, score in scores.items():
            yield JudgedScore(variables, system, attribute, score, reply=output.reason, text=output.text)


def _is_block(names: Sequence[str], at: int) -> bool:
    """Return whether a column of outputs is followed by those of its status, score and reason."""
    return tuple(name.partition(" #")[0] for name in names[at + 1 : at + 1 + len(_BESIDE)]) == _BESIDE


def _promptfoo_table_outputs(names: Sequence[str], record: Mapping[str, Any]) -> list[int]:
    """Return the places of columns of outputs."""
    blocks = [at for at in range(len(names)) if _is_block(names, at)]
    if blocks:
        return blocks
    cells = ((at, record[name]) for at, name in enumerate(names))
    return [at for at, cell in cells if isinstance(cell, str) and _PACKED.fullmatch(cell)]


def _promptfoo_table_output(names: Sequence[str], at: int, record: Mapping[str, Any]) -> _PromptfooTableOutput | None:
    """Return the output in a column of a row, with its status and scores; None if the provider gave none."""
    cell = record[names[at]]
    if not _is_block(names, at):
        return _unpacked(str(cell).replace("\r\n", "\n"))
    status, score, scores, reason = (record[name] for name in names[at + 1 : at + 1 + len(_BESIDE)])
    if not status:
        return None
    by_name = json.loads(scores) if scores else {}
    return _PromptfooTableOutput(str(cell or ""), str(status), number_of(score), dict(by_name), reason or None)


def _unpacked(cell: str) -> _PromptfooTableOutput | None:
    r"""Return the parts of a cell that has all.

    >>> _unpacked("[PASS] (0.80, clarity: 0.90)\n\nSo it is.\n\nPass Reason: clear")
    _PromptfooTableOutput(text='So it is.', status='PASS', score=0.8, named={'clarity': 0.9}, reason='clear')
    """
    match = _PACKED.fullmatch(cell)
    if match is None:
        return None
    named = {name: float(score) for name, score in _ONE_NAMED.findall(match["named"] or "")}
    rest = match["rest"] or ""
    because = next(reversed([*_BECAUSE.finditer(rest)]), None)
    text, reason = (rest, None) if because is None else (rest[: because.start()], rest[because.end() :])
    return _PromptfooTableOutput(text.strip(), match["status"], float(match["score"]), named, reason)


def _promptfoo_table_systems(headings: Sequence[str]) -> list[str]:
    """Return the providers of the outputs, from their headings, numbered if one has several prompts."""
    names = [_provider(heading) or f"output {at}" for at, heading in enumerate(headings, start=1)]
    seen: Counter[str] = Counter()
    systems = []
    for name in names:
        seen[name] += 1
        systems.append(name if names.count(name) == 1 else f"{name} (prompt {seen[name] - 1})")
    return systems


def _provider(heading: str) -> str | None:
    match = _PROVIDER.match(heading)
    if match is not None:
        return match[1]
    try:  # of early versions, the prompt as an object
        prompt = json.loads(heading)
    except ValueError:
        return None
    return str(prompt["provider"]) if isinstance(prompt, dict) and prompt.get("provider") else None


DEEPEVAL_FIELDS: frozenset[str] = frozenset()
_CASES = ("testCases", "test_cases", "test_results", "testResults", "conversationalTestCases")
_DEEPEVAL_METRICS = ("metricsData", "metrics_data")


def is_deepeval(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether any record is a test case with metrics, or contains one."""
    return any(
        any(isinstance(case.get(name), list) for name in _DEEPEVAL_METRICS)
        for record in records
        for case in _cases(record)
        if isinstance(case, dict)
    )


def read_deepeval(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per model-graded metric."""
    return score_trials(rows, source, _deepeval_scores, "deepeval")


def _cases(record: Mapping[str, Any]) -> Sequence[Any]:
    cases = [case for name in _CASES if isinstance(record.get(name), list) for case in record[name]]
    return cases if any(name in record for name in _CASES) else [record]


def _deepeval_scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
    candidate = at(record, "hyperparameters.model")
    for case in _cases(record):
        output = case.get("actualOutput", case.get("actual_output"))
        for metric in next((case[name] for name in _DEEPEVAL_METRICS if name in case), None) or []:
            judge = metric.get("evaluationModel", metric.get("evaluation_model"))
            if judge is None:
                yield BY_CODE
                continue
            asked = case.get("input") or case.get("turns") or case["name"]
            yield JudgedScore(asked, candidate or "response", metric["name"], metric["score"], judge,
                         reply=metric.get("reason"), text=output)  # fmt: skip


RAGAS_FIELDS: frozenset[str] = frozenset()
_QUESTION, _ANSWER = ("user_input", "question"), ("response", "answer")
#: Model-graded metrics of Ragas 0.1 to 0.3.
_RAGAS_METRICS = (
    "faithfulness", "answer_relevancy", "response_relevancy", "context_precision", "context_recall",
    "llm_context_precision_with_reference", "llm_context_precision_without_reference", "context_entity_recall",
    "noise_sensitivity_relevant", "answer_correctness", "factual_correctness",
    "noise_sensitivity", "aspect_critic", "simple_criteria",
    "harmfulness", "maliciousness", "coherence", "correctness", "conciseness",
    "nv_accuracy", "nv_context_relevance", "nv_response_groundedness",
)  # fmt: skip
_RUBRICS = {"domain_specific_rubrics", "rubrics_score", "instance_rubrics", "rubrics_based_scoring"}  # 1 to 5
_OWN = {"faithfulness", "answer_relevancy", "response_relevancy", "context_precision", "context_recall"}


def is_ragas(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether records have a question, a response and a metric specific to Ragas."""
    names = {name for record in records for name in record}
    asked = any({question, answer} <= names for question, answer in zip(_QUESTION, _ANSWER, strict=True))
    return asked and bool(_OWN & names)


def read_ragas(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per metric."""
    return score_trials(rows, source, _ragas_scores, "ragas")


def _ragas_scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
    answer = next((record[name] for name in _ANSWER if name in record), None)
    for name in record:
        metric = str(name).partition("(")[0]  # "factual_correctness(mode=f1)"
        if metric in _RAGAS_METRICS or metric in _RUBRICS:
            scale = "1-5" if metric in _RUBRICS else "0-1"
            yield JudgedScore(field(record, _QUESTION), "response", str(name), record[name], scale=scale, text=answer)
        elif not math.isnan(number_of(record[name])):
            yield f"{name} is not known as a score of a model"


HELM_FIELDS = frozenset({"instance_id", "stats"})
HELM_STATE_FIELDS = frozenset({"adapter_spec", "request_states"})
_SCALES = {"wildbench": "1-10"}
_JUDGED = ("wildbench_score", "wildbench_score_rescaled", "omni_math_accuracy", "safety_score", "safety_gpt_score",
           "safety_llama_score", "annotation_")  # fmt: skip


def read_helm(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per judged statistic."""

    def scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
        for stat in record["stats"]:
            name = stat["name"]["name"]
            if not name.startswith(_JUDGED):
                yield BY_CODE
                continue
            scale = "1-10" if name == "wildbench_score" else "0-1"
            yield JudgedScore(record["instance_id"], "model", name, stat.get("mean"), scale=scale)

    return score_trials(rows, source, scores, "helm")


def read_helm_state(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per annotator and instance."""
    return score_trials(rows, source, _annotated, "helm")


def _annotated(record: Mapping[str, Any]) -> Iterator[JudgedScore]:
    model = record["adapter_spec"].get("model") or record["adapter_spec"].get("model_deployment") or "model"
    for state in record["request_states"]:
        completions = (state.get("result") or {}).get("completions") or [{}]
        for task, annotation in (state.get("annotations") or {}).items():
            scale = _SCALES.get(task, "0-1")
            for name, score in annotation.items():
                if name != "score" and not name.endswith("_score"):
                    continue
                annotator = name.removesuffix("score").rstrip("_")
                reasons = (f"{annotator}_reasoning", "reasoning", f"{annotator}_explanation", "explanation")
                reason = next((annotation[why] for why in reasons if why in annotation), None)
                yield JudgedScore(state["instance"]["id"], model, task, score, annotator or None, scale, reason,
                             completions[0].get("text"))  # fmt: skip


LM_EVAL_FIELDS = frozenset({"doc_id", "resps", "metrics"})
_LM_EVAL_NAME = re.compile(r"samples_(?P<task>.+?)(?:_\d{4}-\d\d-\d\dT[\d.:-]+)?\.jsonl?")


#: Metrics that the harness computes itself.
_BY_CODE = re.compile(
    r"(?:exact_match|em|acc|acc_.*|f1|bleu.*|rouge.*|chrf.*|ter|mcc|perplexity|(?:word|byte)_perplexity|bits_per_byte"
    r"|mc[12]|brier_score|likelihood_diff|pct_stereotype|pass@\d+|(?:prompt|inst)_level_.*|wer|contains)(?:,.*)?$"
)


def read_lm_eval(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per metric and sample."""
    folder, _, file = source.file.rpartition("/")
    named = _LM_EVAL_NAME.match(file)
    model = folder.rpartition("/")[2] or "model"

    def scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
        replies = record.get("filtered_resps") or [None]
        replies = replies[0] if isinstance(replies, list) else replies
        for metric in record["metrics"]:
            if _BY_CODE.match(metric):
                yield BY_CODE
                continue
            yield JudgedScore(record["doc_id"], model, metric, record[metric], reply=replies, text=replies,
                         configuration=str(record.get("filter") or "recorded"))  # fmt: skip

    return score_trials(rows, source, scores, "lm_eval").assign(dataset=named["task"] if named else "lm_eval")


OPENAI_EVALS_FIELDS = frozenset({"run_id", "event_id", "sample_id", "type", "data"})
_OF_THE_RUN = "a line about the run or a call, not a judgement"


def read_openai_evals(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per grade given by a model."""
    return score_trials(rows, source, _openai_evals_scores, "openai_evals")


def _openai_evals_scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
    data = record.get("data")
    if not isinstance(data, dict) or record.get("type") == "sampling":
        yield _OF_THE_RUN
    elif record.get("type") != "metrics" or "choice" not in data:
        yield BY_CODE
    else:
        task, _, _ = str(record["sample_id"]).rpartition(".")
        yield JudgedScore(
            record["sample_id"], "completion", task or "overall", data["score"], reply=str(data["choice"])
        )


PAIR = "biaslab_pair"
"""Metadata field of a score that contains the comparison in both orders."""

GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WINNERS = {1.0: "first", 0.0: "second", 0.5: "tie"}


def is_inspect(document: LogDocument) -> bool:
    """Return whether a file is an Inspect log."""
    if document.data.startswith(b"PK\x03\x04"):
        return is_inspect_archive(document.data)
    head = document.data[:4096]
    return head.lstrip()[:1] == b"{" and b'"eval"' in head and b'"version"' in head and not _is_lines(document.data)


def _is_lines(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data.lstrip().partition(b"\n")[0]), dict) and b"\n" in data.strip()
    except ValueError:
        return False


def read_records(document: LogDocument) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the sample number and one record per score.

    Raises
    ------
    MissingDependencyError
        If ``inspect_ai`` is not installed.
    InputError
        If it cannot read the log.
    """
    try:
        from inspect_ai.log import read_eval_log  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise MissingDependencyError(
            "reading Inspect logs needs the package inspect_ai: pip install inspect_ai"
        ) from error
    suffix = ".eval" if document.data.startswith(b"PK") else ".json"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"log{suffix}"
        file.write_bytes(document.data)
        try:
            log = read_eval_log(str(file))
        except Exception as error:  # any error of the other package on a damaged file
            raise InputError(
                "path", document.name, f"a valid Inspect log ({type(error).__name__})", "download it again"
            ) from error
    for number, sample in enumerate(log.samples or [], start=1):
        for scorer, score in (sample.scores or {}).items():
            kept = (score.metadata or {}).get(PAIR)
            if isinstance(kept, dict):
                about = {"context_id": str(sample.id), "replicate": sample.epoch - 1, "attribute": scorer}
                about |= {"dataset": str(log.eval.task), "judge": kept.get("judge")}
                yield from ((number, record) for record in pair_records(kept, about, str(log.eval.model)))
            else:
                yield number, _record(log, sample, scorer, score)


def pair_records(kept: Mapping[str, Any], about: Mapping[str, Any], answer: str) -> list[dict[str, Any]]:
    """Return the two judgements of a pair: with the answer shown first, and with it shown second.

    Parameters
    ----------
    kept : mapping
        ``opponent``, the name of the other answer; ``first``, the probability that the answer shown first won, in each
        order; ``words, opponent_words, human_gap``.
    about : mapping
        Columns shared by both judgements.
    answer : str
        The name of the answer.

    Examples
    --------
    >>> [(one["candidate_id"], one["winner"]) for one in pair_records({"opponent": "x", "first": [1.0, 0.5]}, {}, "me")]
    [('me', 'first'), ('x', 'tie')]
    """
    sides, words = (answer, str(kept.get("opponent"))), (kept.get("words"), kept.get("opponent_words"))
    gap, values = kept.get("human_gap"), kept.get("first")
    records = []
    for value, (one, two), sign in zip(
        values if isinstance(values, list) else (), ((0, 1), (1, 0)), (1, -1), strict=False
    ):
        shown = {"candidate_id": sides[one], "opponent_id": sides[two]}
        lengths = {"words": words[one], "opponent_words": words[two]}
        gaps = {"human_gap": sign * gap if isinstance(gap, int | float) else None}
        records.append({**about, **shown, **lengths, **gaps, "winner": _WINNERS.get(value)})
    return records


def _record(log: Any, sample: Any, scorer: str, score: Any) -> dict[str, Any]:
    graded = isinstance(score.value, str) and score.value in GRADES
    value = GRADES[score.value] if graded else score.value
    record = {
        "context_id": str(sample.id),
        "candidate_id": str(log.eval.model),
        "replicate": sample.epoch - 1,
        "attribute": scorer,
        "judge": _grader(log, scorer),
        "dataset": str(log.eval.task),
        "score": value if isinstance(value, int | float) and not isinstance(value, bool) else None,
        "said": score.explanation or score.answer,
    }
    return record | ({"scale": "0-1"} if graded else {})


def _grader(log: Any, scorer: str) -> str:
    """Return the model that a scorer asks, or the scorer itself if the log names none."""
    roles = getattr(log.eval, "model_roles", None) or {}
    role = roles.get("grader")
    options = next((s.options or {} for s in (log.eval.scorers or []) if s.name == scorer), {})
    named = options.get("model") or getattr(role, "model", None)
    named = named.get("model") if isinstance(named, dict) else named
    return str(named) if named else f"inspect/{scorer}"
