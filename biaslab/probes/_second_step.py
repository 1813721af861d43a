"""A score that is asked for in a second step, after reasons that hold none."""

from __future__ import annotations

import pandas as pd

from biaslab import prompts
from biaslab.core import Message
from biaslab.core.messages import as_messages
from biaslab.measures.scoring.pointwise import Question, about_scores
from biaslab.stats import ITEM

#: Columns of trials that tell answers apart, and which step of one a trial is: 1 or 2.
ANSWER, STEP = [*ITEM, "attribute", "cot", "temperature", "replicate"], "step"


def without_score(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the replies that hold reasons and no score, and after which no score has been asked for yet."""
    if STEP not in trials:
        return trials.iloc[:0]
    lacking = (trials[STEP] == 1) & trials["status"].isin(["unparsable", "cut_off"])
    lacking &= trials["reply"].fillna("").str.strip() != ""
    asked = pd.MultiIndex.from_frame(trials.loc[trials[STEP] == 2, ANSWER])
    waiting = trials[lacking]
    return waiting[~pd.MultiIndex.from_frame(waiting[ANSWER]).isin(asked)]


def ask_again(question: Question, reply: str) -> Question:
    """Return the question for a score alone, after a question for reasons and score and the reply to it."""
    item, attribute, scale = question.item, question.attribute, question.scale
    turns = [
        *as_messages(question.messages),
        Message("assistant", reply),
        Message("user", prompts.render("rate_again", attribute=attribute, scale=scale)),
    ]
    about = about_scores(item, [attribute], scale, reasons="before")
    return Question(item, attribute, turns, scale, about)


def answered(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per answer: where a second step was asked for, its row, which then costs the tokens of both."""
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
