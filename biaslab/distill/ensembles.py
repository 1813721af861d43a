"""Combine evaluators, and use one or several as a judge that answers `Score` requests."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, TypedDict

import numpy as np

from biaslab.core.arrays import Floats
from biaslab.core.checks import is_there
from biaslab.core.errors import InputError, JudgeError, ModelLoadError
from biaslab.core.interfaces import BaseJudge, require_kinds
from biaslab.core.output import AnyPath, replacing
from biaslab.core.requests import Request, Score
from biaslab.core.trials import Reply
from biaslab.distill.annotation import MULTIPLE
from biaslab.distill.evaluator import CARD, Evaluator, load_evaluator, read_json
from biaslab.distill.settings import ScorePoint, Texts

FOLDS = "folds.json"


class Folds(TypedDict):
    """Content of ``folds.json``: number of evaluators, and which of them were not trained on a text."""

    format: Literal["biaslab cross-fitted evaluators 1"]
    folds: int
    held_out: dict[str, list[int]]


class Evaluators:
    """Cross-fitted evaluators of one attribute: each judges the contexts on which it was not trained.

    Parameters
    ----------
    folds : sequence of Evaluator
        One per fold, for each of the repeats.
    held_out : mapping of str to sequence of int
        Fingerprint of a source, and of a text → indices of the evaluators not trained on its context.

    Raises
    ------
    InputError
        If they differ in attribute or inputs.

    Notes
    -----
    A text is scored by the evaluators that were not trained on its source, and the scores are averaged. A source that
    none was trained on is scored by all. Without a source, a text is identified by itself.
    """

    def __init__(self, folds: Sequence[Evaluator], held_out: Mapping[str, Sequence[int]]) -> None:
        if len({(e.attribute, e.settings.inputs) for e in folds}) != 1:
            raise InputError.plain("folds must be evaluators of one attribute and with the same inputs")
        self.folds = list(folds)
        self.held_out = {mark: tuple(numbers) for mark, numbers in held_out.items()}

    def __repr__(self) -> str:
        return f"Evaluators({self.id!r})"

    @property
    def attribute(self) -> str:
        """The attribute that they judge."""
        return self.folds[0].attribute

    @property
    def needs(self) -> tuple[str, ...]:
        """Inputs required besides the text."""
        return self.folds[0].needs

    @property
    def id(self) -> str:
        """Attribute, encoder, inputs and a digest of everything that a score depends on."""
        return f"{self.folds[0].id.partition('@')[0]}:{len(self.folds)} folds@{self.digest}"

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that change with any evaluator and with the assignment of texts to evaluators."""
        pinned = [[e.digest for e in self.folds], sorted(self.held_out.items())]
        return hashlib.blake2b(json.dumps(pinned).encode()).hexdigest()[:16]

    def score(self, texts: Texts, sources: Texts | None = None, references: Texts | None = None) -> Floats:
        """Return the score of each text, shape (texts,); see `Evaluator.score`."""
        pairs = zip(texts, sources or [""] * len(texts), strict=True)
        judges = [self.unseen_by(text, source) for text, source in pairs]
        scores = np.zeros(len(judges))
        for number, evaluator in enumerate(self.folds):
            mine = [i for i, numbers in enumerate(judges) if number in numbers]
            parts = [None if p is None else [p[i] for i in mine] for p in (texts, sources, references)]
            scores[mine] += evaluator.score(*parts) / [len(judges[i]) for i in mine]  # type: ignore[arg-type]
        return scores

    def taking(self, score: ScorePoint) -> Evaluators:
        """Return evaluators with the same weights whose score is the expected star, or the most likely one."""
        return Evaluators([evaluator.taking(score) for evaluator in self.folds], self.held_out)

    def unseen_by(self, text: str, source: str = "") -> tuple[int, ...]:
        """Return the evaluators that judge a text: those not trained on its source or, without one, on the text."""
        mark = fingerprint("source", source) if source.strip() else fingerprint("text", text)
        return self.held_out.get(mark, tuple(range(len(self.folds))))

    def save(self, folder: AnyPath) -> Path:
        """Write each evaluator to a folder of its own, and ``folds.json``.

        Returns
        -------
        Path
            The folder.
        """
        path = Path(folder)
        for number, evaluator in enumerate(self.folds):
            evaluator.save(path / f"fold-{number}")
        save_folds(self, path)
        return path


