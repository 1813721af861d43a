"""Distil a judge into a small evaluator that judges, reranks and rewards (ECT; Wang et al. 2023).

======================= ===========================================================================================
`Stars`                 ask a judge for one to five stars, or 0-100 (Fig. 2, Tables 7 and 8, Appendix 3)
`annotate`              let a judge, or an evaluator, label a data set from 0 to 1
`find_aspect`           the aspects of Tables 7 and 8
`examples`              trials of any scorer, probe or log → texts with labels
`train`                 an encoder and a feed-forward head on them (Eqs. 7 and 8) → `Evaluator`
`cross_fit`             one evaluator a fold of contexts → `Evaluators`, which judge what they have not seen
`students`              the same for several attributes; `scores_of` them, and `rated_by` their teacher
`learning_curve`        students that were taught on fewer texts (Figures 3 and 5)
`EvaluatorJudge`        an evaluator as a judge: answers `biaslab.core.Score`
`load_evaluator`        from a folder of safetensors and JSON, and from nothing else
`collect_samples`       candidates from a generation model (Table 6)
`rerank`                best of N by one or several evaluators; `tune_weights`
`WeightedEvaluators`    several evaluators as one reward (Eq. 6)
`reinforce`             minimum-risk training (Eqs. 3, 4 and 9), or REINFORCE (Eq. 2)
`measure_texts`         reward, length and overlap of each text; `compare_texts` of several ways to write
`add_overshoot`         what the reward gains and another judge does not see; `most_changed`
`best_of_n`             what a choice by the reward is worth to somebody else, the more there are to choose from
`bias_inheritance`      which biases of its teacher the student has
======================= ===========================================================================================

Examples
--------
>>> import biaslab as bl
>>> data = bl.load_dataset("graded", limit=4)
>>> trials = bl.collect(Stars(aspects=["coherence"]), bl.SimulatedJudge(data), data, progress=False)
>>> evaluator = train(examples(trials, data), progress=False)  # doctest: +SKIP
>>> student = EvaluatorJudge(evaluator)                         # doctest: +SKIP
"""

from typing import Any

import lazy_loader

from biaslab.core.checks import require_extra

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError:
        require_extra("local", f"{__name__}.{name}")
        raise
