"""EvalBiasBench: 80 hand-written pairs for six kinds of bias, a good and a tempting bad response (path needed)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from biaslab.core.checks import require_some_of
from biaslab.core.errors import DatasetError
from biaslab.core.schema import Dataset
from biaslab.datasets._files import from_rows, need_path, read_json, take

REMEDY = "get biasbench.json of github.com/ncsoft/offsetbias, then load_dataset('evalbiasbench', path='biasbench.json')"
_ATTRIBUTE = "overall"


def load(path: str | Path | None = None, kinds: Sequence[str] | None = None) -> Dataset:
    """Load EvalBiasBench's JSON, plain or gzipped.

    Parameters
    ----------
    path : str or Path
        A JSON object with a list of records for each kind of bias; records have ``instruction, response1, response2``
        and ``label``, 1 or 2, the number of the good response.
    kinds : sequence of str, optional
        Kinds to use, for example ``"length"``; by default all.

    Returns
    -------
    Dataset
        Noun ``"response"``; 80 contexts, the instructions, with the candidates ``"good"`` and ``"bad"``. The score of
        ``overall`` is 1 for the good one and 0 for the bad one, by the annotator ``"gold_label"``; it is true by
        construction, not a rating. A ``context_id`` is the kind of bias, a slash and a number, so
        ``trials["context_id"].str.partition("/")[0]`` gives the kind.

    Raises
    ------
    InputError
        If no path is given, or a kind does not exist; the message lists the existing ones.
    DatasetError
        If a record lacks a field; the message names file, row and field.

    References
    ----------
    Park et al. 2024, *OffsetBias: Leveraging Debiased Data for Tuning Evaluators*, arXiv 2407.06551, §3.

    Examples
    --------
    >>> data = load("biasbench.json")  # doctest: +SKIP
    >>> trials = bl.collect(bl.probes.Position(templates=[1]), judge, data)  # doctest: +SKIP
    >>> kinds = trials.assign(subset=trials["context_id"].str.partition("/")[0])  # doctest: +SKIP
    >>> accuracy = bl.audit(kinds, only=["subsets"])  # doctest: +SKIP
    """
    file = need_path(path, REMEDY)
    document = read_json(file)
    if not isinstance(document, dict) or not document:
        raise DatasetError.plain(f"{file} is not an object with one list per kind of bias; {REMEDY}")
    named = {kind_of(key): records for key, records in document.items()}
    if kinds is not None:
        require_some_of("kinds", kinds, list(named))
    candidates, human = [], []
    for kind in named if kinds is None else kinds:
        if not isinstance(named[kind], list):
            raise DatasetError.plain(f"{file}, {kind} is not a list of records; {REMEDY}")
        for row, record in enumerate(named[kind], start=1):
            place = f"{file}, {kind}, row {row}"
            if not isinstance(record, dict):
                raise DatasetError(place, record, "a JSON object")
            instruction = take(record, "instruction", str, place).strip()
            label = take(record, "label", int, place)
            if label not in (1, 2):
                raise DatasetError(f"{place}, column 'label'", label, "1 or 2, the number of the good response")
            for name, score, number in (("good", 1.0, label), ("bad", 0.0, 3 - label)):
                text = take(record, f"response{number}", str, place).strip()
                candidates.append((f"{kind}/{row:02d}", instruction, name, "", text, ""))
                human.append((f"{kind}/{row:02d}", name, _ATTRIBUTE, "gold_label", score))
    attributes = {_ATTRIBUTE: "the response does what the instruction asks, correctly and honestly"}
    provenance = "EvalBiasBench (Park et al. 2024, arXiv 2407.06551), BSD-3-Clause. Gold labels by construction."
    return from_rows("evalbiasbench", candidates, human, attributes, (0.0, 1.0), "response", provenance)


def kind_of(name: str) -> str:
    """Return the short name of a kind of bias.

    Examples
    --------
    >>> [kind_of(name) for name in ("length bias", "nested_instruction", "familiar knowledge preference bias")]
    ['length', 'nested instruction', 'familiar knowledge']
    """
    return name.replace("_", " ").removesuffix(" bias").removesuffix(" preference")
