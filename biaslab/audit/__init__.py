"""Audit of recorded judgements: every probe whose design they satisfy, and why the others cannot run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import pandas as pd

from biaslab import probes
from biaslab.audit.halo import agree_with_humans, estimate_halo
from biaslab.audit.replies import describe_pairs
from biaslab.datasets.schema import Dataset
from biaslab.errors import BiaslabError, InputError
from biaslab.judgements.humans import with_humans
from biaslab.probes.consistency import Consistency
from biaslab.stats import ITEM, LEADING, TRAILING, Resampling, require_columns

Chosen = tuple[pd.DataFrame, str]  # the trials that a probe can use, and why there are none, or fewer
_CELL = ["judge", "dataset", "attribute"]
_READ = ("judge", "dataset", "context_id", "candidate_id", "opponent_id", "attribute", "replicate", "value", "status")
_MANY_CONTEXTS = 3000
#: What a probe of its own design needs, which no log of plain judgements has.
_NEEDS = {
    "familiarity": ("asked", "log perplexities of the judged texts"),
    "anchoring": ("arm", "scores of several attributes in one output, in rotated orders, and of each alone"),
    "sweep": ("temperature", "scores at several temperatures, with and without reasons"),
    "source": ("source", "scores with and without the source in the prompt"),
}


def audit(
    trials: pd.DataFrame,
    human: Dataset | None = None,
    only: Sequence[str] | None = None,
    resampling: Resampling | None = None,
) -> pd.DataFrame:
    r"""Estimate all that recorded judgements can tell.

    Parameters
    ----------
    trials : pandas.DataFrame
        Made by `biaslab.read_judgements`, or several such frames put together by `pandas.concat`.
    human : Dataset, optional
        Human scores to join by context, candidate and attribute.
    only : sequence of str, optional
        Probes to run; all, and "replies", "human_agreement" and "halo", by default.
    resampling : Resampling, optional
        Of the estimates.

    Returns
    -------
    pandas.DataFrame
        The estimates of all probes that could run, one below the other; a condition that a probe does not have is NaN.
        ``attrs["not_run"]`` says of each other probe why, in one line; ``attrs["notes"]`` what was left out of one that
        ran.

    Raises
    ------
    InputError
        If a probe is unknown, or the data set rates nothing of what was judged.
    TrialsError
        If a column is missing.

    Warns
    -----
    MissingDataWarning
        If more than 5 % of the judgements of an estimate are missing.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> pairs = [f"{c},{a},{b},{a}" for c in range(20) for a, b in ("xy", "yx")]
    >>> _ = file.write_text("\n".join(["context_id,candidate_id,opponent_id,winner", *pairs]))
    >>> import biaslab as bl
    >>> found = audit(bl.read_judgements(file), only=["position", "source"])
    >>> float(found.set_index("metric").loc["order_consistency", "estimate"]), found.attrs["not_run"]
    (0.0, {'source': 'needs scores with and without the source in the prompt'})
    """
    require_columns(trials, _READ, "trials")
    measures = {**_of_probes(), "replies": _pairs, "human_agreement": _agreement, "halo": _halo}
    unknown = [name for name in only or () if name not in measures]
    if unknown or isinstance(only, str):
        raise InputError("only", unknown or only, f"a list of some of {', '.join(measures)}")
    drawn = resampling or Resampling()
    given = _prepared(trials if human is None else with_humans(trials, human))
    parts: list[pd.DataFrame] = []
    not_run: dict[str, str] = {}
    notes: dict[str, str] = {}
    for name, measure in measures.items():
        if only is not None and name not in only:
            continue
        try:
            found, why = measure(given, drawn)
        except BiaslabError as error:
            not_run[name] = str(error).partition("\n")[0]
            continue
        if found.empty:
            not_run[name] = why or "no trial is left"
            continue
        parts.append(found)
        if why:
            notes[name] = why
    estimates = _stacked(parts)
    estimates.attrs = {"not_run": not_run, "notes": notes}
    return estimates


Measure = Callable[[pd.DataFrame, Resampling], Chosen]


def _of_probes() -> dict[str, Measure]:
    chosen = {"position": _position, "score_distribution": _distribution, "consistency": _consistency,
              "output_order": _orders, "verbosity": _lengths}  # fmt: skip
    return {name: _probing(kind, chosen.get(name)) for name, kind in probes.available().items()}


def _probing(kind: Any, choose: Callable[[pd.DataFrame], Chosen] | None) -> Measure:
    """Return what runs a probe on the trials of its own design, or else on those that are chosen for it."""

    def run(trials: pd.DataFrame, resampling: Resampling) -> Chosen:
        own = trials[trials["probe"] == kind.name]
        if choose is None:
            column, what = _NEEDS.get(kind.name, ("", "trials of its own design"))
            if own.empty or (column and column not in own):
                return own, f"needs {what}"
            found, why = own, ""
        else:
            found, why = (own, "") if len(own) else choose(trials[trials["probe"] == "recorded"])
        if found.empty:
            return found, why
        known = {field.name for field in fields(kind)}
        made = kind(resampling=resampling) if "resampling" in known else kind()
        if isinstance(made, Consistency):
            made, why = _levelled(made, found)
        return made.estimate(found), why

    return run


def _levelled(probe: Consistency, trials: pd.DataFrame) -> tuple[Consistency, str]:
    """Return the probe with the levels of alpha that can be had in good time, and which cannot."""
    contexts = trials["context_id"].nunique()
    if contexts <= _MANY_CONTEXTS:
        return replace(probe, levels=("interval", "ordinal", "nominal")), ""
    why = f"without ordinal alpha, whose time grows with the square of the contexts, here {contexts}"
    return replace(probe, levels=("interval", "nominal")), why


def _position(trials: pd.DataFrame) -> Chosen:
    pairs = _paired(trials)
    if pairs.empty:
        return pairs, "needs judgements of two candidates shown one after the other"
    shown = pairs[pairs["order_known"].astype(bool)]
    if shown.empty:
        return shown, "needs to know which candidate was shown first, which the log does not say"
    one, two = shown["candidate_id"], shown["opponent_id"]
    ahead = one < two
    cell = [shown[name] for name in (*_CELL, "template")]
    pair = [*cell, shown["context_id"], one.where(ahead, two), two.where(ahead, one), shown["replicate"]]
    usable = shown["status"].isin(["ok", "tie"])
    whole = (usable & ahead).groupby(pair).transform("any") & (usable & ~ahead).groupby(pair).transform("any")
    kept = whole.groupby(cell).transform("any")
    if not kept.any():
        return shown[kept], "needs both orders of a pair; each was judged in one order only"
    left = shown.loc[~kept, [*_CELL, "template"]].drop_duplicates()
    names = ", ".join(" / ".join(map(str, row)) for row in left.itertuples(index=False))
    return shown[kept], f"without {names}: no pair was judged in both orders" if names else ""


def _distribution(trials: pd.DataFrame) -> Chosen:
    scores = _scored(trials)
    scores = scores[scores["answer"] == "text"]
    if scores.empty:
        return scores, "needs single scores on a scale"
    found = _by_configuration(scores)
    decimal = found["ratings"].str.contains(".", regex=False)
    return found.assign(ratings=found["ratings"].where(~decimal, "")), ""


def _by_configuration(scores: pd.DataFrame) -> pd.DataFrame:
    """Name attributes with their configuration, which probes do not know, where there are several."""
    several = scores.groupby(_CELL, sort=False)["configuration"].transform("nunique") > 1
    named = scores["attribute"] + " (" + scores["configuration"] + ")"
    return scores.assign(attribute=scores["attribute"].where(~several, named))


def _consistency(trials: pd.DataFrame) -> Chosen:
    scores = _scored(trials)
    if scores.empty:
        return scores, "needs scores on a scale"
    ways = scores.groupby(_CELL)[["replicate", "configuration"]].nunique()
    several = bool((ways > 1).any(axis=None))
    annotated = scores["ratings"].str.contains(" ", regex=False).any()
    why = "needs repetitions of a judgement, several configurations, or scores of several annotators"
    return (scores, "") if several or annotated else (scores.iloc[:0], why)


def _orders(trials: pd.DataFrame) -> Chosen:
    scores = _scored(trials)
    scores = scores[scores["order"].notna() & scores["form"].notna()]
    cell = [scores[name] for name in (*_CELL, "scale", "form", "rules")]
    both = pd.Series(True, index=scores.index)
    for order in ("sr", "rs"):
        both &= (scores["order"] == order).groupby(cell).transform("any") if len(scores) else both
    why = "needs scores before reasons and after them, by one judge with one form of prompt"
    return scores[both], "" if both.any() else why


def _lengths(trials: pd.DataFrame) -> Chosen:
    scores = _rated(trials)
    scores = scores[scores["words"] > 0].assign(asked="score")
    why = "needs human scores and the lengths of the judged texts: a data set with both, or a column words"
    return (scores, why) if scores.empty else (_by_configuration(scores), "")


def _pairs(trials: pd.DataFrame, resampling: Resampling) -> Chosen:
    pairs = _paired(trials)
    return (pairs, "needs judgements of two candidates") if pairs.empty else (describe_pairs(pairs, resampling), "")


def _agreement(trials: pd.DataFrame, resampling: Resampling) -> Chosen:
    rated = _rated(trials)
    why = "needs human scores of what was scored: in the log, or from a data set"
    return (rated, why) if rated.empty else (agree_with_humans(rated, resampling), "")


def _halo(trials: pd.DataFrame, resampling: Resampling) -> Chosen:
    rated = _rated(trials)
    several = rated.groupby(["judge", "dataset", "configuration", *ITEM])["attribute"].transform("nunique") > 1
    why = "needs scores of two attributes of the same items by a judge and by humans"
    return (rated.iloc[:0], why) if rated.empty or not several.any() else (estimate_halo(rated, resampling), "")


def _paired(trials: pd.DataFrame) -> pd.DataFrame:
    return trials[trials["opponent_id"].notna() & (trials["opponent_id"] != "")]


def _scored(trials: pd.DataFrame) -> pd.DataFrame:
    return trials[(trials["opponent_id"].isna() | (trials["opponent_id"] == "")) & trials["scale"].notna()]


def _rated(trials: pd.DataFrame) -> pd.DataFrame:
    scores = _scored(trials)
    return scores[scores["human"].notna()]


def _prepared(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with every column that is read here, and without attrs, which pandas would copy each time."""
    from biaslab.judgements.log_columns import trials_of

    given = trials.drop(columns="reply", errors="ignore").reset_index(drop=True)
    given.attrs = {}
    missing = trials_of({name: given[name] for name in _READ}, given.index)
    wanted = {str(name): column for name, column in missing.items() if name not in given and name != "reply"}
    return given.assign(**wanted)


def _stacked(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    conditions = list(dict.fromkeys(name for part in parts for name in _conditions(part)))
    columns = [*LEADING, *conditions, *TRAILING]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        whole = [part.reindex(columns=columns) for part in parts if len(part)]
        return pd.concat(whole, ignore_index=True) if whole else pd.DataFrame(columns=columns)


def _conditions(part: pd.DataFrame) -> Iterator[str]:
    return (name for name in part.columns if name not in (*LEADING, *TRAILING))
