"""Write a constructed log of a judge to try out an audit."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from biaslab.core.files import write_csv
from biaslab.core.interfaces import Judge
from biaslab.core.schema import Dataset
from biaslab.probes import OutputOrder, Position
from biaslab.store import Store
from biaslab.study.collect import collect

_VERDICTS = {1.0: "So it is [[A]].", 0.0: "So it is [[B]].", 0.5: "A tie: [[C]]."}
_FIELDS = {"context_id": "question", "candidate_id": "A", "opponent_id": "B"}
_KEPT = ["context_id", "candidate_id", "attribute", "replicate", "human", "scale", "form", "order"]


def write_log(
    folder: str | PathLike[str],
    judge: Judge,
    dataset: Dataset,
    attributes: Sequence[str] | None = None,
    seed: int = 0,
    store: Store | str | PathLike[str] | None = None,
) -> list[Path]:
    """Ask a judge for pairs and scores and write its answers in two common log formats.

    Like real logs, they contain a truncated line and duplicate judgements, one of them without a verdict.

    Parameters
    ----------
    folder : path
        Output folder for ``pairs.jsonl`` (verdicts in brackets) and ``scores.csv`` (a table of replies).
    judge : Judge
        A judge that answers with text.
    dataset : Dataset
        The data to judge.
    attributes : sequence of str, optional
        The first two are scored, and pairs are compared on the first; default: those of the data set.
    seed, store
        As for probes and `biaslab.collect`.

    Examples
    --------
    >>> import tempfile
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = write_log(folder, bl.SimulatedJudge(data), data)
    ...     trials = bl.read_judgements(folder)
    >>> [path.name for path in paths], trials.attrs["malformed"], trials.attrs["duplicates"]
    (['pairs.jsonl', 'scores.csv'], 1, 2)
    """
    names = list(attributes or dataset.attributes)[:2]
    paths = [Path(folder) / name for name in ("pairs.jsonl", "scores.csv")]
    asked = Position(names[:1], [1], n_pairs=6, answer="text", seed=seed)
    pairs = collect(asked, judge, dataset, store, progress=False)
    log = pairs.rename(columns=_FIELDS)[list(_FIELDS.values())].assign(judge="constructed", dataset=dataset.name)
    log["judgment"] = pairs["value"].map(_VERDICTS).fillna("I like both.")
    lines = log.to_json(orient="records", lines=True, force_ascii=False).splitlines()
    lines += [lines[0], lines[1][:40], lines[2].replace("[[", "").replace("]]", "")]
    paths[0].write_text("\n".join(lines) + "\n", encoding="utf-8")

    orders = OutputOrder(names, ["ex"], ["s", "sr", "rs"], [False], scale="1-5", replicates=2, seed=seed)
    scores = collect(orders, judge, dataset, store, progress=False)
    table = scores[_KEPT].assign(judge="constructed", dataset=dataset.name, configuration=scores["order"])
    table["reply"] = scores["value"].map("Score: {:g}".format, na_action="ignore").fillna("No score.")
    write_csv(table, paths[1])
    return paths
