"""Metrics for Inspect (https://inspect.aisi.org.uk): position and length bias of a model-graded scorer.

Length bias can be measured for any scorer; position bias needs one that compares two answers in both orders, such as
`pair_graded`, whose logs `biaslab.read_judgements` can read.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core.errors import InputError, MissingDependencyError
from biaslab.core.schema import count_words
from biaslab.logs.audit import audit
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.inspect_logs import GRADES, PAIR, pair_records
from biaslab.probes.verbosity import Verbosity
from biaslab.prompts.protocols import Protocol
from biaslab.stats.correlation import estimate_correlation
from biaslab.stats.resample import Resampling

try:
    import inspect_ai.model as inspect_model  # type: ignore[import-not-found, unused-ignore]
    import inspect_ai.scorer as inspect_scorer  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    inspect_model = inspect_scorer = None

__all__ = ["length_bias", "pair_graded", "position_bias"]

Numbers = dict[str, float]
_POSITION = ("first_position_rate", "order_consistency")
_LENGTH = ("longer_wins_at_equal_gold", "longer_wins")
_VERBOSITY = ("verbosity_excess",)


def _require_inspect() -> None:
    if inspect_scorer is None:
        raise MissingDependencyError("metrics and scorers for Inspect need its package: pip install inspect_ai")


def _metric(factory: Callable[..., Any]) -> Callable[..., Any]:
    """Register a metric that sees every epoch, if Inspect is installed."""
    if inspect_scorer is None:
        return factory
    try:
        return inspect_scorer.metric(scores="unreduced")(factory)  # type: ignore[no-any-return, unused-ignore]
    except TypeError:  # older releases lack the option
        return inspect_scorer.metric(factory)  # type: ignore[no-any-return, unused-ignore]


def _scorer(factory: Callable[..., Any]) -> Callable[..., Any]:
    """Register a scorer with its metrics."""
    if inspect_scorer is None:
        return factory
    metrics = [inspect_scorer.mean(), inspect_scorer.stderr(), position_bias(), length_bias()]
    return inspect_scorer.scorer(metrics=metrics)(factory)  # type: ignore[no-any-return, unused-ignore]


@_metric
def position_bias() -> Callable[[list[Any]], Numbers]:
    """Inspect metric: position bias of a scorer that compares in both orders.

    Returns
    -------
    metric
        For `pair_graded`: ``first_position_rate``, the share of decisions, ties excluded, for the answer shown first
        (null 0.5), and ``order_consistency``, the share of pairs with the same decision in both orders. Each with its
        95 % interval over samples, ``…_low`` and ``…_high``; NaN, with a warning, if no pair can be read.

    Raises
    ------
    MissingDependencyError
        If ``inspect_ai`` is not installed.
    """
    _require_inspect()

    def metric(scores: list[Any]) -> Numbers:
        if not scores:  # before the first sample
            return {}
        return _audited(_pairs(scores), ["position"], _POSITION, "no score contains a pair; use pair_graded")

    return metric


@_metric
def length_bias(human: str | None = None) -> Callable[[list[Any]], Numbers]:
    """Inspect metric: length bias, the association of a scorer's scores with the length of the answers.

    Parameters
    ----------
    human : str, optional
        Metadata field of the sample with a human score of the answer, to control for quality. For pairs, pass it to
        `pair_graded` instead.

    Returns
    -------
    metric
        For single answers ``length_correlation``, Spearman's ρ between score and word count over samples, which is not
        a bias by itself because longer answers may be better; with ``human``, also ``verbosity_excess``, the scorer's ρ
        with length minus that of humans. For pairs ``longer_wins`` and, with human preferences,
        ``longer_wins_at_equal_gold`` (null 0.5). Each with its 95 % interval over samples, ``…_low`` and ``…_high``.

    Raises
    ------
    MissingDependencyError
        If ``inspect_ai`` is not installed.

    Examples
    --------
    >>> metrics = [accuracy(), stderr(), length_bias(human="rating")]    # doctest: +SKIP
    >>> Task(data, scorer=model_graded_qa(), metrics=metrics)    # doctest: +SKIP
    """
    _require_inspect()

    def metric(scores: list[Any]) -> Numbers:
        if not scores:  # before the first sample
            return {}
        pairs = _pairs(scores)
        if len(pairs):
            return _audited(pairs, ["pair_length"], _LENGTH, "no decision between texts of different length")
        answers = _answers(scores, human)
        return _correlation(answers) | ({} if human is None else _excess(answers, human))

    return metric


@_scorer
def pair_graded(
    against: str,
    template: str | None = None,
    verdicts: Mapping[str, float] | None = None,
    pattern: str | None = None,
    model: Any = None,
    model_role: str | None = "grader",
    human: str | None = None,
) -> Callable[..., Any]:
    """Inspect scorer: a model compares the answer with another one in both orders.

    Parameters
    ----------
    against : str
        Metadata field of the sample with the other answer.
    template : str, optional
        The prompt, with slots for the question and both answers; see `biaslab.Protocol.from_template`.
    verdicts : mapping of str to float, optional
        For your own template, the meaning of each verdict: probability that the answer shown first wins, ½ for a tie.
    pattern : str, optional
        For your own template, a regular expression whose single group captures the verdict.
    model : str or Model, optional
        The model that compares; overrides ``model_role``.
    model_role : str, optional
        Role of the model that compares; if no model has it, the evaluated model compares, as in Inspect's own scorers.
    human : str, optional
        Metadata field of the sample with the human score of the answer minus that of the other one: above 0 if people
        prefer the answer.

    Returns
    -------
    scorer
        Gives the mean preference for the answer over both orders, 0 to 1; NaN if a reply cannot be read. Its metrics
        are mean, stderr, `position_bias` and `length_bias`.

    Raises
    ------
    InputError
        If a sample has no other answer, or the template is invalid.
    MissingDependencyError
        If ``inspect_ai`` is not installed.
    """
    _require_inspect()
    if template is None:
        protocol = Protocol.from_file(Path(__file__).with_name("inspect_pair.toml"))
    else:
        protocol = Protocol.from_template(template, verdicts=verdicts, pattern=pattern)

    async def score(state: Any, target: Any) -> Any:
        """Compare the answer with the other one in both orders; the value is its mean win probability."""
        own, other = state.output.completion, _metadata(state.metadata, against)
        grader = inspect_model.get_model(model) if model is not None else inspect_model.get_model(role=model_role)
        read = []
        for first, second in ((own, other), (other, own)):
            shown = {"context": state.input_text, "first": first, "second": second, "reference": target.text}
            turns = [_turn(message.role, message.content) for message in protocol.messages(shown)]
            reply = (await grader.generate(turns)).completion
            read.append((*protocol.parse(reply), reply))
        kept = {
            "opponent": against,
            "judge": str(grader),
            "first": [value if status in ("ok", "tie") else None for value, status, _ in read],
            "words": count_words(own),
            "opponent_words": count_words(other),
            "human_gap": None if human is None else float(_metadata(state.metadata, human)),
        }
        value = (read[0][0] + 1 - read[1][0]) / 2
        replies = zip(("first", "second"), read, strict=True)
        reply = "\n\n".join(f"Shown {place}:\n{text}" for place, (*_, text) in replies)
        return inspect_scorer.Score(value=value, answer=own, explanation=reply, metadata={PAIR: kept})

    return score


def _metadata(metadata: Mapping[str, Any], name: str) -> Any:
    if metadata.get(name) is None:
        raise InputError("metadata", name, f"a field of every sample's metadata: {', '.join(map(str, metadata))}")
    return metadata[name]


def _turn(role: str, content: str) -> Any:
    kinds = {"system": inspect_model.ChatMessageSystem, "assistant": inspect_model.ChatMessageAssistant}
    return kinds.get(role, inspect_model.ChatMessageUser)(content=content)


def _pairs(scores: Sequence[Any]) -> pd.DataFrame:
    """Return the judgements of pairs in the scores, as trials."""
    records = []
    for each in scores:
        kept = (each.score.metadata or {}).get(PAIR)
        if kept is not None:
            about = {"context_id": str(each.sample_id), "dataset": "task"}
            records += pair_records(kept, about, "answer")
    return read_judgements(pd.DataFrame(records), mapping={"replicate": "=#"}) if records else pd.DataFrame()


def _answers(scores: Sequence[Any], human: str | None) -> pd.DataFrame:
    """Return the scores of single answers as trials, dropping answers without a numeric score or a text."""
    rows = []
    for each in scores:
        value = each.score.value
        value = GRADES.get(value, value) if isinstance(value, str) else value
        number = isinstance(value, int | float) and math.isfinite(value)
        if number and each.score.answer:
            rated = (each.sample_metadata or {}).get(human) if human is not None else None
            rows.append((str(each.sample_id), float(value), count_words(each.score.answer), rated))
    frame = pd.DataFrame(rows, columns=["context_id", "score", "words", "human"])
    frame["human"] = pd.to_numeric(frame["human"], errors="coerce")
    if frame.empty:
        return frame
    scales = {}
    for name, column in (("scale", "score"), ("human_scale", "human")):
        low, high = frame[column].min(), frame[column].max()
        scales[name] = f"{low:g}-{high:g}" if low < 0 or high > 1 else "0-1"
    return read_judgements(frame.assign(candidate_id="answer", **scales), mapping={"replicate": "=#"})


def _audited(trials: pd.DataFrame, only: Sequence[str], metrics: Sequence[str], lacking: str) -> Numbers:
    """Audit trials with one probe and return its metrics with their intervals."""
    estimates = audit(trials, only=only, breakdowns=False) if len(trials) else pd.DataFrame()
    return _named(estimates, metrics, f"{only[0]} is not estimated: {lacking}")


def _excess(answers: pd.DataFrame, human: str) -> Numbers:
    """Return the scorer's ρ with length minus that of humans, over all answers because each sample has only one."""
    probe = Verbosity(level="dataset")
    accepted = probe.accepts(answers).trials if len(answers) else answers
    estimates = probe.estimate(accepted) if len(accepted) else pd.DataFrame()
    return _named(estimates, _VERBOSITY, f"verbosity is not estimated: no human score in {human!r}")


def _correlation(answers: pd.DataFrame) -> Numbers:
    """Return the correlation of score and word count with its interval."""
    if answers.empty:
        return _named(answers, ("length_correlation",), "length bias is not estimated: no numeric score")
    correlation = estimate_correlation(answers, "words", "value", Resampling(), level="dataset")
    return _with_interval("length_correlation", correlation.estimate, correlation.ci_low, correlation.ci_high)


def _named(estimates: pd.DataFrame, metrics: Sequence[str], lacking: str) -> Numbers:
    """Return the estimates of some metrics with their intervals; NaN, with a warning, if none is there."""
    rows = estimates.drop_duplicates("metric").set_index("metric") if len(estimates) else estimates
    if not (known := [metric for metric in metrics if metric in rows.index]):
        warnings.warn(lacking, stacklevel=2)
        return _with_interval(metrics[0], math.nan, math.nan, math.nan)
    numbers: Numbers = {}
    for metric in known:
        numbers |= _with_interval(metric, *(float(rows[name][metric]) for name in ("estimate", "ci_low", "ci_high")))
    return numbers


def _with_interval(name: str, estimate: float, low: float, high: float) -> Numbers:
    return {name: estimate, f"{name}_low": low, f"{name}_high": high}
