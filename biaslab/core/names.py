"""Names as papers write them: data sets, and question formats that a log encodes."""

from __future__ import annotations

#: Data sets as papers write them.
TITLES = {
    "alpaca_eval": "AlpacaEval",
    "alt_test_10k_prompts": "10k prompts",
    "alt_test_cebab_stars": "CEBaB",
    "alt_test_mtbench": "MT-Bench",
    "arena": "Arena",
    "devbench": "DevBench",
    "judgebench": "JudgeBench",
    "korean_battles": "Korean battles",
    "llmbar": "LLMBar",
    "mt_bench": "MT-Bench",
    "pandalm": "PandaLM",
    "prometheus": "Vicuna set",
    "roscoe": "ROSCOE",
    "self_recognition": "XSum",
    "shaberi_elyza": "ELYZA tasks",
    "shaberi_rakuda": "Rakuda",
    "small_judges": "MT-Bench",
    "small_judges_llmbar": "LLMBar",
    "summeval": "SummEval",
    "topical_chat": "TopicalChat",
    "topicalchat": "TopicalChat",
    "wildbench": "WildBench",
    "xsum": "XSum",
}

#: Question formats for scores of SummEval (Shen et al. 2023), encoded in the log.
WAYS = {
    "altmcq": "five statements, other words",
    "altrts": "reasons, then score, other words",
    "mcq": "five statements",
    "rts": "reasons, then score",
    "stareval": "stars",
}


def title(dataset: str) -> str:
    """Return the data set that a log's name begins with, as papers write it; else the name.

    Examples
    --------
    >>> title("mt_bench_repetition"), title("graded (constructed)")
    ('MT-Bench', 'graded (constructed)')
    """
    name = _longest(dataset)
    return dataset if name is None else TITLES[name]


def written(dataset: str) -> str:
    """Return the name of a data set as papers write it, including the subset.

    Examples
    --------
    >>> written("mt_bench_repetition"), written("xsum"), written("graded (constructed)")
    ('MT-Bench repetition', 'XSum', 'graded (constructed)')
    """
    name = _longest(dataset)
    return dataset if name is None else " ".join([TITLES[name], *dataset.removeprefix(name).replace("_", " ").split()])


def _longest(dataset: str) -> str | None:
    return next((name for name in sorted(TITLES, key=len, reverse=True) if dataset.startswith(name)), None)
