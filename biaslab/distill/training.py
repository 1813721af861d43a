"""Train evaluators on a judge's labels: one on all examples, or one per fold of contexts (cross-fitting)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.checked import checked
from biaslab.core.checks import is_whole, require_whole
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.progress import progress_bar
from biaslab.distill.checkpoints import remove_checkpoints
from biaslab.distill.ensembles import Evaluators, fingerprint, save_folds
from biaslab.distill.evaluator import Evaluator, load_evaluator
from biaslab.distill.evaluator_files import CARD
from biaslab.distill.labelling import EXAMPLES
from biaslab.distill.learning import Learning, groups
from biaslab.distill.settings import AnyPath, Settings
from biaslab.stats import require_columns


@checked
def train(
    examples: pd.DataFrame,
    attribute: str | None = None,
    settings: Settings | None = None,
    *,
    folder: AnyPath | None = None,
    states: AnyPath | None = None,
    store: AnyPath | None = None,
    device: str | None = None,
    progress: bool = True,
    **changes: Any,
) -> Evaluator:
    """Train an evaluator of one attribute.

    Parameters
    ----------
    examples : pandas.DataFrame
        Texts and labels from `biaslab.distill.examples`.
    attribute : str, optional
        Which to learn, where the examples have several. ``"multiple"`` is what the multi-aspect prompt asked.
    settings : Settings, optional
        How to build and train it.
    folder : path, optional
        Where the state is kept after each epoch, and the evaluator at the end. A run that was killed is taken up again
        from there and ends with the same weights; one that had ended is read.
    states : path, optional
        Folder where the vectors of a frozen encoder are kept for other runs.
    store : path, optional
        A store of replies: evaluator and vectors are kept in the ``.tables`` beside it, unless ``folder`` or ``states``
        say where, under a name that all they depend on determines. The same run again reads them.
    device : str, optional
        Of torch: CUDA, MPS or the CPU by default. On CUDA layers that learn are computed in mixed precision.
    progress : bool
        Show a progress bar.
    **changes
        Settings that differ, by name, such as ``inputs="output", seed=1``.

    Returns
    -------
    Evaluator
        With the weights of the epoch of the smallest validation loss. ``training`` holds ``history``, one row ``[epoch,
        training loss, validation loss]`` an epoch, ``best_epoch``, ``examples``, ``contexts`` and ``run``.

    Raises
    ------
    InputError
        If the attribute is not chosen or not there, a setting is not allowed, fewer than two contexts are left to tell
        training from validation, a source or reference is blank, or the folder holds another run.
    TrialsError
        If a column is missing or a label is not from 0 to 1.
    ModelLoadError
        If the encoder cannot be loaded.

    Notes
    -----
    The paper has learning rate 1e-5, batches of 32, at most 10 epochs and early stopping; what is validated on it does
    not say. Here whole contexts are: texts about one source in both parts would let a topic be remembered. Order and
    dropout of an epoch follow from the seed and its number, so that weights and the optimiser's state are all to keep.
    The same seed gives the same weights on one machine with one number of threads.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=4)
    >>> trials = bl.collect(bl.distill.Stars(aspects=["fluency"]), bl.SimulatedJudge(data), data, progress=False)
    >>> labelled = bl.distill.examples(trials, data)
    >>> evaluator = train(labelled, inputs="output", epochs=2, progress=False)          # doctest: +SKIP
    >>> evaluator.score(labelled["text"])                                              # doctest: +SKIP
    """
    settings = replace(settings or Settings(), **changes)
    frame = _choose_examples(examples, attribute)
    name = str(frame["attribute"].iloc[0])
    run = _run_digest(frame, settings)
    folder, states = _folders(store, folder, states, settings.encoder, run)
    done = folder is not None and (Path(folder) / CARD).is_file()
    evaluator = (
        load_evaluator(folder, settings.encoder, device) if folder and done else Evaluator(name, settings, device)
    )
    if states is not None and not settings.trainable:
        evaluator.encoder.keep(Path(states))
    if done:
        if evaluator.training.get("run") != run:
            raise InputError("folder", str(folder), "an empty folder", "it contains an evaluator from another run")
        return evaluator
    learning = Learning(evaluator, frame, settings, run)
    learning.finish(folder, 1, settings.most_epochs, progress, desc=f"{name}: epochs", leave=False)
    evaluator.load_weights(learning.best or evaluator.weights())
    counts = {"examples": len(frame), "contexts": int(frame["context_id"].nunique())}
    evaluator.training = {"best_epoch": learning.best_epoch, **counts, "history": learning.history, "run": run}
    if folder is not None:
        evaluator.save(folder)
        remove_checkpoints(Path(folder))
    return evaluator


@checked
def cross_fit(
    examples: pd.DataFrame,
    attribute: str | None = None,
    folds: int = 5,
    repeats: int = 1,
    settings: Settings | None = None,
    *,
    folder: AnyPath | None = None,
    states: AnyPath | None = None,
    store: AnyPath | None = None,
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
    >>> student = cross_fit(labelled, "coherence", folds=5)   # doctest: +SKIP
    >>> student.score(labelled["text"], labelled["source"])  # doctest: +SKIP
    """
    frame = _choose_examples(examples, attribute)
    names = groups(frame)
    contexts = names.drop_duplicates().to_numpy(object)
    if not is_whole(folds, 2, len(contexts)):
        raise InputError("folds", folds, f"a whole number from 2 to {len(contexts)}, the contexts of the examples")
    require_whole("repeats", repeats, 1)
    settings = replace(settings or Settings(), **changes)
    folder, states = _folders(store, folder, states, settings.encoder, folds, repeats, _run_digest(frame, settings))
    trained: list[Evaluator] = []
    held_out: dict[str, list[int]] = {}
    for number in progress_bar(range(folds * repeats), desc="folds", disable=not progress, leave=False):
        here = replace(settings, seed=settings.seed + number // folds)
        order = np.random.default_rng(here.seed).permutation(len(contexts))
        mine = names.isin(contexts[order[number % folds :: folds]])
        where = None if folder is None else Path(folder) / f"fold-{number}"
        trained.append(train(frame[~mine], None, here, folder=where, states=states, device=device, progress=progress))
        for kind in ("text", "source"):
            for shown in dict.fromkeys(frame.loc[mine, kind].astype(str)):
                if shown.strip():
                    held_out.setdefault(fingerprint(kind, shown), []).append(number)
    evaluators = Evaluators(trained, held_out)
    if folder is not None:
        save_folds(evaluators, Path(folder))  # the evaluators are there already
    return evaluators


def _choose_examples(examples: pd.DataFrame, attribute: str | None) -> pd.DataFrame:
    """Return the examples of one attribute, checked.

    Raises
    ------
    InputError
        If there are several attributes and none is chosen, or there is no such.
    TrialsError
        If a column is missing or a label is not from 0 to 1.
    """
    require_columns(examples, EXAMPLES[:-1], "examples")
    known = list(map(str, examples["attribute"].unique()))
    if (attribute is None and len(known) != 1) or (attribute is not None and attribute not in known):
        raise InputError("attribute", attribute, f"one of {', '.join(known)}")
    frame = examples[examples["attribute"] == (attribute or known[0])].reset_index(drop=True)
    wrong = ~frame["label"].between(0, 1)
    if wrong.any():
        raise TrialsError("examples", frame.loc[wrong, "label"].iloc[0], "labels from 0 to 1")
    return frame


def _folders(
    store: AnyPath | None, folder: AnyPath | None, states: AnyPath | None, *depends: object
) -> tuple[AnyPath | None, AnyPath | None]:
    """Return the folder of evaluators and vectors: the given one, else one next to the store."""
    if store is None:
        return folder, states
    tables = Path(store).with_suffix(".tables")
    digest = hashlib.sha256(repr((version("biaslab"), *depends)).encode()).hexdigest()[:16]
    return folder or tables / f"evaluator-{digest}", states or tables


def _run_digest(frame: pd.DataFrame, settings: Settings) -> str:
    """Return the identity of a run: examples and settings, but not the encoder's location."""
    values = {name: value for name, value in settings.as_json().items() if name != "encoder"}
    rows = frame[[*EXAMPLES[:-1]]].to_json(orient="values", double_precision=15)
    return hashlib.sha256(f"{json.dumps(values, sort_keys=True)}\n{rows}".encode()).hexdigest()[:16]
