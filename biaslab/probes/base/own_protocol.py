"""Questions that a protocol asks in place of biaslab's own prompts, and what it settles of a probe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from biaslab.core import Completion, Reply, Scalar, Status, Trial
from biaslab.core.errors import InputError
from biaslab.core.scales import Scale
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Item, Question, about_scores, read_score
from biaslab.prompts.protocols import Protocol


def settled(protocol: Protocol) -> dict[str, Any]:
    """Return the parameters of a probe that its protocol decides, whatever its form."""
    text = {"answer": "text"} if protocol.answer == "text" else {}
    return {"protocol": protocol, "temperature": protocol.temperature, **text}


def settle(probe: Any, parameters: Mapping[str, Any]) -> None:
    """Set parameters of a frozen probe that is being made."""
    for name, value in parameters.items():
        object.__setattr__(probe, name, value)


def settle_form(probe: Any, take_scores: Callable[[], None]) -> None:
    """Let the form of a probe's protocol decide whether pairs or scores are asked for (its parameter ``asks``)."""
    protocol = Protocol.of_form(probe.protocol, "pair", "score")
    if protocol.form == "score":
        take_scores()
    settle(probe, {**settled(protocol), "asks": (f"{protocol.form}s",)})


def question_of(
    protocol: object,
    dataset: Dataset,
    item: Item,
    attribute: str,
    scale: Scale,
    attributes: Sequence[str] | None = None,
    **placed: str,
) -> Question:
    """Return the question for a score: of a protocol, or of biaslab's own prompt on a scale.

    Headings, notes and edits are as `Question.rate` takes them.
    """
    if isinstance(protocol, Protocol):
        return protocol_question(protocol, dataset, item, attribute, attributes, **placed)
    return Question.rate(dataset, item, [attribute], scale, **placed)  # type: ignore[arg-type]


def read_with(protocol: object, trial: Trial, reply: Reply) -> tuple[float, Status]:
    """Return the score of a reply and its status: of a text as the protocol, if there is one, reads it."""
    if isinstance(trial.request, Completion) and isinstance(protocol, Protocol):
        return protocol.read(reply, trial.attribute)
    return read_score(trial, reply)


def protocol_column(protocol: object) -> dict[str, Scalar]:
    """Return the column that tells protocols of scores apart; of pairs, the column ``template`` does."""
    return {"protocol": protocol.id} if isinstance(protocol, Protocol) and protocol.form != "pair" else {}


def protocol_question(
    protocol: Protocol,
    dataset: Dataset,
    item: Item,
    attribute: str,
    attributes: Sequence[str] | None = None,
    heading: str = "",
    note: str = "",
    edit: str = "",
) -> Question:
    """Return the question for a score as a protocol asks it.

    Parameters
    ----------
    protocol : Protocol
        Of scores.
    dataset : Dataset
        Where definitions and the item's own variables come from.
    item : Item
        What is scored, as it is shown: its context may be empty.
    attribute : str
        What is judged.
    attributes : sequence of str, optional
        What is judged besides, where a reply judges several; all attributes of the data set by default.
    heading, note : str
        Words in brackets on a line before the candidate; a line before the last message by the user.
    edit : str
        Name of the edit with which the candidate is shown.
    """
    text = f"({heading})\n{item.text}" if heading else item.text
    shown = protocol.show(dataset, attribute, item.context_id, [item.candidate_id], [text])
    shown["context"] = item.context
    named = dataset.require_attributes(attributes) if protocol.joint else (attribute,)
    scale = protocol.scale
    about = about_scores(replace(item, text=text), named, scale, edit=edit)
    about = replace(
        about, labels=scale.labels, source=about.source and "context" in protocol.sources, protocol=protocol
    )
    return Question(item, attribute, protocol.messages(shown, note), scale, about)


def require_source_slot(protocol: Protocol) -> None:
    """Raise `InputError` unless a protocol shows the source."""
    if "context" not in protocol.sources:
        raise InputError("protocol", protocol.id, "one whose template shows the context", "without it, nothing differs")
