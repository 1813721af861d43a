"""Load evaluators by name for `biaslab.load_judge`, with a clear error if an extra is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from biaslab.core.checks import require_extra

if TYPE_CHECKING:
    from biaslab.datasets import Dataset
    from biaslab.distill.evaluator_judge import EvaluatorJudge


def load_named(name: str, dataset: Dataset | None) -> EvaluatorJudge:  # noqa: ARG001, as all kinds of judges are made
    """Load a judge by a name such as ``"evaluator:students/one"``."""
    require_extra("local", f"the judge {name!r}")
    from biaslab.distill.evaluator_judge import load_judge

    return load_judge(name.partition(":")[2])
