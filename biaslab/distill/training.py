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
        Texts and labels, as returned by `biaslab.distill.examples`.
    attribute : str, optional
        Attribute to learn, if the examples have several. ``"multiple"`` is that of the multi-aspect prompt.
    settings : Settings, optional
        How to build and train the evaluator.
    folder : path, optional
        Stores the state after each epoch, and the evaluator at the end. A killed run resumes from there and ends with
        the same weights; a finished one is loaded.
    states : path, optional
        Folder in which the vectors of a frozen encoder are stored for other runs.
    store : path, optional
        A store of replies: unless ``folder`` or ``states`` is given, evaluator and vectors are stored in ``.tables``
        next to it, under a name derived from everything they depend on, and are reused if the run is repeated.
    device : str, optional
        As in torch: by default CUDA, MPS or the CPU. On CUDA, trainable layers use mixed precision.
    progress : bool
        Show a progress bar.
    **changes
        Individual settings to change, for example ``inputs="output", seed=1``.

    Returns
    -------
    Evaluator
        With the weights of the epoch with the smallest validation loss. ``training`` holds ``history``, one row
        ``[epoch, training loss, validation loss]`` per epoch, ``best_epoch``, ``examples``, ``contexts`` and ``run``.

    Raises
    ------
    InputError
        If no attribute is chosen among several or it does not exist, a setting is invalid, there are fewer than two
        contexts to split into training and validation, a source or reference is blank, or the folder contains another
        run.
    TrialsError
        If a column is missing or a label is not from 0 to 1.
    ModelLoadError
        If the encoder cannot be loaded.

    Notes
    -----
    The paper uses learning rate 1e-5, batches of 32, at most 10 epochs and early stopping, without saying what it
    validates on. Here whole contexts are held out, because texts about one source in both parts would reward
    memorising topics. Order and dropout of an epoch follow from the seed and its number, so only weights and optimiser
    state need to be saved. The same seed gives the same weights on the same machine with the same number of threads.

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
        As in `biaslab.distill.train`. The seed also determines the folds.
    folds : int
        Number of folds, at least 2.
    repeats : int
        Number of repeats, with increasing seeds, which determine the folds, the initial weights and the validation
        contexts. Averaging reduces the dependence on one draw: evaluators stopped at different epochs are not on the
        same level when scores are pooled over contexts.
    folder : path, optional
        Each evaluator is stored in its own subfolder while it is trained; a killed run resumes.

    Returns
    -------
    Evaluators
        For a source of the examples, answers come from evaluators not trained on it.

    Raises
    ------
    InputError, TrialsError, ModelLoadError
        As in `biaslab.distill.train`; also if there are fewer contexts than folds.

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
        fold_settings = replace(settings, seed=settings.seed + number // folds)
        order = np.random.default_rng(fold_settings.seed).permutation(len(contexts))
        mine = names.isin(contexts[order[number % folds :: folds]])
        where = None if folder is None else Path(folder) / f"fold-{number}"
        trained.append(
            train(frame[~mine], None, fold_settings, folder=where, states=states, device=device, progress=progress)
        )
        for kind in ("text", "source"):
            for shown in dict.fromkeys(frame.loc[mine, kind].astype(str)):
                if shown.strip():
                    held_out.setdefault(fingerprint(kind, shown), []).append(number)
    evaluators = Evaluators(trained, held_out)
    if folder is not None:
        save_folds(evaluators, Path(folder))  # the evaluators have been saved
    return evaluators


def _choose_examples(examples: pd.DataFrame, attribute: str | None) -> pd.DataFrame:
    """Return the examples of one attribute, checked.

    Raises
    ------
    InputError
        If there are several attributes and none is chosen, or it does not exist.
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
