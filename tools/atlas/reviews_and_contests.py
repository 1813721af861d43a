"""Read reviews of papers, debates and translations that judges of 2024 to 2026 judged: one reader for each source.

Each returns trials as `tools.atlas.newer_files` does.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab.datasets._files import read_jsonl
from tools.atlas.newer_files import joined, pair_trials, score_trials
from tools.atlas.raw_texts import RECORDED

_REVIEWER = "gpt-4o-2024-05-13"
#: Ways to ask for a review, by the names of the files.
_WAYS = {
    "": "single",
    "_reflect_5": "reflected",
    "_reflect_5_ensemble_5": "merged",
    "_fewshot_1_reflect_5_ensemble_5": "merged with an example",
}
#: Judges of the debates, and of the translations: their name here, and that of their own system.
_DEBATES = {"Kimi K2.6": "kimi-k2.6", "Gemini 3.1 Pro Preview": "gemini-3.1-pro-preview", "Grok 4.3": "grok-4.3"}
_TRANSLATIONS = {
    "GEMBA-ESA-GPT4.1": ("gpt-4.1-2025-04-14", "GPT-4.1"),
    "GEMBA-ESA-CMDA": ("command-a-03-2025", "CommandA"),
}
_TUNED = "CommandA-MT"  # made from a judge: neither its own system nor another


def ai_scientist(folder: Path) -> pd.DataFrame:
    """Return the overall scores of 500 papers of ICLR 2022 by GPT-4o, asked in four ways, with people's scores."""
    place = folder / RECORDED / "ai_scientist_reviews"
    people = pd.read_csv(place / "human_ratings_iclr2022.tsv.gz", sep="\t", index_col="paper_id")
    people = people.drop(columns="decision").astype(float)
    parts = []
    for name, way in _WAYS.items():
        [file] = [one for one in place.glob(f"{_REVIEWER}*.csv.gz") if _way(one.name) == name]
        table = pd.read_csv(file).set_index("paper_id").join(people, how="inner")
        rated = [row.dropna() for _, row in table[people.columns].iterrows()]
        rows = [
            (_REVIEWER, paper, "paper", "overall", float(score), ratings.mean(), joined(ratings))
            for paper, score, ratings in zip(table.index, table["Overall"], rated, strict=True)
        ]
        parts.append(score_trials("iclr_2022", rows, "1-10").assign(configuration=way))
    return pd.concat(parts, ignore_index=True)


def debates(folder: Path) -> pd.DataFrame:
    """Return the winners of debates by three judges of 2026, motion by motion.

    A debate and the one with sides swapped are two texts: PRO and CON are roles, and who is shown first is not known.
    """
    rows = [
        (_DEBATES[record["judge"]], record["topic"], record["pro"], record["con"], np.nan, np.nan, won, np.nan)
        for record in read_jsonl(folder / RECORDED / "debate_2026" / "judgments.jsonl.gz")
        if (won := {record["pro"]: 1.0, record["con"]: 0.0}.get(record["winner"])) is not None
    ]
    return pair_trials("debates", rows).assign(order_known=False)


def wmt25(folder: Path) -> pd.DataFrame:
    """Return the scores of the first segment of each document of WMT25 by GPT-4.1 and Command A, system by system.

    Segments of a document are no independent contexts, so that one of them stands for it.
    """
    rows: dict[str, list[tuple[object, ...]]] = {judge: [] for judge in _TRANSLATIONS}
    for record in read_jsonl(folder / RECORDED / "wmt25_gemba" / "scores.jsonl.gz"):
        context = f"{record['language_pair']}:{record['document_id']}"
        for column, (judge, own) in _TRANSLATIONS.items():
            score = record[column][0] if record[column] else None
            if score is not None and not (record["system"] == _TUNED and own == "CommandA"):
                rows[column].append((judge, context, record["system"], "overall", float(score), np.nan, ""))
    parts = [
        score_trials("wmt25", rows[column], "0-100").assign(judge_system=own)
        for column, (_, own) in _TRANSLATIONS.items()
    ]
    return pd.concat(parts, ignore_index=True)


def _way(file: str) -> str:
    return re.sub(rf"^{_REVIEWER}_temp_0_1|_pages_all\.csv\.gz$", "", file)
