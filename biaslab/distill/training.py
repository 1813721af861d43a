"""Train an evaluator on what a judge said: regression or classification, early stopping, taken up after a kill."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core.checked import checked
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.progress import progress_bar
from biaslab.distill.checkpoints import remove_checkpoints
from biaslab.distill.evaluator import Evaluator, load_evaluator
from biaslab.distill.evaluator_files import CARD
from biaslab.distill.examples import EXAMPLES
from biaslab.distill.learning import Learning, State
from biaslab.distill.settings import Settings
from biaslab.stats import require_columns


@checked
def train(
    examples: pd.DataFrame,
    attribute: str | None = None,
    settings: Settings | None = None,
    *,
    folder: str | PathLike[str] | None = None,
    states: str | PathLike[str] | None = None,
    store: str | PathLike[str] | None = None,
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
    >>> found = bl.distill.examples(trials, data)
    >>> evaluator = train(found, inputs="output", epochs=2, progress=False)          # doctest: +SKIP
    >>> evaluator.score(found["text"])                                              # doctest: +SKIP
    """
    given = replace(settings or Settings(), **changes)
    frame = choose_examples(examples, attribute)
    name = str(frame["attribute"].iloc[0])
    run = run_digest(frame, given)
    folder, states = keep_where(store, folder, states, given.encoder, run)
    done = folder is not None and (Path(folder) / CARD).is_file()
    evaluator = load_evaluator(folder, given.encoder, device) if folder and done else Evaluator(name, given, device)
    if states is not None and not given.trainable:
        evaluator.encoder.keep(Path(states))
    if done:
        if evaluator.training.get("run") != run:
            raise InputError("folder", str(folder), "an empty folder", "it holds an evaluator of another run")
        return evaluator
    learning = Learning(evaluator, frame, given)
    state = State() if folder is None else learning.resume(Path(folder), run)
    with progress_bar(
        total=given.most_epochs, initial=state.epoch, desc=f"{name}: epochs", disable=not progress, leave=False
    ) as bar:
        while state.epoch < given.most_epochs and state.waited < given.most_waits:
            learning.epoch(state)
            bar.update()
            if folder is not None:
                learning.keep(Path(folder), state, run)
    evaluator.load_weights(state.best or evaluator.weights())
    counted = {"examples": len(frame), "contexts": int(frame["context_id"].nunique())}
    evaluator.training = {"best_epoch": state.best_epoch, **counted, "history": state.history, "run": run}
    if folder is not None:
        evaluator.save(folder)
        remove_checkpoints(Path(folder))
    return evaluator


def choose_examples(examples: pd.DataFrame, attribute: str | None) -> pd.DataFrame:
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


def keep_where(
    store: str | PathLike[str] | None,
    folder: str | PathLike[str] | None,
    states: str | PathLike[str] | None,
    *depends: object,
) -> tuple[str | PathLike[str] | None, str | PathLike[str] | None]:
    """Return where evaluators and vectors are kept: where somebody said, else beside the store."""
    if store is None:
        return folder, states
    tables = Path(store).with_suffix(".tables")
    digest = hashlib.sha256(repr((version("biaslab"), *depends)).encode()).hexdigest()[:16]
    return folder or tables / f"evaluator-{digest}", states or tables


def run_digest(frame: pd.DataFrame, settings: Settings) -> str:
    """Return what tells one run from another: examples and settings, but not where the encoder lies."""
    values = {name: value for name, value in settings.as_json().items() if name != "encoder"}
    rows = frame[[*EXAMPLES[:-1]]].to_json(orient="values", double_precision=15)
    return hashlib.sha256(f"{json.dumps(values, sort_keys=True)}\n{rows}".encode()).hexdigest()[:16]
