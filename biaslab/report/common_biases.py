"""The probes and texts with which `biaslab.screen` measures the most common biases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import pandas as pd

from biaslab.core import Choice, Compare, Completion, Judge, Score
from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.probes.base import Probe
from biaslab.probes.base.pair_probe import draw
from biaslab.probes.consistency import Consistency
from biaslab.probes.position import Position
from biaslab.probes.score_distribution import ScoreDistribution
from biaslab.probes.self_preference import SelfPreference
from biaslab.probes.verbosity import Verbosity
from biaslab.prompts.protocols import Protocol
from biaslab.stats import Resampling

Given = Protocol | str | PathLike[str]

#: One scale for all scores, so that probes share requests; wide enough to show round numbers.
SCALE = "1-100"
#: Samples per score if the judge answers with text, and per verdict if a protocol asks for text.
_SCORES, _VERDICTS = 3, 2


def draw_texts(dataset: Dataset, contexts: int, candidates: int, own: str | None, seed: int) -> Dataset:
    """Return the first contexts with a random draw of candidates each, always including the judge's own texts."""
    require_whole("contexts", contexts, 1)
    require_whole("candidates", candidates, 2)
    require_whole("seed", seed, 0)
    data = dataset.head(contexts)
    systems = [name for name in dict.fromkeys(data.candidates["system"]) if name]
    if own is not None:
        require_one_of("own", own, systems or ["none: no candidate has a system"])
    chosen: list[int] = []
    for context_id, rows in data.candidates.groupby("context_id", sort=False):
        places = [int(place) for place in rows.index]
        mine = [place for place in places if own is not None and data.candidates.loc[place, "system"] == own][:1]
        others = [place for place in places if place not in mine]
        chosen += sorted([*mine, *draw(others, candidates - len(mine), seed, str(context_id))])
    kept = data.candidates.loc[chosen].reset_index(drop=True)
    names = pd.MultiIndex.from_frame(kept[["context_id", "candidate_id"]])
    human = data.human[pd.MultiIndex.from_frame(data.human[["context_id", "candidate_id"]]).isin(names)]
    return replace(data, candidates=kept, human=human.reset_index(drop=True))


def choose_probes(
    judge: Judge,
    data: Dataset,
    protocol: Given | Sequence[Given] | None,
    attributes: Sequence[str] | None,
    own: str | None,
    seed: int,
) -> tuple[list[Probe], list[tuple[str, str, str]]]:
    """Return the probes that fit the judge's forms of answering, and the reasons why others do not."""
    by_form = _by_form(protocol)
    chosen = data.require_attributes(attributes)[: None if attributes else 1]
    makers = {"pair": _of_pairs, "score": _of_scores}
    forms = [form for form in makers if form in (by_form or _forms_of(judge))]
    whole = {form: makers[form](chosen, by_form.get(form), own, seed) for form in makers}
    probes = [probe for form in forms for probe in whole[form]]
    asked, answers = {probe.name for probe in probes}, " and ".join(f"{form}s" for form in forms)
    if not probes:
        raise InputError("judge", judge.id, "a judge that answers pairs or scores, as its `kinds` declares")
    missing = [
        (judge.id, probe.name, f"needs {form}s, but the judge is asked for {answers}")
        for form in whole.keys() - {*forms}
        for probe in whole[form]
        if probe.name not in asked
    ]
    if own is None:
        systems = [str(name) for name in dict.fromkeys(data.candidates["system"]) if name]
        why = f"set own to the judge's own system: {', '.join(systems)}"
        why = why if systems else "the data set does not say which system wrote which text"
        missing.append((judge.id, SelfPreference.name, why))
    return probes, missing


def _by_form(protocol: Given | Sequence[Given] | None) -> dict[str, Protocol]:
    """Load protocols, at most one per form."""
    listed = [protocol] if isinstance(protocol, str | PathLike | Protocol) else protocol or ()
    protocols: dict[str, Protocol] = {}
    for loaded in map(Protocol.loaded, listed):
        require_one_of("protocol.form", loaded.form, ("pair", "score"))
        if loaded.form in protocols:
            names = f"{protocols[loaded.form].name} and {loaded.name}"
            raise InputError("protocol", names, f"one protocol for {loaded.form}s", "screen them one after the other")
        protocols[loaded.form] = loaded
    return protocols


def _forms_of(judge: Judge) -> set[str]:
    """Return the forms (pair, score) that a judge answers without a protocol."""
    if judge.kinds & {Choice, Completion}:
        return {"pair", "score"}
    return {form for form, kind in (("pair", Compare), ("score", Score)) if kind in judge.kinds}


def _of_pairs(attributes: Sequence[str], protocol: Protocol | None, own: str | None, seed: int) -> list[Probe]:
    """Return the probes for a judge that compares pairs."""
    again = protocol is not None and protocol.answer == "text" and protocol.temperature > 0
    how: dict[str, Any] = {"protocol": protocol, "replicates": _VERDICTS if again else 1, **_seeded(seed)}
    mine = SelfPreference(attributes, own=own, asks=("pairs",), **how)
    length = Verbosity(attributes, asks=("pairs",), **how)
    return [Position(attributes, templates=(1,), **how), length, *[mine] * (own is not None)]


def _of_scores(attributes: Sequence[str], protocol: Protocol | None, own: str | None, seed: int) -> list[Probe]:
    """Return the probes for a judge that scores; all ask the same questions."""
    how: dict[str, Any] = {"protocol": protocol, **_seeded(seed)}
    again: dict[str, Any] = {"max_tokens": 16} if protocol is None else {}
    mine = SelfPreference(attributes, own=own, asks=("scores",), scale=SCALE, **how)
    return [
        Verbosity(attributes, scale=SCALE, **how),
        Consistency(attributes, scales=(SCALE,), joint=False, levels=("interval",), replicates=_SCORES, **again, **how),
        ScoreDistribution(attributes, scales=(SCALE,), samples=_SCORES, n_candidates=None, **again, **how),
        *[mine] * (own is not None),
    ]


def _seeded(seed: int) -> dict[str, Any]:
    """Return the seeds for a probe's random draws and its resampling."""
    return {"seed": seed, "resampling": Resampling(seed=seed)}