def load_evaluators(folder: AnyPath, encoder: str | None = None, device: str | None = None) -> Evaluators:
    """Load cross-fitted evaluators; see `biaslab.distill.load_evaluator`.

    Raises
    ------
    ModelLoadError
        If they do not exist, or were not written by biaslab.
    """
    path = Path(folder)
    card = read_json(path / FOLDS, Folds)
    numbers = range(card["folds"])
    if card["folds"] < 2 or not all(some and all(n in numbers for n in some) for some in card["held_out"].values()):
        raise ModelLoadError(f"{FOLDS} in {str(folder)!r} names missing folds")
    return Evaluators([load_evaluator(path / f"fold-{i}", encoder, device) for i in numbers], card["held_out"])


class WeightedEvaluators:
    """Weighted sum of evaluators for several attributes: Eq. 6 as one reward.

    Parameters
    ----------
    evaluators : mapping of str to Evaluator or Evaluators
        Evaluators by name.
    weights : mapping of str to float, optional
        Non-negative weights by name, as returned by `biaslab.distill.tune_weights`; by default equal. They are
        normalised to sum to 1, so that scores stay in 0 to 1.

    Raises
    ------
    InputError
        If there are no evaluators, or a weight is missing, unknown, negative or not finite, or all are 0.

    Notes
    -----
    It can be used in place of an evaluator: in `EvaluatorJudge`, `reinforce` and, as a judge, `rerank`. Its attribute
    is "multiple". Weights are valid as long as scores are not rescaled.

    Examples
    --------
    >>> both = WeightedEvaluators({"coherence": one, "fluency": other}, tune_weights(...))  # doctest: +SKIP
    >>> policy, history = bl.distill.reinforce("smollm2-135m", data, both)                # doctest: +SKIP
    """

    attribute = MULTIPLE

    def __init__(
        self, evaluators: Mapping[str, Evaluator | Evaluators], weights: Mapping[str, float] | None = None
    ) -> None:
        if not evaluators:
            raise InputError.plain("evaluators is empty, expected: at least one")
        weights = dict.fromkeys(evaluators, 1.0) if weights is None else dict(weights)
        total = sum(weights.values())
        fits = set(weights) == set(evaluators) and all(math.isfinite(w) and w >= 0 for w in weights.values())
        if not fits or not total > 0:
            allowed = f"a non-negative number for each of {', '.join(evaluators)}, not all 0"
            raise InputError("weights", weights, allowed)
        self.evaluators = dict(evaluators)
        self.weights = {name: float(weights[name] / total) for name in evaluators}

    def __repr__(self) -> str:
        return f"WeightedEvaluators({self.id!r})"

    @property
    def needs(self) -> tuple[str, ...]:
        """Inputs required besides the text: the union over the members."""
        needed = {name for each in self.evaluators.values() for name in each.needs}
        return tuple(name for name in ("source", "reference") if name in needed)

    @property
    def id(self) -> str:
        """Names with their weights, and a digest of everything that a score depends on."""
        weighted = "+".join(f"{weight:.3g}*{name}" for name, weight in self.weights.items())
        return f"evaluator:{weighted}@{self.digest}"

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that change with any evaluator and any weight."""
        pinned = [[name, each.digest, self.weights[name].hex()] for name, each in self.evaluators.items()]
        return hashlib.blake2b(json.dumps(pinned).encode()).hexdigest()[:16]

    def score(self, texts: Texts, sources: Texts | None = None, references: Texts | None = None) -> Floats:
        """Return the weighted sum of each text's scores, shape (texts,); see `Evaluator.score`."""
        total = np.zeros(len(texts))
        for name, evaluator in self.evaluators.items():
            if self.weights[name]:
                total += self.weights[name] * evaluator.score(texts, sources, references)
        return total


def fingerprint(kind: str, text: str) -> str:
    """Return the key of a "source" or a "text" in ``held_out`` of `Evaluators`."""
    return hashlib.blake2b(f"{kind}\n{text}".encode(), digest_size=12).hexdigest()


def save_folds(evaluators: Evaluators, path: Path) -> None:
    """Record which evaluators were not trained on which sources."""
    content = {"format": "biaslab cross-fitted evaluators 1", "folds": len(evaluators.folds)}
    with replacing(path / FOLDS) as partial:
        partial.write_text(json.dumps({**content, "held_out": evaluators.held_out}), encoding="utf-8")


AnyEvaluator = Evaluator | Evaluators | WeightedEvaluators


