"""Distil a judge into a small evaluator that judges, reranks and rewards (ECT; Wang et al. 2023).

======================= ===========================================================================================
`Stars`                 asks a judge for one to five stars, or 0-100 (Fig. 2, Tables 7 and 8, Appendix 3)
`annotate`              labels a data set from 0 to 1 with a judge or an evaluator
`find_aspect`           the aspects of Tables 7 and 8
`examples`              turns trials of any scorer, probe or log into texts with labels
`train`                 trains an `Evaluator`: an encoder with a feed-forward head (Eqs. 7 and 8)
`cross_fit`             trains `Evaluators`, one per fold of contexts; each judges contexts it was not trained on
`students`              the same for several attributes; `scores_of` students, `ratings` by their teacher and humans
`learning_curve`        students trained on fewer texts (Figures 3 and 5)
`EvaluatorJudge`        an evaluator as a judge: answers `biaslab.core.Score`
`load_evaluator`        loads an evaluator from safetensors and JSON only
`collect_samples`       candidates from a generation model (Table 6)
`rerank`                best of N by one or several evaluators; `tune_weights` for several
`WeightedEvaluators`    several evaluators as one reward (Eq. 6)
`reinforce`             minimum-risk training (Eqs. 3, 4 and 9), or REINFORCE (Eq. 2)
`measure_texts`         reward, length and overlap of each text; `compare_texts` compares ways of writing
`add_overshoot`         gain in reward that another judge does not confirm; `most_changed` texts
`reward_slopes`         what the reward gains per doubling of the words and per nat of log perplexity
`best_of_n`             other measures of the text with the highest reward among n, by n
`bias_inheritance`      share of the teacher's biases that the student inherited
======================= ===========================================================================================

Examples
--------
>>> import biaslab as bl
>>> data = bl.load_dataset("graded", limit=4)
>>> trials = bl.collect(Stars(aspects=["coherence"]), bl.SimulatedJudge(data), data, progress=False)
>>> evaluator = train(examples(trials, data), progress=False)  # doctest: +SKIP
>>> student = EvaluatorJudge(evaluator)                         # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lazy_loader

from biaslab.core.checks import require_extra

if TYPE_CHECKING:
    from biaslab.datasets import Dataset
    from biaslab.distill.ensembles import EvaluatorJudge

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError:
        require_extra("local", f"{__name__}.{name}")
        raise


def load_named(name: str, dataset: Dataset | None) -> EvaluatorJudge:  # noqa: ARG001, as all kinds of judges are made
    """Load a judge by a name such as ``"evaluator:students/one"``."""
    require_extra("local", f"the judge {name!r}")
    from biaslab.distill.ensembles import load_judge

    return load_judge(name.partition(":")[2])
