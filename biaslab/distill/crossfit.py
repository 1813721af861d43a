"""Cross-fitting: one evaluator a fold of contexts, so that each text is judged by one that never saw its source."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core.checked import checked
from biaslab.core.checks import is_whole, require_whole
from biaslab.core.errors import InputError, ModelLoadError
from biaslab.core.output import replacing
from biaslab.core.progress import progress_bar
from biaslab.distill.evaluator import Evaluator, load_evaluator
from biaslab.distill.learning import groups
from biaslab.distill.settings import Score, Settings
from biaslab.distill.training import choose_examples, keep_where, run_digest, train

FOLDS = "folds.json"
_FORMAT = "biaslab cross-fitted evaluators 1"


@checked(eager=True)
class Evaluators:
    """Cross-fitted evaluators of one attribute: each judges the contexts that it was not taught on.

    Parameters
    ----------
    folds : sequence of Evaluator
        One a fold, for each of the repeats.
    held_out : mapping of str to sequence of int
        Fingerprint of a source, and of a text → which of the evaluators saw no example of its context.

    Raises
    ------
    InputError
        If they differ in attribute or inputs.

    Notes
    -----
    A text is judged by those that did not see its source; the score is their mean. A source that none of them saw is
    judged by all. Without a source a text is known by itself.
    """

    def __init__(self, folds: Sequence[Evaluator], held_out: Mapping[str, Sequence[int]]) -> None:
        if len({(e.attribute, e.settings.inputs) for e in folds}) != 1:
            raise InputError("folds", len(folds), "evaluators of one attribute and with the same inputs")
        self.folds = list(folds)
        self.held_out = {mark: tuple(numbers) for mark, numbers in held_out.items()}

    def __repr__(self) -> str:
        return f"Evaluators({self.id!r})"

    @property
    def attribute(self) -> str:
        """What they judge."""
        return self.folds[0].attribute

    @property
    def needs(self) -> tuple[str, ...]:
        """What must be given beside the text."""
        return self.folds[0].needs

    @property
    def id(self) -> str:
        """Attribute, encoder, inputs and a digest of all that a score depends on."""
        return f"{self.folds[0].id.partition('@')[0]}:{len(self.folds)} folds@{self.digest}"

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that change with any of the evaluators and with who judges what."""
        pinned = [[e.digest for e in self.folds], sorted(self.held_out.items())]
        return hashlib.blake2b(json.dumps(pinned).encode()).hexdigest()[:16]

    def score(
        self,
        texts: Sequence[str],
        sources: Sequence[str] | None = None,
        references: Sequence[str] | None = None,
    ) -> NDArray[np.float64]:
        """Return the score of each text, shape (texts,); see `Evaluator.score`."""
        given = zip(texts, sources or [""] * len(texts), strict=True)
        judges = [self.unseen_by(text, source) for text, source in given]
        found = np.zeros(len(judges))
        for number, evaluator in enumerate(self.folds):
            mine = [i for i, numbers in enumerate(judges) if number in numbers]
            parts = [None if p is None else [p[i] for i in mine] for p in (texts, sources, references)]
            found[mine] += evaluator.score(*parts) / [len(judges[i]) for i in mine]  # type: ignore[arg-type]
        return found

    def taking(self, score: Score) -> Evaluators:
        """Return evaluators with the same weights whose score is the expected star, or the likeliest one."""
        return Evaluators([evaluator.taking(score) for evaluator in self.folds], self.held_out)

    def unseen_by(self, text: str, source: str = "") -> tuple[int, ...]:
        """Return which evaluators saw no example of a source or, without one, of a text: who judges it."""
        mark = _mark("source", source) if source.strip() else _mark("text", text)
        return self.held_out.get(mark, tuple(range(len(self.folds))))

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write each evaluator in a folder of its own, and ``folds.json``.

        Returns
        -------
        Path
            The folder.
        """
        path = Path(folder)
        for number, evaluator in enumerate(self.folds):
            evaluator.save(path / f"fold-{number}")
        _save_folds(self, path)
        return path


@checked
def cross_fit(
    examples: pd.DataFrame,
    attribute: str | None = None,
    folds: int = 5,
    repeats: int = 1,
    settings: Settings | None = None,
    *,
    folder: str | PathLike[str] | None = None,
    states: str | PathLike[str] | None = None,
    store: str | PathLike[str] | None = None,
    device: str | None = None,
    progress: bool = True,
    **changes: Any,
) -> Evaluators:
    """Train one evaluator for each fold of contexts, on the contexts of all other folds.

    Parameters
    ----------
    examples, attribute, settings, states, store, device, progress, **changes
        As for `biaslab.distill.train`. The seed draws the folds too.
    folds : int
        At least 2.
    repeats : int
        How often, with seeds that count up from that of the settings: they draw the folds, the first weights and the
        validation contexts. The mean of the scores owes less to one draw: pooled over contexts, evaluators that stopped
        at different epochs are not on one level.
    folder : path, optional
        Each evaluator is kept in a folder of its own below it while it learns; a run that was killed is taken up again.

    Returns
    -------
    Evaluators
        Asked about a source of the examples, the evaluator that never saw it answers.

    Raises
    ------
    InputError, TrialsError, ModelLoadError
        As from `biaslab.distill.train`; also if there are fewer contexts than folds.

    Examples
    --------
    >>> student = cross_fit(found, "coherence", folds=5)   # doctest: +SKIP
    >>> student.score(found["text"], found["source"])      # doctest: +SKIP
    """
    frame = choose_examples(examples, attribute)
    names = groups(frame)
    contexts = names.drop_duplicates().to_numpy(object)
    if not is_whole(folds, 2, len(contexts)):
        raise InputError("folds", folds, f"a whole number from 2 to {len(contexts)}, the contexts of the examples")
    require_whole("repeats", repeats, 1)
    given = replace(settings or Settings(), **changes)
    folder, states = keep_where(store, folder, states, given.encoder, folds, repeats, run_digest(frame, given))
    made: list[Evaluator] = []
    held_out: dict[str, list[int]] = {}
    for number in progress_bar(range(folds * repeats), desc="folds", disable=not progress, leave=False):
        here = replace(given, seed=given.seed + number // folds)
        order = np.random.default_rng(here.seed).permutation(len(contexts))
        mine = names.isin(contexts[order[number % folds :: folds]])
        where = None if folder is None else Path(folder) / f"fold-{number}"
        made.append(train(frame[~mine], None, here, folder=where, states=states, device=device, progress=progress))
        for kind in ("text", "source"):
            for shown in dict.fromkeys(frame.loc[mine, kind].astype(str)):
                if shown.strip():
                    held_out.setdefault(_mark(kind, shown), []).append(number)
    found = Evaluators(made, held_out)
    if folder is not None:
        _save_folds(found, Path(folder))  # the evaluators are there already
    return found


@checked
def load_evaluators(folder: str | PathLike[str], encoder: str | None = None, device: str | None = None) -> Evaluators:
    """Load cross-fitted evaluators; see `biaslab.distill.load_evaluator`.

    Raises
    ------
    ModelLoadError
        If they are not there, or not what biaslab wrote.
    """
    path = Path(folder)
    try:
        card = json.loads((path / FOLDS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{FOLDS} in {str(folder)!r} cannot be read: {error}") from error
    fits = isinstance(card, dict) and set(card) == {"format", "folds", "held_out"} and card["format"] == _FORMAT
    if not fits or not is_whole(card["folds"], 2, 1000) or not isinstance(card["held_out"], dict):
        raise ModelLoadError(f"{FOLDS} in {str(folder)!r} does not describe evaluators of the format {_FORMAT!r}")
    count, every = card["folds"], card["held_out"].values()
    if not all(isinstance(some, list) and some and all(is_whole(n, 0, count - 1) for n in some) for some in every):
        raise ModelLoadError(f"{FOLDS} in {str(folder)!r} names folds that are not there")
    return Evaluators([load_evaluator(path / f"fold-{i}", encoder, device) for i in range(count)], card["held_out"])


def _mark(kind: str, text: str) -> str:
    return hashlib.blake2b(f"{kind}\n{text}".encode(), digest_size=12).hexdigest()


def _save_folds(evaluators: Evaluators, path: Path) -> None:
    """Write which evaluator saw no example of which source."""
    card = {"format": _FORMAT, "folds": len(evaluators.folds), "held_out": evaluators.held_out}
    with replacing(path / FOLDS) as partial:
        partial.write_text(json.dumps(card), encoding="utf-8")
