"""Use evaluators as a judge: it answers `Score` requests, so every pointwise probe, ranking and audit works."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from biaslab.core import BaseJudge, Reply, Request, Score, require_kinds
from biaslab.core.checks import is_there
from biaslab.core.errors import InputError, JudgeError, ModelLoadError
from biaslab.distill.annotation import MULTIPLE
from biaslab.distill.ensembles import FOLDS, Evaluators, WeightedEvaluators, load_evaluators
from biaslab.distill.evaluator import Evaluator, load_evaluator
from biaslab.distill.evaluator_files import CARD
from biaslab.distill.settings import AnyPath

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
                raise InputError("evaluators", [each.attribute for each in several], "one for each attribute")
        if not evaluators:
            raise InputError("evaluators", "none", "at least one")
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
