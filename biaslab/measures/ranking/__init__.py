"""Comparative assessment (Liusie et al. 2024): select pairs, turn answers into rankings, and debias them.

All functions work on `Comparisons`, which `comparisons_of` extracts from pair trials.

Examples
--------
>>> import biaslab as bl
>>> data = bl.load_dataset("graded", limit=6)
>>> judge = bl.SimulatedJudge(data, position=2.0, noise=0.5)
>>> trials = bl.collect(bl.probes.Position(["coherence"], [1]), judge, data, progress=False)
>>> ranked = rank(trials, debiasing="threshold")
>>> ranked.columns.tolist()
['judge', 'dataset', 'attribute', 'template', 'context_id', 'candidate_id', 'score', 'rank']
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
