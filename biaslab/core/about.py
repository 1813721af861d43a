"""Describe the content of a request, for judges that do not read its prompt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from biaslab.core.errors import InputError

#: How scores are written: the label alone, lines "attribute: label", lines "score: label", or a JSON object.
Form = Literal["bare", "lines", "text", "json"]
#: Whether reasons are requested, and where they go.
Reasons = Literal["none", "before", "after"]


@dataclass(frozen=True)
class About:
    """Describe the content of a request for simulated and recorded judges, which do not read prompts.

    Not part of the request key: a language model's reply depends on the words alone.

    Parameters
    ----------
    context_id : str
        The context.
    candidate_ids : tuple of str
        The candidates in the order shown: one for a score, two for a pair, none if the source itself is judged.
    texts : tuple of str
        Their texts, as shown.
    attributes : tuple of str
        What is judged, in the order of the answers; for scores, those still to be given. With the form ``bare``, one
        number covers all of them.
    source : bool
        Whether the source is shown.
    labels : tuple of str
        For pairs: the answers offered for the first, the second and, if allowed, a tie. For scores: how a reply writes
        each label of the scale, if a protocol defines that.
    scale : str
        For scores: the name of the scale, for `biaslab.core.scales.scale_named`.
    form : {"bare", "lines", "text", "json"}
        For scores: the label alone, lines ``attribute: label``, lines ``score: label``, or a JSON object.
    reasons : {"none", "before", "after"}
        Whether reasons are requested before or after the score or verdict.
    previous : float, optional
        For scores: the preceding score in the prompt, on the scale.
    edits : tuple of str
        Names of the edits applied to the candidates, in the order shown; "" for an unedited one. Empty if none is
        edited.
    template : str
        Name of the prompt variant if several are compared, else empty.
    protocol : biaslab.Protocol, optional
        Parses the reply if it is not in the format of biaslab's own prompts.

    Raises
    ------
    InputError
        If the number of texts or of edits differs from the number of candidates.

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

    def __init__(  # by hand: one is made per judgement, and the `__init__` of `dataclass` takes three times as long
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
        count = len(candidate_ids)
        if len(texts) != count or len(edits or candidate_ids) != count:
            name, values = ("texts", texts) if len(edits or candidate_ids) == count else ("edits", edits)
            raise InputError(name, values, f"one value for each of {', '.join(candidate_ids) or 'no candidates'}")
