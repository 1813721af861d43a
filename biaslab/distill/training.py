"""Train evaluators on a judge's labels: one on all examples, one per fold, or one per attribute.

Figures 3 and 5 of Wang et al. (2023) are learning curves of this kind.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

from biaslab.core.arrays import Ints
from biaslab.core.checks import is_whole, require_whole
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.output import AnyPath, progress_bar
from biaslab.core.schema import Dataset
from biaslab.distill.annotation import EXAMPLES
from biaslab.distill.checkpoints import Tensors, TrainingRun, remove_checkpoints
from biaslab.distill.ensembles import Evaluators, fingerprint, save_folds
from biaslab.distill.evaluator import CARD, Evaluator, features, load_evaluator
from biaslab.distill.settings import Settings
from biaslab.measures.scoring.scorers import SCORES
from biaslab.stats.blocks import ITEM
from biaslab.stats.frame import require_columns


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
    saved = folder if folder and done else None
    evaluator = load_evaluator(saved, settings.encoder, device) if saved else Evaluator(name, settings, device)
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
        how: dict[str, Any] = {"folder": where, "states": states, "device": device, "progress": progress}
        trained.append(train(frame[~mine], None, fold_settings, **how))
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


class Learning(TrainingRun):
    """Training run of an evaluator; one step is one epoch.

    Attributes
    ----------
    history : list of list of float
        A row ``[epoch, training loss, validation loss]`` per epoch, without the last if nothing is held out.
    best_epoch : int
        Epoch with the smallest validation loss, or the last one; 0 before the first.
    best : mapping of str to torch.Tensor
        The weights after that epoch.
    """

    def __init__(self, evaluator: Evaluator, frame: pd.DataFrame, settings: Settings, identity: str) -> None:
        self.evaluator, self.settings, self.identity = evaluator, settings, identity
        self.history: list[list[float]] = []
        self.best_epoch = 0
        self.best: Tensors = {}
        columns = ["text", *evaluator.needs]
        self._texts = [frame[name].tolist() for name in columns]
        for name, values in zip(columns, self._texts, strict=True):
            if any(not value.strip() for value in values):
                raise InputError.plain(f'some examples have no {name}; choose inputs other than "{settings.inputs}"')
        self._labels = torch.tensor(frame["label"].to_numpy(np.float32), device=evaluator.encoder.device)
        self._train, self._validation = _split(frame, settings)
        evaluator.start_at(self._targets(self._train).mean(0))
        encoder = evaluator.encoder
        layers = {"params": list(encoder.trained().values()), "lr": settings.encoder_rate}
        head = {"params": list(evaluator.head.parameters()), "lr": settings.learning_rate}
        parts = [head, layers] if layers["params"] else [head]
        self.optimizer = torch.optim.AdamW(parts, weight_decay=settings.weight_decay)
        self._cuda = encoder.device.startswith("cuda")
        self._vectors = None if encoder.trained() else evaluator.vectors(self._texts)

    @property
    def step(self) -> int:
        """The last completed epoch, 0 before the first."""
        return len(self.history)

    @property
    def is_over(self) -> bool:
        """Whether all epochs are done, or too many in a row brought no improvement."""
        return self.step >= self.settings.most_epochs or self.step - self.best_epoch >= self.settings.most_waits

    def advance(self) -> dict[str, float]:
        """Train for one epoch, then validate."""
        with torch.random.fork_rng(devices=[torch.cuda.current_device()] if self._cuda else []):
            torch.manual_seed(_mixed(self.settings.seed, self.step))
            losses = [self._learn(torch.randperm(len(self._train)).numpy())]
        lowest = self.history[self.best_epoch - 1][-1] if self.best_epoch else float("inf")
        if len(self._validation):
            losses.append(self._mean_loss(self._validation))
        self.history.append([self.step + 1, *losses])
        if not len(self._validation) or losses[-1] < lowest:
            self.best_epoch, self.best = self.step, self.evaluator.weights()
        return {"loss": losses[-1]}

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """Return the weights, the best ones and the history."""
        weights = {f"now:{name}": tensor for name, tensor in self.evaluator.weights().items()}
        weights |= {f"best:{name}": tensor for name, tensor in self.best.items()}
        return weights, {"best_epoch": self.best_epoch, "history": self.history}

    def restore(self, tensors: Tensors, record: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        now, self.best = (
            {name.removeprefix(part): tensor for name, tensor in tensors.items() if name.startswith(part)}
            for part in ("now:", "best:")
        )
        self.evaluator.load_weights(now)
        self.best_epoch, self.history = record["best_epoch"], record["history"]

    def _learn(self, order: Ints) -> float:
        """Pass once through the examples in the given order; return the mean loss."""
        evaluator, size = self.evaluator, self.settings.batch_size
        evaluator.encoder.learn(True)
        evaluator.head.train()
        total = 0.0
        for start in range(0, len(order), size):
            batch = self._train[order[start : start + size]]
            self.optimizer.zero_grad()
            for part in np.array_split(batch, min(self.settings.accumulate, len(batch))):
                loss = self._losses(part).sum()
                (loss / len(batch)).backward()  # type: ignore[no-untyped-call]
                total += float(loss.detach())
            self.optimizer.step()
        evaluator.encoder.learn(False)
        evaluator.head.eval()
        return total / len(order)

    @torch.no_grad()
    def _mean_loss(self, rows: Ints) -> float:
        parts = np.array_split(rows, -(-len(rows) // 512))
        return float(sum(float(self._losses(part).sum()) for part in parts) / len(rows))

    def _losses(self, rows: Ints) -> torch.Tensor:
        """Return the loss of each example."""
        with torch.autocast("cuda", torch.bfloat16, enabled=self._cuda and self._vectors is None):
            outputs = self.evaluator.head(features(*self._inputs(rows))).float()
        targets = self._targets(rows)
        if self.settings.loss == "regression":
            return torch.square(outputs - targets).squeeze(1)
        return torch.nn.functional.cross_entropy(outputs, targets, reduction="none")

    def _targets(self, rows: Ints) -> torch.Tensor:
        """Return the target outputs of the head for some examples, shape (rows, 1) or (rows, stars)."""
        labels = self._labels[torch.tensor(rows, device=self._labels.device)]
        if self.settings.loss == "regression":
            return labels.unsqueeze(1)
        return shared_between_stars(labels, self.settings.stars)

    def _inputs(self, rows: Ints) -> Sequence[torch.Tensor]:
        """Return the vectors of outputs, sources and references of some examples; each text is encoded once."""
        if self._vectors is None:
            return self.evaluator.vectors([[part[i] for i in rows] for part in self._texts])
        return [vectors[torch.tensor(rows, device=vectors.device)] for vectors in self._vectors]


def shared_between_stars(labels: torch.Tensor, stars: int) -> torch.Tensor:
    """Return a distribution over the two nearest stars with the label as its mean, shape (labels, stars).

    Examples
    --------
    >>> shared_between_stars(torch.tensor([1.0, 0.625]), 5).tolist()
    [[0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.5, 0.5, 0.0]]
    """
    place = (labels * (stars - 1)).unsqueeze(1)
    return (1 - (torch.arange(stars, device=labels.device) - place).abs()).clamp(min=0)


def groups(examples: pd.DataFrame) -> pd.Series:
    """Return each example's group, which splits keep together: the source's text or, without one, the context."""
    return examples["source"].where(examples["source"].str.strip() != "", "context " + examples["context_id"])


def _split(frame: pd.DataFrame, settings: Settings) -> tuple[Ints, Ints]:
    """Return the training and validation rows, split by context."""
    names = groups(frame)
    contexts = names.drop_duplicates().to_numpy(object)
    size = max(round(settings.validation * len(contexts)), 1) if settings.validation else 0
    if size >= len(contexts):
        allowed = "at least two contexts, or validation=0"
        raise InputError.plain(f"examples has {len(contexts)} contexts, expected: {allowed}; annotate more sources")
    drawn = np.random.default_rng(settings.seed).permutation(contexts)[:size]
    out = names.isin(drawn).to_numpy()
    return np.flatnonzero(~out), np.flatnonzero(out)


def _mixed(seed: int, epoch: int) -> int:
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def students(
    examples: pd.DataFrame,
    attributes: Sequence[str] | None = None,
    folds: int = 5,
    repeats: int = 1,
    *,
    inputs: str | Mapping[str, str] = "reference-free",
    store: AnyPath | None = None,
    progress: bool = True,
    **settings: Any,
) -> dict[str, Evaluators]:
    """Cross-fit one evaluator for each attribute.

    Parameters
    ----------
    examples : pandas.DataFrame
        Texts and labels, as returned by `biaslab.distill.examples` or `annotate`.
    attributes : sequence of str, optional
        Attributes to learn; by default all in the examples.
    folds : int
        As in `cross_fit`; at most the number of contexts.
    repeats, store, progress, **settings
        As in `cross_fit`.
    inputs : str or mapping of str to str
        What the students see, as in `Settings`; a mapping by attribute if it differs.

    Returns
    -------
    dict of str to Evaluators
        By attribute, for `EvaluatorJudge`, `WeightedEvaluators` and `scores_of`.

    Raises
    ------
    InputError, TrialsError, ModelLoadError
        As in `cross_fit`.

    Examples
    --------
    >>> judges = students(labelled, inputs="output", epochs=2)  # doctest: +SKIP
    """
    require_columns(examples, ["attribute", "context_id"], "examples")
    wanted = list(dict.fromkeys(examples["attribute"])) if attributes is None else list(attributes)
    folds = min(folds, examples["context_id"].nunique())
    shown = inputs if isinstance(inputs, Mapping) else dict.fromkeys(wanted, inputs)
    missing = [each for each in wanted if each not in shown]
    if missing:
        raise InputError("inputs", inputs, f"inputs for {', '.join(missing)}")
    how = {"store": store, "progress": progress, **settings}
    return {each: cross_fit(examples, each, folds, repeats, inputs=shown[each], **how) for each in wanted}


def scores_of(
    examples: pd.DataFrame,
    dataset: Dataset,
    given: str | Mapping[str, Evaluators] = "label",
    scorer: str = "teacher",
    judge: str = "student",
) -> pd.DataFrame:
    """Return labels, or the students' scores of the same texts, as a scores frame.

    Parameters
    ----------
    examples : pandas.DataFrame
        Texts and labels, as returned by `biaslab.distill.examples` or `annotate`.
    dataset : Dataset
        The data set of these texts.
    given : str or mapping of str to Evaluators
        A column of scores, or evaluators by attribute, such as those of `students`, which then score the texts.
    scorer, judge : str
        Values of these columns in the frame.

    Returns
    -------
    pandas.DataFrame
        A scores frame for `biaslab.scoring.agreement`, one row per example.

    Raises
    ------
    InputError
        If an attribute of the examples has no evaluator.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> labelled = bl.distill.annotate(bl.SimulatedJudge(data), data, ["fluency"], progress=False)
    >>> scores_of(labelled, data, judge="simulated")["score"].equals(labelled["label"])
    True
    """
    require_columns(examples, EXAMPLES, "examples")
    values = np.full(len(examples), np.nan)
    for attribute, at in examples.reset_index(drop=True).groupby("attribute", sort=False).groups.items():
        rows = examples.iloc[at]
        if isinstance(given, str):
            require_columns(examples, [given], "examples")
            values[at] = rows[given]
        elif attribute not in given:
            raise InputError.plain(f"given has no evaluator of {attribute}")
        else:
            values[at] = given[str(attribute)].score(*(rows[name].tolist() for name in ("text", "source", "reference")))
    whose = {"scorer": scorer, "judge": judge, "dataset": dataset.name}
    return examples[[*ITEM, "attribute"]].assign(**whose, score=values)[list(SCORES)]


def rated_by(examples: pd.DataFrame, dataset: Dataset, annotator: str, label: bool = True) -> Dataset:
    """Return the data set with labels of examples instead of human scores.

    Parameters
    ----------
    examples : pandas.DataFrame
        Texts and labels, as returned by `biaslab.distill.examples` or `annotate`.
    dataset : Dataset
        The data set of these texts.
    annotator : str
        Name of the annotator.
    label : bool
        Use the labels, mapped to the data set's scale; otherwise the human scores of the examples, so that both
        concern the same texts.

    Returns
    -------
    Dataset
        With the attributes of the examples.

    Raises
    ------
    InputError
        If an attribute of the examples is not in the data set.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> labelled = bl.distill.annotate(bl.SimulatedJudge(data), data, ["fluency"], progress=False)
    >>> rated = rated_by(labelled, data, "simulated")
    >>> list(rated.attributes), len(rated.human), bool(rated.human["score"].between(*data.scale).all())
    (['fluency'], 12, True)
    """
    require_columns(examples, EXAMPLES, "examples")
    names = dataset.require_attributes(list(dict.fromkeys(examples["attribute"])))
    low, high = dataset.scale
    scores = low + (high - low) * examples["label"] if label else examples["human"]
    human = examples[[*ITEM, "attribute"]].assign(annotator=annotator, score=scores).dropna()
    return replace(dataset, human=human, attributes={name: dataset.attributes[name] for name in names})


def ratings(examples: pd.DataFrame, dataset: Dataset, teacher: str = "teacher") -> dict[str, Dataset]:
    """Return the data set once as the teacher rated it and, if its texts have human scores, once as humans did.

    Parameters
    ----------
    examples, dataset
        As in `rated_by`.
    teacher : str
        Name of the annotator of the labels.

    Returns
    -------
    dict of str to Dataset
        For `biaslab.scoring.agreement`: "teacher", and "humans" or, of a constructed data set, "reference scores".

    Raises
    ------
    InputError
        If an attribute of the examples is not in the data set.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> labelled = bl.distill.annotate(bl.SimulatedJudge(data), data, ["fluency"], progress=False)
    >>> list(ratings(labelled, data))
    ['teacher', 'reference scores']
    """
    rated = {"teacher": rated_by(examples, dataset, teacher)}
    if examples["human"].notna().any():
        humans = "reference scores" if "constructed" in dataset.name else "humans"
        rated[humans] = rated_by(examples, dataset, humans, label=False)
    return rated


def learning_curve(
    examples: pd.DataFrame,
    dataset: Dataset,
    counts: Sequence[int],
    fewer: Literal["sources", "texts"] = "sources",
    folds: int = 5,
    *,
    scorer: str = "student",
    seed: int = 0,
    store: AnyPath | None = None,
    progress: bool = True,
    **settings: Any,
) -> pd.DataFrame:
    """Score all texts with students trained on fewer examples, cross-fitted by source.

    Parameters
    ----------
    examples : pandas.DataFrame
        Texts and labels, as returned by `biaslab.distill.examples` or `annotate`.
    dataset : Dataset
        The data set of these texts.
    counts : sequence of int
        Numbers of training texts. Numbers that exceed the folds are skipped.
    fewer : {"sources", "texts"}
        Train on all texts of some sources, about ``counts`` in total (Figure 3), or on ``counts`` texts of each
        (Figure 5).
    folds : int
        Number of folds of contexts; those of a fold are scored by a student of the others.
    scorer : str
        Name of the students in the frame.
    seed : int
        Random seed of folds, sources and initial weights.
    store, progress, **settings
        As in `train`.

    Returns
    -------
    pandas.DataFrame
        A scores frame like that of `scores_of` with a column ``annotations``: the number of training texts, averaged
        over folds.

    Raises
    ------
    InputError, TrialsError, ModelLoadError
        As in `train`.

    Examples
    --------
    >>> curve = learning_curve(labelled, data, [40, 100], inputs="output")          # doctest: +SKIP
    >>> bl.scoring.agreement(curve, data, by=["annotations"])[["annotations", "estimate"]]  # doctest: +SKIP
    """
    require_columns(examples, EXAMPLES[:-1], "examples")
    examples = examples.reset_index(drop=True)
    folds = min(folds, examples["context_id"].nunique())
    require_whole("folds", folds, 2)
    contexts = np.random.default_rng(seed).permutation(examples["context_id"].unique())
    place = examples["context_id"].map(dict(zip(contexts, np.arange(len(contexts)) % folds, strict=True)))
    sizes = examples.groupby(["attribute", "context_id"]).size()
    most = sizes.min() if fewer == "texts" else int(sizes.groupby("attribute").sum().min() * (1 - 1 / folds))
    frames = []
    for count in [count for count in counts if count < most]:
        values, used = np.full(len(examples), np.nan), []
        for key, group in examples.groupby(["attribute", place], sort=False):
            attribute, fold = str(key[0]), int(str(key[1]))
            rest = examples[(examples["attribute"] == attribute) & (place != fold)]
            chosen = _of_each_source(rest, count, fold) if fewer == "texts" else _sources(rest, count, seed, fold)
            student = train(chosen, None, store=store, progress=progress, seed=seed, **settings)
            values[group.index] = student.score(*(group[name].tolist() for name in ("text", "source", "reference")))
            used.append(len(chosen))
        whose = {"scorer": scorer, "judge": "student", "dataset": dataset.name}
        frame = examples[[*ITEM, "attribute"]].assign(**whose, score=values)
        frames.append(frame.assign(annotations=int(np.mean(used))))
    columns = [*SCORES, "annotations"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def _sources(rest: pd.DataFrame, count: int, seed: int, fold: int) -> pd.DataFrame:
    """Return about ``count`` texts: all texts of some sources."""
    size = rest.groupby("context_id").size()
    order = np.random.default_rng([seed, fold]).permutation(size.index)
    return rest[rest["context_id"].isin(order[: max(2, int((size[order].cumsum() <= count).sum()))])]


def _of_each_source(rest: pd.DataFrame, count: int, fold: int) -> pd.DataFrame:
    """Return ``count`` texts of each source."""
    return rest.sample(frac=1, random_state=fold).groupby("context_id").head(count).sort_index()