class EvaluatorJudge(BaseJudge):
    """A judge that answers `biaslab.core.Score` requests.

    Parameters
    ----------
    evaluators : Evaluator, Evaluators, WeightedEvaluators, or several of them
        A list, each for the attribute it was trained on; or a mapping by attribute, as in
        ``{"coherence": evaluator}``, which may assign an evaluator to another attribute. Cross-fitted ones answer a
        request about a known source with an evaluator not trained on it.
    name : str, optional
        Display name in tables and figures; prepended to the id.

    Attributes
    ----------
    id : str
        Identifies weights, encoder and settings of all evaluators.

    Raises
    ------
    InputError
        If there is none, or two have the same attribute.

    Notes
    -----
    A request without an attribute asks for overall quality: it is answered by the only evaluator, or the one trained
    on the multi-aspect prompt. An evaluator that needs source or reference refuses requests without them. Scores are
    those of `Evaluator.score`, computed for all requests at once.

    Examples
    --------
    >>> judge = EvaluatorJudge(evaluator)                                                        # doctest: +SKIP
    >>> bl.collect(bl.probes.Source(["coherence"], answer="score"), judge, data, store="s.sqlite")  # doctest: +SKIP
    """

    kinds: frozenset[type] = frozenset({Score})

    def __init__(
        self, evaluators: AnyEvaluator | Sequence[AnyEvaluator] | Mapping[str, AnyEvaluator], name: str = "evaluator"
    ) -> None:
        if isinstance(evaluators, AnyEvaluator):
            evaluators = [evaluators]
        if not isinstance(evaluators, Mapping):
            several = list(evaluators)
            evaluators = {each.attribute: each for each in several}
            if len(evaluators) < len(several):
                raise InputError.plain("evaluators share an attribute, expected: one for each attribute")
        if not evaluators:
            raise InputError.plain("evaluators is empty, expected: at least one")
        self.evaluators: dict[str, AnyEvaluator] = dict(evaluators)
        inside = ",".join(f"{attribute}={each.id}" for attribute, each in sorted(self.evaluators.items()))
        self.id = f"{name}/{inside}"

    def __repr__(self) -> str:
        return f"EvaluatorJudge({self.id!r})"

    def check(self, requests: Iterable[Request]) -> None:
        """Raise `JudgeError` for the first request of another kind, attribute, or without a required source."""
        for request in requests:
            self._evaluator(request)

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Answer every request, those of one attribute together."""
        asked: dict[AnyEvaluator, list[Score]] = {}
        for request in requests:
            asked.setdefault(self._evaluator(request), []).append(request)  # type: ignore[arg-type]
        for evaluator, mine in asked.items():
            texts, sources, references = zip(*((r.text, r.source, r.reference) for r in mine), strict=True)
            scores = evaluator.score(texts, sources, references)
            for request, score in zip(mine, scores, strict=True):
                yield request, Reply(score=float(score))

    def _evaluator(self, request: Request) -> AnyEvaluator:
        """Return the evaluator that answers a request.

        Raises
        ------
        JudgeError
            If there is none.
        """
        require_kinds(self, [request])
        assert isinstance(request, Score)  # noqa: S101 - just checked
        known = self.evaluators
        whole = next(iter(known.values())) if len(known) == 1 else known.get(MULTIPLE)
        evaluator = known.get(request.attribute) if request.attribute or "" in known else whole
        if evaluator is None:
            listed = ", ".join(known)
            raise JudgeError(f"no evaluator for the attribute {request.attribute!r}, only for {listed}", request)
        for name in evaluator.needs:
            if not getattr(request, name).strip():
                mismatch = f"the evaluator of {evaluator.attribute} was trained with a {name}"
                raise JudgeError(f"{mismatch}; provide one", request)
        return evaluator


def load_judge(folder: AnyPath, encoder: str | None = None, device: str | None = None) -> EvaluatorJudge:
    """Load a judge from a folder: one evaluator, cross-fitted ones, or one such folder per attribute.

    Raises
    ------
    ModelLoadError
        If there is none, or one of them cannot be loaded.
    """
    path = Path(folder)
    if not is_there(path):
        raise ModelLoadError(f"evaluator folder {str(path)!r} does not exist; check the path")
    one = (path / CARD).is_file() or (path / FOLDS).is_file()
    inside = [] if one else sorted(p for p in path.glob("*") if (p / CARD).is_file() or (p / FOLDS).is_file())
    evaluators: list[AnyEvaluator] = []
    for each in inside or [path]:
        load = load_evaluators if (each / FOLDS).is_file() else load_evaluator
        evaluators.append(load(each, encoder, device))
    try:
        return EvaluatorJudge(evaluators, path.resolve().name)
    except InputError as error:
        raise ModelLoadError(f"the folder {str(folder)!r} contains several evaluators of one attribute") from error
