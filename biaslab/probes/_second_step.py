"""Ask for the score in a second step if the reasons contain none."""

from __future__ import annotations

import pandas as pd

from biaslab import prompts
from biaslab.core import Message
from biaslab.core.messages import as_messages
from biaslab.measures.scoring.pointwise import Question, about_scores
from biaslab.stats import ITEM

#: Columns that identify an answer, and the column for its step, 1 or 2.
ANSWER, STEP = [*ITEM, "attribute", "cot", "temperature", "replicate"], "step"


def without_score(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the replies with reasons but no score for which no second step has been asked yet."""
    if STEP not in trials:
        return trials.iloc[:0]
    lacking = (trials[STEP] == 1) & trials["status"].isin(["unparsable", "cut_off"])
    lacking &= trials["reply"].fillna("").str.strip() != ""
    asked = pd.MultiIndex.from_frame(trials.loc[trials[STEP] == 2, ANSWER])
    waiting = trials[lacking]
    return waiting[~pd.MultiIndex.from_frame(waiting[ANSWER]).isin(asked)]


def ask_again(question: Question, reply: str) -> Question:
    """Return the follow-up question for the score alone, after a reply with reasons."""
    item, attribute, scale = question.item, question.attribute, question.scale
    turns = [
        *as_messages(question.messages),
        Message("assistant", reply),
        Message("user", prompts.render("rate_again", attribute=attribute, scale=scale)),
    ]
    about = about_scores(item, [attribute], scale, reasons="before")
    return Question(item, attribute, turns, scale, about)


def answered(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per answer: that of the second step, if there is one, with the tokens of both."""
    if STEP not in trials:
        return trials
    second = trials[trials[STEP] == 2]
    keys = pd.MultiIndex.from_frame(trials[ANSWER])
    replaced = (trials[STEP] == 1) & keys.isin(pd.MultiIndex.from_frame(second[ANSWER]))
    before = trials[replaced].set_index(ANSWER)["tokens"].reindex(pd.MultiIndex.from_frame(second[ANSWER]))
    whole = trials.astype({"tokens": float})
    whole.loc[second.index, "tokens"] += before.to_numpy(float)
    return whole[~replaced]


def first_step(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials of the first step."""
    return trials[trials[STEP] != 2] if STEP in trials else trials
