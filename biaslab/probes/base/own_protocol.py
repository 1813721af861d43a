"""Use a protocol in place of biaslab's own prompts: its questions, and the parameters it sets."""

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
    """Return the probe parameters set by a protocol of any form."""
    text = {"answer": "text"} if protocol.answer == "text" else {}
    return {"protocol": protocol, "temperature": protocol.temperature, **text}


def settle(probe: Any, parameters: Mapping[str, Any]) -> None:
    """Set parameters of a frozen probe during initialisation."""
    for name, value in parameters.items():
        object.__setattr__(probe, name, value)


def settle_form(probe: Any, forms: Sequence[str], take_scores: Callable[[], None]) -> None:
    """Set ``asks`` to the form of the protocol, pairs or scores, if the probe asks for any other form."""
    protocol = Protocol.of_form(probe.protocol, "pair", "score")
    if protocol.form == "score":
        take_scores()
    own = f"{protocol.form}s"
    settle(probe, settled(protocol) | ({"asks": (own,)} if set(forms) - {own} else {}))


def question_of(
    protocol: object,
    dataset: Dataset,
    item: Item,
    attribute: str,
    scale: Scale,
    attributes: Sequence[str] | None = None,
    **placed: str,
) -> Question:
    """Return the question for a score, from a protocol or from biaslab's own prompt.

    Headings, notes and edits are as in `Question.rate`.
    """
    if isinstance(protocol, Protocol):
        return protocol_question(protocol, dataset, item, attribute, attributes, **placed)
    return Question.rate(dataset, item, [attribute], scale, **placed)  # type: ignore[arg-type]


def read_with(protocol: object, trial: Trial, reply: Reply) -> tuple[float, Status]:
    """Return score and status of a reply; text is parsed by the protocol, if there is one."""
    if isinstance(trial.request, Completion) and isinstance(protocol, Protocol):
        return protocol.read(reply, trial.attribute)
    return read_score(trial, reply)


def protocol_column(protocol: object) -> dict[str, Scalar]:
    """Return the column that names a score protocol (for pairs, the column ``template`` does)."""
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
    """Return a protocol's question for a score.

    Parameters
    ----------
    protocol : Protocol
        A score protocol.
    dataset : Dataset
        Source of definitions and of the item's variables.
    item : Item
        The item to score, as shown; its context may be empty.
    attribute : str
        The attribute to judge.
    attributes : sequence of str, optional
        All attributes judged in one reply, if several; default: all of the data set.
    heading, note : str
        A heading in brackets on the line before the candidate; a note on the line before the last user message.
    edit : str
        Name of the edit applied to the candidate.
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
        raise InputError(
            "protocol",
            protocol.id,
            "a protocol whose template shows the context",
            "without it, there is nothing to compare",
        )
