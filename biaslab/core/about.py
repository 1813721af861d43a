"""Describe the content of a request, for judges that do not read its prompt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from biaslab.core.errors import InputError

#: A label alone, lines "attribute: label", lines "score: label", or a JSON object.
Form = Literal["bare", "lines", "text", "json"]
#: Where reasons are asked.
Reasons = Literal["none", "before", "after"]


@dataclass(frozen=True)
class About:
    """Describe the content of a request for simulated and recorded judges, which do not read prompts.

    It is no part of the request's key: what a language model answers hangs on the words alone.

    Parameters
    ----------
    context_id : str
        The context.
    candidate_ids : tuple of str
        The candidates in the order shown: one of a score, two of a pair, none where the source itself is judged.
    texts : tuple of str
        Their texts as shown.
    attributes : tuple of str
        What is judged, in the order to answer; of scores those that are still to be given. With the form ``bare`` one
        number is for all of them.
    source : bool
        Whether the source is shown.
    labels : tuple of str
        Of a pair: the answers offered, for the first, for the second, and perhaps for a tie. Of scores: what a reply
        looks like for each label of the scale, where a protocol says so.
    scale : str
        Of scores: the name of the scale, as `biaslab.core.scales.scale_named` knows it.
    form : {"bare", "lines", "text", "json"}
        Of scores: the label alone, lines ``attribute: label``, lines ``score: label``, or a JSON object.
    reasons : {"none", "before", "after"}
        Whether reasons are asked, before or after the score or the verdict.
    previous : float, optional
        Of scores: the score, on the scale, that stands just before the one asked.
    edits : tuple of str
        Names of the edits of the candidates in the order shown, "" for none; empty where nothing is edited.
    template : str
        Name of the variant of the prompt, where several are compared; empty elsewhere.
    protocol : biaslab.Protocol, optional
        What reads a reply, where it is not read as biaslab's own prompts are.

    Raises
    ------
    InputError
        If there is not one text, or not one edit, for each candidate.

    Examples
    --------
    >>> import biaslab as bl
    >>> trial = next(iter(bl.probes.Position(["fluency"]).design(bl.load_dataset("graded", limit=1))))
    >>> trial.request.about.candidate_ids, trial.request.about.attributes
    (('c1', 'c2'), ('fluency',))
    """

    context_id: str
    candidate_ids: tuple[str, ...]
    texts: tuple[str, ...]
    attributes: tuple[str, ...]
    source: bool = True
    labels: tuple[str, ...] = ()
    scale: str = ""
    form: Form = "bare"
    reasons: Reasons = "none"
    previous: float | None = None
    edits: tuple[str, ...] = ()
    template: str = ""
    protocol: Any = field(default=None, compare=False, repr=False)

    def __init__(  # by hand: one is made a judgement, and what `dataclass` writes takes three times as long
        self,
        context_id: str,
        candidate_ids: tuple[str, ...],
        texts: tuple[str, ...],
        attributes: tuple[str, ...],
        source: bool = True,
        labels: tuple[str, ...] = (),
        scale: str = "",
        form: Form = "bare",
        reasons: Reasons = "none",
        previous: float | None = None,
        edits: tuple[str, ...] = (),
        template: str = "",
        protocol: Any = None,
    ) -> None:
        held = self.__dict__
        held["context_id"], held["candidate_ids"], held["texts"] = context_id, candidate_ids, texts
        held["attributes"], held["source"], held["labels"], held["scale"] = attributes, source, labels, scale
        held["form"], held["reasons"], held["previous"], held["edits"] = form, reasons, previous, edits
        held["template"], held["protocol"] = template, protocol
        for name, given in (("edits", edits or candidate_ids), ("texts", texts)):
            if len(given) != len(candidate_ids):
                raise InputError(name, given, f"one value for each of {', '.join(candidate_ids) or 'no candidates'}")
