"""Students of a judge: one evaluator per attribute, their scores, and their learning curves.

Figures 3 and 5 of Wang et al. (2023) are learning curves of this kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from biaslab.core.checks import require_whole
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.distill.ensembles import Evaluators
from biaslab.distill.labelling import EXAMPLES
from biaslab.distill.settings import AnyPath
from biaslab.distill.training import cross_fit, train
from biaslab.measures.scoring.scorer import SCORES
from biaslab.stats import ITEM, require_columns


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
            raise InputError("given", sorted(given), f"an evaluator of {attribute}")
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
