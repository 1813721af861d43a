"""How a judge is asked and how its reply is read, apart from what it is shown."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

from biaslab.core import About, Choice, Completion, Message, Reply, Request, Status
from biaslab.core.checks import require_one_of, require_temperature, require_whole
from biaslab.core.errors import InputError
from biaslab.core.project import SETTINGS
from biaslab.core.requests import Role
from biaslab.core.scales import Scale, whole_numbers
from biaslab.core.schema import Dataset
from biaslab.core.settings_file import find_file, named_tables
from biaslab.prompts.protocols.building import (
    LONGEST_SCALE,
    as_json,
    as_turns,
    guess_variables,
    points_of,
    reader_of,
    require_candidates,
)
from biaslab.prompts.protocols.files import arguments_of
from biaslab.prompts.protocols.readers import Labels, Reader, Verdicts
from biaslab.prompts.protocols.slots import SlotText, Syntax

Form = Literal["pair", "score"]
Answer = Literal["text", "label"]
Choose = Literal["last", "first", "only", "single"]
#: What every data set can show in a slot; any other source is a column of its candidates.
SOURCES = ("context", "first", "second", "candidate", "reference", "attribute", "definition", "noun", "low", "high")

_WORDS_FIRST = re.compile(
    r"step[ -]by[ -]step|(?:begin|start|first)\b[^.\n]{0,80}\b(?:explanation|reason\w*|analysis|comparing|feedback)"
    r"|after (?:providing|giving|writing) (?:your|an?)\b",
    re.IGNORECASE,
)
_ORDER = {1.0: 0, 0.0: 1}
_PLACES = ("first", "second")


@dataclass(frozen=True)
class Protocol:
    r"""How a judge is asked, and how its reply is read: the prompt and the parser of a judge as it is deployed.

    Make one with `from_template` or `from_file`.

    Parameters
    ----------
    name : str
        What it is called.
    form : {"pair", "score"}
        Whether it shows two candidates or one.
    turns : tuple of (role, SlotText)
        The messages; a last one by the assistant is the beginning of the reply.
    reader : Reader
        Finds verdicts in a reply, and writes them.
    points : tuple of float
        The values that a reply can have: of a pair, probabilities that the candidate shown first wins (½ is a tie); of
        a score, the points of the scale.
    variables : tuple of (str, str)
        What each slot shows: one of `SOURCES`, or a column of the data set's candidates.
    values : tuple of (str, str)
        Slots that always show the same text, such as a rubric.
    choose : {"last", "first", "only", "single"}
        Which of several verdicts counts. With "only" they must agree, else the status is "ambiguous"; with "single"
        there must be just one.
    answer : {"text", "label"}
        Whether the reply is a text that is read, or begins with a label whose probability can be asked for.
    binarize : bool
        Whether a distribution over labels decides for the likeliest one.
    max_tokens, temperature : int, float
        Of the reply.

    Raises
    ------
    InputError
        If a candidate is not shown, a variable is unused, or a verdict that is written is not read back.

    Notes
    -----
    The value of a reply means the same whatever the words are: of a **pair** the probability that the candidate *shown
    first* wins, graded verdicts keeping their grade; of a **score** the number on the scale. What cannot be read is a
    status and never a guess: "off_format" (no verdict in the format demanded), "ambiguous" (verdicts that contradict
    each other), "refused", "out_of_range".

    Examples
    --------
    >>> prompt = "Question: {question}\n\nA: {answer_a}\n\nB: {answer_b}\n\nEnd with [[A]] or [[B]]."
    >>> mine = Protocol.from_template(prompt, verdicts={"[[A]]": 1, "[[B]]": 0})
    >>> mine.parse("A is longer, but B is right: [[B]]"), mine.parse("Hard to say.")
    ((0.0, 'ok'), (nan, 'off_format'))
    >>> mine.write(1.0)
    '[[A]]'
    """

    name: str
    form: Form
    turns: tuple[tuple[Role, SlotText], ...]
    reader: Reader
    points: tuple[float, ...]
    variables: tuple[tuple[str, str], ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    choose: Choose = "last"
    answer: Answer = "text"
    binarize: bool = False
    max_tokens: int = 1024
    temperature: float = 0.0

    @classmethod
    def from_template(
        cls,
        template: str | Path | Sequence[tuple[Role, str]],
        form: Form = "pair",
        verdicts: Mapping[str, float] | None = None,
        *,
        scale: str | tuple[float, float] | None = None,
        pattern: str | Sequence[str] | None = None,
        writes: str = "",
        json: str | None = None,
        parse: Callable[[str], Any] | None = None,
        examples: Mapping[str, float] | None = None,
        reader: Reader | None = None,
        choose: Choose = "last",
        variables: Mapping[str, str] | None = None,
        values: Mapping[str, str] | None = None,
        system: str = "",
        prefill: str = "",
        syntax: Syntax | None = None,
        answer: Answer = "text",
        binarize: bool = False,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        name: str = "",
    ) -> Protocol:
        r"""Make a protocol from a prompt of your own.

        Parameters
        ----------
        template : str, path or sequence of (role, text)
            The prompt, or a file that holds it: one message by the user, or several. Chat marks (``<|im_start|>user``)
            split a text into messages.
        form : {"pair", "score"}
            Whether it shows two candidates or one.
        verdicts : mapping of str to float, optional
            What each verdict means: of pairs the probability that the candidate shown first wins, ½ a tie; of scores
            the number.
        scale : str or (low, high), optional
            Of scores that are numbers: "1-5", or the ends of a continuous scale.
        pattern : str or sequence of str, optional
            Regular expressions, tried in turn, with one group that holds the verdict or the number. Where a reply
            judges several attributes, ``{attribute}`` stands for the one that is read.
        writes : str
            A reply that the first pattern matches, with ``{}`` for the verdict, where the shortest will not do.
        json : str, optional
            Where the verdict stands in a JSON reply or the arguments of a tool call: ``"result.score"``, or, of several
            attributes, ``"scores.{attribute}"``.
        parse, examples : callable and mapping of str to float, optional
            A function of your own from a reply to a number or None, and replies with what they mean.
        reader : Reader, optional
            Any other reader.
        choose : {"last", "first", "only", "single"}
            Which of several verdicts counts.
        variables : mapping of str to str, optional
            What slots show, where their names do not say: ``{"q": "context", "x": "first", "y": "second"}``.
        values : mapping of str to str, optional
            Slots that always show the same text.
        system, prefill : str
            A message before the prompt; the beginning of the reply.
        syntax : {"braces", "format", "dollar", "jinja2"}, optional
            How slots are written; guessed by default.
        answer : {"text", "label"}
            Whether words come first, or the reply begins with the verdict.
        binarize : bool
            Whether a distribution over labels decides for the likeliest one.
        max_tokens, temperature : int, float
            Of the reply.
        name : str
            What to call it; the file's name, or the form.

        Returns
        -------
        Protocol
            Checked: each verdict is read back as it was written.

        Raises
        ------
        InputError
            If the template does not show the candidates, something is unused or missing, or verdicts cannot be told
            apart.

        Examples
        --------
        >>> rubric = Protocol.from_template("{question}\n\n{answer}\n\nReply as {\"score\": 1 to 5}.", "score",
        ...                                 scale="1-5", json="score")
        >>> rubric.parse('{"score": 4}'), rubric.parse('{"score": 9}')
        ((4.0, 'ok'), (nan, 'out_of_range'))
        """
        require_one_of("form", form, get_args(Form))
        stem, turns = as_turns(template, system, prefill, syntax)
        slots = tuple(dict.fromkeys(slot for _, text in turns for slot in text.slots))
        shown = guess_variables(slots, form, variables or {}, values or {})
        require_candidates(form, shown)
        made = reader or reader_of(verdicts, pattern, writes, json, parse, examples, scale)
        return cls(
            name or stem or form,
            form,
            turns,
            made,
            points_of(form, made, scale),
            shown,
            tuple((values or {}).items()),
            choose,
            answer,
            binarize,
            max_tokens,
            temperature,
        )

    @classmethod
    def loaded(cls, given: Protocol | str | PathLike[str]) -> Protocol:
        """Return a protocol: itself, that of a file, or that of a name in ``biaslab.toml``."""
        if isinstance(given, cls):
            return given
        tables = named_tables("protocols")
        if str(given) not in tables:
            return cls.from_file(Path(str(given)))
        return cls._of_table(str(given), tables[str(given)])

    @classmethod
    def _of_table(cls, name: str, table: dict[str, Any]) -> Protocol:
        """Return the protocol of a table in ``biaslab.toml``: that of a file, or what the table itself says."""
        allowed = [each for each in signature(cls.from_template).parameters if each not in ("parse", "reader")]
        unknown = [each for each in table if each not in (*allowed, "file", "which")]
        if unknown or ("file" in table) == ("template" in table):
            words = f"file or template, and arguments of Protocol.from_template: {', '.join(allowed)}"
            raise InputError(f"{SETTINGS}: protocols.{name}", unknown[0] if unknown else sorted(table), words)
        if "template" in table:
            return cls.from_template(**{"name": name, **table})
        folder, file = (find_file() or Path()).parent, Path(str(table.pop("file"))).expanduser()
        return replace(cls.from_file(folder / file, table.pop("which", None), **table), name=name)

    @classmethod
    def of_form(cls, given: Protocol | str | PathLike[str], form: Form) -> Protocol:
        """Return a protocol, from its file where one is named.

        Raises
        ------
        InputError
            If it is of another form.
        """
        protocol = cls.loaded(given)
        if protocol.form != form:
            raise InputError("protocol", protocol.id, f"one of the form {form}; this one is a {protocol.form}")
        return protocol

    @classmethod
    def from_file(cls, path: str | Path, name: str | None = None, **changes: Any) -> Protocol:
        """Load a protocol from a file in one of the formats in which judge prompts are kept.

        Parameters
        ----------
        path : str or path
            AlpacaEval's ``configs.yaml``, FastChat's ``judge_prompts.jsonl``, Arena-Hard's YAML, G-Eval's and LLMBar's
            texts, Prometheus 2 and Inspect as JSON, WildBench's Markdown, OpenAI evals, biaslab's own TOML; or any text
            or Jinja2 file, with ``verdicts`` or ``scale`` given here.
        name : str, optional
            Which one, where a file holds several.
        **changes
            Arguments of `from_template` that replace what the file says.

        Raises
        ------
        InputError
            If the file holds no protocol, several of which none is named, or no format of replies; the message says
            what to give.
        """
        allowed = signature(cls.from_template).parameters
        return cls.from_template(**arguments_of(Path(path), name, changes, allowed))

    def __post_init__(self) -> None:
        require_one_of("choose", self.choose, get_args(Choose))
        require_one_of("answer", self.answer, get_args(Answer))
        require_whole("max_tokens", self.max_tokens, 1)
        require_temperature(self.temperature)
        require_candidates(self.form, self.variables)
        self._require_label_first()
        for value in self.points:
            self._require_round_trip(value)

    def _require_label_first(self) -> None:
        words = [match[0] for _, text in self.turns if (match := _WORDS_FIRST.search(text.source))]
        if self.answer == "label" and words:
            raise InputError("answer", "label", f'"text", since the prompt asks for words first ({words[0]!r})')
        if self.answer == "label" and not isinstance(self.reader, Labels):
            raise InputError("answer", "label", '"text" unless verdicts are labels', "give verdicts, or answer='text'")

    def _require_round_trip(self, value: float) -> None:
        text = self.write(value)
        read, status = self.parse(text)
        if read != value:
            raise InputError(
                "protocol",
                f"{text!r}, written for {value:g} and read as {f'{read:g}' if status in ('ok', 'tie') else status}",
                "replies that are read as they are written",
                "say what a reply looks like, with {} for the verdict: writes='Rating: [[{}]]'",
            )

    @property
    def id(self) -> str:
        """The name and a short hash of everything that the protocol is."""
        return f"{self.name}@{self._hash}"

    @cached_property
    def _hash(self) -> str:
        document = json.dumps([as_json(getattr(self, each.name)) for each in fields(self)[1:]], sort_keys=True)
        return hashlib.sha256(document.encode()).hexdigest()[:8]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What an obedient judge would reply: for the first, for the second and, where there is one, for a tie."""
        ends = (max(self.points), min(self.points))
        return tuple(map(self.write, (*ends, *(value for value in self.points if value == 0.5))))

    @cached_property
    def scale(self) -> Scale:
        """The scale of the scores: whole numbers, each with the reply that an obedient judge would write for it.

        Raises
        ------
        InputError
            If the ends are no whole numbers.
        """
        low, high = self.points[0], self.points[-1]
        if not (low.is_integer() and high.is_integer() and 0 <= low < high <= LONGEST_SCALE):
            raise InputError("scale", (low, high), f"whole numbers from 0 to {LONGEST_SCALE}, to study scores")
        numbers = whole_numbers(int(low), int(high))
        return replace(numbers, labels=tuple(map(self.write, numbers.values)))

    @property
    def sources(self) -> tuple[str, ...]:
        """What must be known to ask: some of `SOURCES`, and columns of the data set."""
        return tuple(dict.fromkeys(source for _, source in self.variables))

    def show(
        self, dataset: Dataset, attribute: str, context_id: str, candidates: Sequence[str], texts: Sequence[str] = ()
    ) -> dict[str, object]:
        """Return what of a data set can be shown in slots.

        Parameters
        ----------
        dataset : Dataset
            Where texts and definitions come from.
        attribute : str
            What is judged.
        context_id : str
            The context.
        candidates : sequence of str
            Its candidates in the order shown: two of a pair, one of a score.
        texts : sequence of str
            Their texts as shown, where they are not those of the data set.

        Returns
        -------
        dict
            A value for each of `SOURCES` that the form has, and for each of the data set's own `variables`: of a pair
            those in which its candidates agree, and all of them as ``first_NAME`` and ``second_NAME``.

        Examples
        --------
        >>> import biaslab as bl
        >>> mine = Protocol.from_template("{first} or {second}?", verdicts={"A": 1, "B": 0})
        >>> shown = mine.show(bl.load_dataset("graded", limit=1), "coherence", "news-1", ["c1", "c2"])
        >>> sorted(shown)
        ['attribute', 'context', 'definition', 'first', 'high', 'low', 'noun', 'reference', 'second']
        """
        rows = [dataset.rows[context_id, name] for name in candidates]
        own = {name: rows[0][name] for name in dataset.variables if len({row[name] for row in rows}) == 1}
        if self.form == "pair":
            own |= {
                f"{place}_{name}": row[name]
                for place, row in zip(_PLACES, rows, strict=True)
                for name in dataset.variables
            }
        names = _PLACES if self.form == "pair" else ("candidate",)
        shown = dict(zip(names, texts or [row["text"] for row in rows], strict=True))
        low, high = (self.points[0], self.points[-1]) if self.form == "score" else dataset.scale
        about = {"attribute": attribute, "definition": dataset.attributes[attribute], "noun": dataset.noun}
        of_item = {"context": rows[0]["context"], "reference": rows[0]["reference"]}
        return {**own, **of_item, **shown, **about, "low": f"{low:g}", "high": f"{high:g}"}

    def messages(self, shown: Mapping[str, object], note: str = "") -> tuple[Message, ...]:
        """Return the messages for what is shown.

        Parameters
        ----------
        shown : mapping of str to object
            A value for each of `sources`.
        note : str
            A line before the last message by the user.

        Raises
        ------
        InputError
            If one is missing; the message lists what there is.
        """
        missing = [source for source in self.sources if source not in shown]
        if missing:
            raise InputError(
                "variable",
                missing[0],
                f"one of {', '.join(map(str, shown))}",
                f'say what it shows: variables={{"{missing[0]}": …}}, or fix it: values={{"{missing[0]}": …}}',
            )
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
        """Return what to ask about what is shown: label probabilities, or a text.

        Parameters
        ----------
        shown : mapping of str to object
            A value for each of `sources`.
        about : About, optional
            What the request is about, for judges that do not read it.
        replicate, seed : int
            Of a sampled text.
        distribution : bool, optional
            Whether label probabilities are asked for; by default where ``answer`` is "label".
        note : str
            As for `messages`.
        """
        messages = self.messages(shown, note)
        if self.answer == "label" and distribution is not False:
            return Choice(messages, tuple(label for label, _ in self._verdicts), about)
        return Completion(messages, self.temperature, self.max_tokens, replicate, seed, about)

    @cached_property
    def _verdicts(self) -> Verdicts:
        """The labels and what they mean: those for the first and for the second, then all others."""
        assert isinstance(self.reader, Labels)  # noqa: S101 - __post_init__ requires it
        return tuple(sorted(self.reader.verdicts, key=lambda verdict: _ORDER.get(verdict[1], 2)))

    def parse(self, text: str | None, attribute: str = "") -> tuple[float, Status]:
        """Read a reply.

        Parameters
        ----------
        text : str or None
            What the judge wrote.
        attribute : str
            Which verdict is read, where a reply judges several attributes (`joint`).

        Returns
        -------
        tuple of float and str
            The value, NaN unless the status is "ok" or "tie".
        """
        reader = self._reader_of(attribute)
        values = reader.find(text or "")
        if not values:
            return math.nan, reader.unread(text or "")
        if len(values if self.choose == "single" else set(values)) > 1 and self.choose in ("single", "only"):
            return math.nan, "ambiguous"
        value = values[0] if self.choose == "first" else values[-1]
        if not min(self.points) <= value <= max(self.points):
            return math.nan, "out_of_range"
        return value, "tie" if self.form == "pair" and value == 0.5 else "ok"

    @cached_property
    def joint(self) -> bool:
        """Whether a reply judges several attributes: a pattern or JSON path has ``{attribute}``, the prompt does not.

        Then all of them are asked in one request.
        """
        return "attribute" not in self.sources and self.reader.of("attribute") != self.reader

    def _reader_of(self, attribute: str) -> Reader:
        if attribute not in self._readers:
            self._readers[attribute] = self.reader.of(attribute) if attribute else self.reader
        return self._readers[attribute]

    @cached_property
    def _readers(self) -> dict[str, Reader]:
        return {}

    def read(self, reply: Reply, attribute: str = "") -> tuple[float, Status]:
        """Read a reply that is a text, or a distribution over labels; ``attribute`` as for `parse`.

        Returns
        -------
        tuple of float and str
            The value: from a distribution the expected one, ties aside, or with ``binarize`` that of the likeliest
            label; and the status.
        """
        if reply.logprobs is None:
            return self.parse(reply.text, attribute)
        masses = [math.exp(each) for each in reply.logprobs]
        values = [value for _, value in self._verdicts]
        if not any(masses):
            return math.nan, "refused"
        likeliest = values[masses.index(max(masses))]
        if self.form == "pair" and likeliest == 0.5:
            return 0.5, "tie"
        if self.binarize:
            return likeliest, "ok"
        counted = [
            (mass, value) for mass, value in zip(masses, values, strict=True) if self.form == "score" or value != 0.5
        ]
        return sum(mass * value for mass, value in counted) / sum(mass for mass, _ in counted), "ok"

    def write(self, value: float, attribute: str = "") -> str:
        """Return what a perfectly obedient judge would reply; ``attribute`` as for `parse`.

        Raises
        ------
        InputError
            If no verdict means the value.
        """
        return self._reader_of(attribute).write(value)
