"""Pointwise scorers: one score per candidate, from a judge or a metric, and agreement of scores with humans.

A scorer is designed and parsed like a probe, so `biaslab.collect` asks a judge and a store keeps the replies; `scores`
turns the trials into a scores frame. Metrics without a judge return that frame directly.

=================== =============================================================================================
`PromptScoring`     a number on request, two templates (Liusie et al. 2024, §4.3.2)
`GEval`             expected score of a detailed form (Liu et al. 2023)
`GPTScore`          mean log-probability of the candidate (Fu et al. 2023)
`StepWriting`       evaluation steps by the judge itself, for `GEval` (its auto-CoT)
`Rating`            the recipe of Stureborg et al. 2024, §4; rate-explain and analyze-rate (Chiang & Lee 2023)
`reference_scores`  ROUGE, BLEU, chrF
`bert_scores`       BERTScore (Zhang et al. 2020) with any encoder or causal model
`agreement`         correlation with the mean human scores; `agreement_difference` of two scorers
`system_accuracy`   pairs of systems ordered as humans order them (WMT's metrics tasks)
=================== =============================================================================================

Examples
--------
>>> import biaslab as bl
>>> data = bl.load_dataset("graded", limit=8)
>>> trials = bl.collect(bl.scoring.PromptScoring(), bl.SimulatedJudge(data), data, progress=False)
>>> scored = bl.scoring.agreement(bl.scoring.scores(trials), data, levels=["context"], coefficients=["spearman"])
>>> scored["attribute"].tolist()
['coherence', 'consistency', 'fluency', 'relevance']
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
