"""Fill the messages of a protocol with the texts of a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

from biaslab.core import About, Choice, Completion, Message, Request
from biaslab.core.errors import InputError
from biaslab.core.messages import Role
from biaslab.core.schema import Dataset
from biaslab.prompts.protocols.answering import Answering
from biaslab.prompts.protocols.listing import Candidates, Listing
from biaslab.prompts.protocols.slots import SlotText

Answer = Literal["text", "label"]
#: Slots available for every data set; any other source is a column of its candidates.
SOURCES = (
    *("context", "first", "second", "candidate", "candidates", "k", "names", "reference", "attribute", "definition"),
    *("noun", "low", "high"),
)
_PLACES = ("first", "second")


class Asking(Answering, Listing):
    """The part of `Protocol` that makes messages and requests; the fields are those of `Protocol`."""

    turns: tuple[tuple[Role, SlotText], ...]
    variables: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, str], ...]
    answer: Answer
    max_tokens: int
    temperature: float

    @property
    def sources(self) -> tuple[str, ...]:
        """Sources needed to ask: names from `SOURCES`, and columns of the data set."""
        return tuple(dict.fromkeys(source for _, source in self.variables))

    @cached_property
    def joint(self) -> bool:
        """Whether a reply judges several attributes: a pattern or JSON path has ``{attribute}``, the prompt does not.

        All of them are then asked for in one request.
        """
        return "attribute" not in self.sources and self.reader.of("attribute") != self.reader

    def show(
        self, dataset: Dataset, attribute: str, context_id: str, candidates: Sequence[str], texts: Sequence[str] = ()
    ) -> dict[str, object]:
        """Return the values for slots from a data set.

        Parameters
        ----------
        dataset : Dataset
            Source of texts and definitions.
        attribute : str
            The attribute to judge.
        context_id : str
            The context.
        candidates : sequence of str
            Its candidates in the order shown: two for a pair, one for a score, 2 to 20 for a list.
        texts : sequence of str
            Their texts as shown, if they differ from the data set's.

        Returns
        -------
        dict
            A value for each of the form's `SOURCES`, and for each of the data set's own `variables`: for a pair, those
            with equal values for both candidates, and all of them as ``first_NAME`` and ``second_NAME``.

        Examples
        --------
        >>> import biaslab as bl
        >>> mine = bl.Protocol.from_template("{first} or {second}?", verdicts={"A": 1, "B": 0})
        >>> shown = mine.show(bl.load_dataset("graded", limit=1), "coherence", "news-1", ["c1", "c2"])
        >>> sorted(shown)
        ['attribute', 'context', 'definition', 'first', 'high', 'low', 'noun', 'reference', 'second']
        """
        rows = [dataset.rows[context_id, name] for name in candidates]
        own = {name: rows[0][name] for name in dataset.variables if len({row[name] for row in rows}) == 1}
        places = _PLACES if self.form == "pair" else ("candidate",)
        if self.form == "pair":
            for place, row in zip(places, rows, strict=True):
                own |= {f"{place}_{name}": row[name] for name in dataset.variables}
        shown_texts = texts or [row["text"] for row in rows]
        shown = self._show_list(shown_texts) if self.form == "list" else dict(zip(places, shown_texts, strict=True))
        low, high = (self.points[0], self.points[-1]) if self.form == "score" else dataset.scale
        about = {"attribute": attribute, "definition": dataset.attributes[attribute], "noun": dataset.noun}
        of_item = {"context": rows[0]["context"], "reference": rows[0]["reference"]}
        return {**own, **of_item, **shown, **about, "low": f"{low:g}", "high": f"{high:g}"}

    def _show_list(self, texts: Sequence[str]) -> dict[str, object]:
        candidates = self.candidates(texts)
        names = ", ".join(entry.name for entry in candidates)
        return {"candidates": candidates, "k": str(len(candidates)), "names": names}

    def messages(self, shown: Mapping[str, object], note: str = "") -> tuple[Message, ...]:
        """Return the messages for slot values.

        Parameters
        ----------
        shown : mapping of str to object
            A value for each of `sources`.
        note : str
            A line before the last message by the user.

        Raises
        ------
        InputError
            If one is missing; the message lists the available ones.
        """
        missing = [source for source in self.sources if source not in shown]
        if missing:
            remedy = f'map it: variables={{"{missing[0]}": …}}, or set it: values={{"{missing[0]}": …}}'
            raise InputError("variable", missing[0], f"one of {', '.join(map(str, shown))}", remedy)
        slots = {slot: shown[source] for slot, source in self.variables} | dict(self.values)
        messages = tuple(Message(role, text.fill(slots)) for role, text in self.turns)
        if not note:
            return messages
        last = max(place for place, message in enumerate(messages) if message.role == "user")
        noted = messages[last]._replace(content=f"{note}\n\n{messages[last].content}")
        return (*messages[:last], noted, *messages[last + 1 :])

    def request(
        self,
        shown: Mapping[str, object],
        about: About | None = None,
        replicate: int = 0,
        seed: int = 0,
        distribution: bool | None = None,
        note: str = "",
    ) -> Request:
        """Return the request for slot values: label probabilities, or a text.

        Parameters
        ----------
        shown : mapping of str to object
            A value for each of `sources`.
        about : About, optional
            What the request is about, for judges that do not read prompts.
        replicate, seed : int
            Replicate and seed of a sampled text.
        distribution : bool, optional
            Whether to ask for label probabilities; by default if ``answer`` is "label".
        note : str
            As in `messages`.
        """
        messages = self.messages(shown, note)
        if self.answer == "label" and distribution is not False:
            return Choice(messages, self._offered(shown), about)
        return Completion(messages, self.temperature, self.max_tokens, replicate, seed, about)

    def _offered(self, shown: Mapping[str, object]) -> tuple[str, ...]:
        """Return the labels whose probabilities are requested."""
        if self.form != "list":
            return tuple(label for label, _ in self.label_verdicts)
        candidates = shown["candidates"]
        assert isinstance(candidates, Candidates)  # noqa: S101 - `show` made them
        return self.list_labels(len(candidates))
