"""`Protocol`: the prompt of a judge and the parser of its replies, of any origin."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, lru_cache
from inspect import signature
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal, get_args

from biaslab.core.checks import require_one_of, require_temperature, require_whole
from biaslab.core.errors import InputError
from biaslab.core.output import AnyPath
from biaslab.core.project import PREFIX, SETTINGS, find_file, named_tables, own_object
from biaslab.core.requests import About, Choice, Completion, Message, Request, Role
from biaslab.core.scales import Scale, whole_numbers
from biaslab.core.schema import Dataset
from biaslab.core.trials import AT_LIMIT, Reply, Status
from biaslab.prompts.parsing.choice import settled
from biaslab.prompts.parsing.thoughts import split_thought
from biaslab.prompts.protocols.list_reader import LONGEST_LIST, SHORTEST_LIST, ListReply, Places
from biaslab.prompts.protocols.readers import LabelReader, VerdictReader, VerdictValues
from biaslab.prompts.protocols.slots import (
    LONGEST_SCALE,
    SlotText,
    Syntax,
    as_json,
    as_turns,
    guess_variables,
    points_of,
    reader_of,
    require_candidates,
    require_no_verdicts,
)

__all__ = ["Protocol", "list_protocol"]

ProtocolForm = Literal["pair", "score", "list"]
Choose = Literal["last", "first", "only", "single"]
AnswerKind = Literal["text", "label"]
#: Slots available for every data set; any other source is a column of its candidates.
SOURCES = (
    "context", "first", "second", "candidate", "candidates", "k", "names", "reference", "attribute", "definition",
    "noun", "low", "high",
)  # fmt: skip
_ORDER = {1.0: 0, 0.0: 1}
_WORDS_FIRST = re.compile(
    r"step[ -]by[ -]step|(?:begin|start|first)\b[^.\n]{0,80}\b(?:explanation|reason\w*|analysis|comparing|feedback)"
    r"|after (?:providing|giving|writing) (?:your|an?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Protocol:
    r"""Prompt and parser of a judge as deployed: how it is asked, and how its reply is parsed.

    Create one with `from_template` or `from_file`.

    Parameters
    ----------
    name : str
        Name of the protocol.
    form : {"pair", "score", "list"}
        Whether it shows two candidates, one, or 2 to 20.
    turns : tuple of (role, SlotText)
        The messages; a final assistant message is the beginning of the reply.
    reader : VerdictReader
        Finds verdicts in a reply, and writes them.
    points : tuple of float
        The possible values of a reply: for pairs, probabilities that the candidate shown first wins (½ is a tie); for
        scores, the points of the scale; for lists, none.
    variables : tuple of (str, str)
        What each slot shows: a name from `biaslab.prompts.protocols.SOURCES`, or a column of the data set's
        candidates.
    values : tuple of (str, str)
        Slots with constant text, such as a rubric.
    choose : {"last", "first", "only", "single"}
        Which of several verdicts counts. For labels that are words, such as "A", "last" means the one that the text
        decides for. With "only" they must agree, otherwise the status is "ambiguous"; with "single" there must be
        exactly one.
    answer : {"text", "label"}
        Whether the reply is a text to parse, or begins with a label whose probability can be requested.
    binarize : bool
        Whether a distribution over labels is replaced by its most likely label.
    max_tokens, temperature : int, float
        Maximum tokens and temperature of the reply.

    Raises
    ------
    InputError
        If a candidate is not shown, a variable is unused, or a written verdict is not parsed as itself.

    Notes
    -----
    Values have the same meaning whatever the prompt: for a **pair**, the probability that the candidate *shown first*
    wins, including graded verdicts; for a **score**, the number on the scale; for a **list**, a number for each
    position in the order shown: the probability that this candidate is best, or its rank (`parse_list`). Unreadable
    replies get a status, never a guess: "off_format" (no verdict in the required format), "ambiguous" (contradictory
    verdicts), "refused", "out_of_range"; for lists "incomplete", "repeated" and "invented".

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
    form: ProtocolForm
    turns: tuple[tuple[Role, SlotText], ...]
    reader: VerdictReader
    points: tuple[float, ...]
    variables: tuple[tuple[str, str], ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    choose: Choose = "last"
    answer: AnswerKind = "text"
    binarize: bool = False
    max_tokens: int = 1024
    temperature: float = 0.0

    @classmethod
    def from_template(
        cls,
        template: str | Path | Sequence[tuple[Role, str]],
        form: ProtocolForm = "pair",
        verdicts: Mapping[str, float] | None = None,
        *,
        scale: str | tuple[float, float] | None = None,
        pattern: str | Sequence[str] | None = None,
        writes: str = "",
        replies: ListReply = "best",
        names: str = "[{n}]",
        json: str | None = None,
        parse: Callable[[str], Any] | None = None,
        examples: Mapping[str, float] | None = None,
        reader: VerdictReader | None = None,
        choose: Choose = "last",
        variables: Mapping[str, str] | None = None,
        values: Mapping[str, str] | None = None,
        system: str = "",
        prefill: str = "",
        syntax: Syntax | None = None,
        answer: AnswerKind = "text",
        binarize: bool = False,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        name: str = "",
    ) -> Protocol:
        r"""Create a protocol from a custom prompt.

        Parameters
        ----------
        template : str, path or sequence of (role, text)
            The prompt, or the file with it: one user message, or several messages. Chat marks (``<|im_start|>user``)
            split a text into messages.
        form : {"pair", "score", "list"}
            Whether it shows two candidates, one, or 2 to 20 (slot ``{candidates}``, or a Jinja2 loop over them: each
            has ``name``, ``number``, ``letter`` and ``text``).
        verdicts : mapping of str to float, optional
            Value of each verdict: for pairs the probability that the candidate shown first wins, with ½ for a tie; for
            scores the number.
        scale : str or (low, high), optional
            For numeric scores: "1-5", or the ends of a continuous scale.
        pattern : str or sequence of str, optional
            Regular expressions, tried in turn, with one group for the verdict or number. If a reply judges several
            attributes, ``{attribute}`` is replaced by the one to read.
        writes : str
            A reply that the first pattern matches, with ``{}`` for the verdict, if the shortest is unsuitable.
        replies : {"best", "order", "json", "ranks"}
            Format of replies to a list: the name of the best; names from best to worst, as ``[2] > [1] > [3]`` or as a
            JSON list; or JSON objects with a name and a rank.
        names : str
            Names of candidates in a list: ``{n}`` is a number, ``{A}`` a letter.
        json : str, optional
            Path of the verdict in a JSON reply or the arguments of a tool call: ``"result.score"``, or, for several
            attributes, ``"scores.{attribute}"``.
        parse, examples : callable and mapping of str to float, optional
            A custom function from a reply to a number or None, and replies with their values.
        reader : VerdictReader, optional
            Any other reader.
        choose : {"last", "first", "only", "single"}
            Which of several verdicts counts.
        variables : mapping of str to str, optional
            What slots show, if their names do not imply it: ``{"q": "context", "x": "first", "y": "second"}``.
        values : mapping of str to str, optional
            Slots with constant text.
        system, prefill : str
            A message before the prompt; the beginning of the reply.
        syntax : {"braces", "format", "dollar", "jinja2"}, optional
            How slots are written; guessed by default.
        answer : {"text", "label"}
            Whether text comes first, or the reply begins with the verdict.
        binarize : bool
            Whether a distribution over labels is replaced by its most likely label.
        max_tokens, temperature : int, float
            Maximum tokens and temperature of the reply.
        name : str
            Name of the protocol; by default the file's name, or the form.

        Returns
        -------
        Protocol
            Validated: each written verdict is parsed as itself.

        Raises
        ------
        InputError
            If the template does not show the candidates, something is unused or missing, or verdicts cannot be
            distinguished.

        Examples
        --------
        >>> rubric = Protocol.from_template("{question}\n\n{answer}\n\nReply as {\"score\": 1 to 5}.", "score",
        ...                                 scale="1-5", json="score")
        >>> rubric.parse('{"score": 4}'), rubric.parse('{"score": 9}')
        ((4.0, 'ok'), (nan, 'out_of_range'))
        """
        require_one_of("form", form, get_args(ProtocolForm))
        stem, turns = as_turns(template, system, prefill, syntax)
        slots = tuple(dict.fromkeys(slot for _, text in turns for slot in text.slots))
        shown = guess_variables(slots, form, variables or {}, values or {})
        require_candidates(form, shown)
        if form == "list":
            require_no_verdicts(verdicts, pattern, json, parse, scale)
            reader = reader or Places(replies, names)
        reads = reader or reader_of(verdicts, pattern, writes, json, parse, examples, scale)
        points, fixed = points_of(form, reads, scale), tuple((values or {}).items())
        how = (choose, answer, binarize, max_tokens, temperature)
        return cls(name or stem or form, form, turns, reads, points, shown, fixed, *how)

    @classmethod
    def from_file(cls, path: str | Path, name: str | None = None, **changes: Any) -> Protocol:
        """Load a protocol from a file in one of the common formats for judge prompts.

        Parameters
        ----------
        path : str or path
            AlpacaEval's ``configs.yaml`` or its folder, FastChat's ``judge_prompts.jsonl``, Arena-Hard's YAML, texts
            of G-Eval, LLMBar and Auto-J, Prometheus 2 and Inspect as JSON, WildBench's Markdown, OpenAI evals, lists
            of messages, biaslab's own TOML; a text that names its verdicts (``[[A]]``, ``[[A>>B]]``); or any other
            text or Jinja2 file, with ``verdicts`` or ``scale`` given here.
        name : str, optional
            Name of the protocol, if the file contains several.
        **changes
            Arguments of `from_template` that override the file.

        Raises
        ------
        InputError
            If the file contains no protocol, several and none is named, or no format of replies; the message says what
            to give.
        """
        from biaslab.prompts.protocols.files import arguments_of

        allowed = signature(cls.from_template).parameters
        return cls.from_template(**arguments_of(Path(path), name, changes, allowed))

    @classmethod
    def loaded(cls, protocol: Protocol | AnyPath) -> Protocol:
        """Return a protocol itself, or that of a file, of ``python:module:object`` or of a name in ``biaslab.toml``."""
        if isinstance(protocol, cls):
            return protocol
        if str(protocol).startswith(PREFIX):
            own: Protocol = own_object("protocol", str(protocol), cls)
            return own
        tables = named_tables("protocols")
        if str(protocol) not in tables:
            return cls.from_file(Path(str(protocol)))
        return cls._of_table(str(protocol), tables[str(protocol)])

    @classmethod
    def _of_table(cls, name: str, table: dict[str, Any]) -> Protocol:
        """Return the protocol of a table in ``biaslab.toml``: from a file, or from the table itself."""
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
    def of_form(cls, given: Protocol | AnyPath, *forms: ProtocolForm) -> Protocol:
        """Return a protocol, from its file if a path is given.

        Raises
        ------
        InputError
            If it has another form.
        """
        protocol = cls.loaded(given)
        if protocol.form not in forms:
            allowed = f"one of the form {' or '.join(forms)}; this one is a {protocol.form}"
            raise InputError("protocol", protocol.id, allowed)
        return protocol

    def __post_init__(self) -> None:
        require_one_of("choose", self.choose, get_args(Choose))
        require_one_of("answer", self.answer, get_args(AnswerKind))
        require_whole("max_tokens", self.max_tokens, 1)
        require_temperature(self.temperature)
        require_candidates(self.form, self.variables)
        self._require_label_first()
        for value in self.points:
            self.require_round_trip(value)
        if self.form == "list":
            self.require_list_round_trip()

    def _require_label_first(self) -> None:
        words = [match[0] for _, text in self.turns if (match := _WORDS_FIRST.search(text.source))]
        if self.answer == "label" and words:
            raise InputError("answer", "label", f'"text", since the prompt asks for a rationale first ({words[0]!r})')
        if self.answer == "label" and isinstance(self.reader, Places) and self.reader.ranks:
            raise InputError("answer", "label", '"text" for rankings', 'or ask for the best: replies="best"')
        if self.answer == "label" and not isinstance(self.reader, LabelReader | Places):
            raise InputError("answer", "label", '"text" unless verdicts are labels', "give verdicts, or answer='text'")

    def require_round_trip(self, value: float) -> None:
        """Raise `InputError` unless the reply written for a value is parsed as this value."""
        text = self.write(value)
        read, status = self.parse(text)
        if read != value:
            misread = f"{read:g}" if status in ("ok", "tie") else status
            remedy = "give the form of a reply, with {} for the verdict: writes='Rating: [[{}]]'"
            misreading = f"{text!r}, written for {value:g} and read as {misread}"
            raise InputError.plain(f"protocol misreads its own reply, {misreading}; {remedy}")

    def require_list_round_trip(self) -> None:
        """Raise `InputError` unless replies that are written are parsed correctly."""
        for k in (SHORTEST_LIST, 3, LONGEST_LIST):
            value = tuple(float(rank) for rank in range(k, 0, -1)) if self.places.ranks else (0.0,) * (k - 1) + (1.0,)
            text = self.write_list(value)
            if self.parse_list(text, k) != (value, "ok"):
                remedy = 'put delimiters around names: names="[{n}]"'
                raise InputError("names", f"{text!r}", "names that are read back as written", remedy)

    @property
    def id(self) -> str:
        """Name, and a short hash of all fields."""
        return f"{self.name}@{self._hash}"

    @cached_property
    def _hash(self) -> str:
        document = json.dumps([as_json(getattr(self, each.name)) for each in fields(self)[1:]], sort_keys=True)
        return hashlib.sha256(document.encode()).hexdigest()[:8]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Replies of a compliant judge: for the first, for the second and, if allowed, for a tie."""
        highest_and_lowest = (max(self.points), min(self.points))
        return tuple(map(self.write, (*highest_and_lowest, *(value for value in self.points if value == 0.5))))

    @cached_property
    def scale(self) -> Scale:
        """Scale of the scores: whole numbers, each labelled with the reply that a compliant judge would write.

        Raises
        ------
        InputError
            If the ends are not whole numbers.
        """
        low, high = self.points[0], self.points[-1]
        if not (low.is_integer() and high.is_integer() and 0 <= low < high <= LONGEST_SCALE):
            raise InputError("scale", (low, high), f"whole numbers from 0 to {LONGEST_SCALE}, to study scores")
        numbers = whole_numbers(int(low), int(high))
        return replace(numbers, labels=tuple(map(self.write, numbers.values)))

    @cached_property
    def label_verdicts(self) -> VerdictValues:
        """Labels with their values: those for the first and for the second, then all others."""
        assert isinstance(self.reader, LabelReader)  # noqa: S101 - __post_init__ requires it
        return tuple(sorted(self.reader.verdicts, key=lambda verdict: _ORDER.get(verdict[1], 2)))

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
        shown: dict[str, object]
        if self.form == "list":
            listed = self.candidates(texts or [row["text"] for row in rows])
            names = ", ".join(entry.name for entry in listed)
            shown = {"candidates": listed, "k": str(len(listed)), "names": names}
        else:
            places = ("first", "second") if self.form == "pair" else ("candidate",)
            shown = dict(zip(places, texts or [row["text"] for row in rows], strict=True))
            if self.form == "pair":
                for place, row in zip(places, rows, strict=True):
                    own |= {f"{place}_{name}": row[name] for name in dataset.variables}
        low, high = (self.points[0], self.points[-1]) if self.form == "score" else dataset.scale
        about = {"attribute": attribute, "definition": dataset.attributes[attribute], "noun": dataset.noun}
        of_item = {"context": rows[0]["context"], "reference": rows[0]["reference"]}
        return {**own, **of_item, **shown, **about, "low": f"{low:g}", "high": f"{high:g}"}

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
            if self.form == "list":
                return Choice(messages, self.list_labels(len(shown["candidates"])), about)  # type: ignore[arg-type]
            return Choice(messages, tuple(label for label, _ in self.label_verdicts), about)
        return Completion(messages, self.temperature, self.max_tokens, replicate, seed, about)

    def parse(self, text: str | None, attribute: str = "") -> tuple[float, Status]:
        """Parse a reply.

        Parameters
        ----------
        text : str or None
            The judge's reply; a thought in it, between tags, is left out, and one that is not closed has no verdict.
        attribute : str
            Which verdict to return, if a reply judges several attributes (`joint`).

        Returns
        -------
        tuple of float and str
            The value, NaN unless the status is "ok" or "tie".
        """
        self._require_one_value("parse_list(text, k)")
        answer = _answer_in(text)
        return (math.nan, "cut_off") if answer is None else self._parsed(answer, attribute)

    def _parsed(self, text: str | None, attribute: str) -> tuple[float, Status]:
        reader = _reader_of(self.reader, attribute)
        values = reader.find(text or "")
        if not values:
            return math.nan, reader.unread(text or "")
        if self._is_contradictory(values):
            return math.nan, "ambiguous"
        value = reader.last(text or "", values) if self.choose == "last" else values[0]
        if value is None:
            return math.nan, reader.unread(text or "")
        if not min(self.points) <= value <= max(self.points):
            return math.nan, "out_of_range"
        return value, "tie" if self.form == "pair" and value == 0.5 else "ok"

    def read(self, reply: Reply, attribute: str = "") -> tuple[float, Status]:
        """Parse a reply that is a text, or a distribution over labels; ``attribute`` as in `parse`.

        Returns
        -------
        tuple of float and str
            The value: for a distribution the expected one without ties or, with ``binarize``, that of the most likely
            label; and the status: "cut_off" if a text ends at its limit before it has decided between its verdicts.
        """
        self._require_one_value("read_list(reply, k)")
        if reply.logprobs is None:
            cut_off = self._is_cut_off(reply, _reader_of(self.reader, attribute).find)
            return (math.nan, "cut_off") if cut_off else self._parsed(reply.text, attribute)
        masses = [math.exp(each) for each in reply.logprobs]
        values = [value for _, value in self.label_verdicts]
        if not any(masses):
            return math.nan, "refused"
        likeliest = values[masses.index(max(masses))]
        if self.form == "pair" and likeliest == 0.5:
            return 0.5, "tie"
        if self.binarize:
            return likeliest, "ok"
        pairs = zip(masses, values, strict=True)
        counted = [(mass, value) for mass, value in pairs if self.form == "score" or value != 0.5]
        return sum(mass * value for mass, value in counted) / sum(mass for mass, _ in counted), "ok"

    def write(self, value: float, attribute: str = "") -> str:
        """Return the reply of a perfectly compliant judge; ``attribute`` as in `parse`.

        Raises
        ------
        InputError
            If no verdict means the value.
        """
        self._require_one_value("write_list(value)")
        return _reader_of(self.reader, attribute).write(value)

    def _is_contradictory(self, answers: Sequence[object]) -> bool:
        """Return whether a text has several answers, of which this protocol allows one."""
        return self.choose in ("single", "only") and len(answers if self.choose == "single" else set(answers)) > 1

    def _is_cut_off(self, reply: Reply, find: Callable[[str], Sequence[object]]) -> bool:
        """Return whether a text ends at its limit before it has decided between its answers."""
        goes_on = reply.finish_reason == AT_LIMIT and self.choose == "last"
        return goes_on and len(set(find(reply.text or ""))) > 1

    def _require_one_value(self, other: str) -> None:
        if isinstance(self.reader, Places):
            raise InputError.plain(f"the protocol shows a list, which has one value per position: {other}")

    @property
    def places(self) -> Places:
        """The reader of a list.

        Raises
        ------
        InputError
            If the protocol does not show a list.
        """
        if not isinstance(self.reader, Places):
            raise InputError.plain('protocol does not show a list, expected: one of the form list; choose form="list"')
        return self.reader

    def list_labels(self, k: int) -> tuple[str, ...]:
        """Return the names of k candidates in the order shown."""
        return tuple(map(self.places.name, range(1, k + 1)))

    def candidates(self, texts: Sequence[str]) -> Candidates:
        """Return the template variable that lists some texts.

        Raises
        ------
        InputError
            Unless there are 2 to 20.

        Examples
        --------
        >>> import biaslab as bl
        >>> mine = bl.Protocol.from_template("{candidates}", "list")
        >>> print(mine.candidates(["It rained.", "Rain fell."]))
        [1] It rained.
        <BLANKLINE>
        [2] Rain fell.
        """
        if not SHORTEST_LIST <= len(texts) <= LONGEST_LIST:
            allowed = f"{SHORTEST_LIST} to {LONGEST_LIST} in one prompt"
            raise InputError("candidates", len(texts), allowed, "use biaslab.ranking.sliding_windows for longer lists")
        shown = enumerate(texts, 1)
        return Candidates(Entry(self.places.name(at), at, ascii_uppercase[at - 1], text) for at, text in shown)

    def parse_list(self, text: str | None, k: int) -> tuple[tuple[float, ...], Status]:
        r"""Parse a reply about k candidates.

        Parameters
        ----------
        text : str or None
            The judge's reply.
        k : int
            Number of candidates shown.

        Returns
        -------
        tuple of (tuple of float, shape (k,)) and str
            The value, NaN unless the status is "ok". A ranking that omits a candidate is "incomplete", one that
            repeats a candidate "repeated"; a name that does not exist is "invented".

        Examples
        --------
        >>> import biaslab as bl
        >>> mine = bl.Protocol.from_template("Rank them:\n{candidates}", "list", replies="order")
        >>> mine.parse_list("[2] > [1] > [3]", 3)
        ((2.0, 1.0, 3.0), 'ok')
        >>> [mine.parse_list(text, 3)[1] for text in ("[2] > [1]", "[2] > [2] > [1]", "[2] > [4] > [1]")]
        ['incomplete', 'repeated', 'invented']
        """
        answer = _answer_in(text)
        return ((math.nan,) * k, "cut_off") if answer is None else self._parsed_list(answer, k)

    def _parsed_list(self, text: str | None, k: int) -> tuple[tuple[float, ...], Status]:
        unread = (math.nan,) * k
        answers = self.places.named(text or "")
        if not answers:
            return unread, self.places.unread(text or "")
        if self._is_contradictory(answers):
            return unread, "ambiguous"
        order, status = answers[0] if self.choose == "first" else answers[-1]
        if self.choose == "last" and not self.places.ranks and not self.places.is_alone(text or ""):
            place, why = settled(text or "", self.list_labels(k), {named[0] - 1 for named, _ in answers})
            if place is None:
                return unread, why
            order = (place + 1,)
        status = _status(order, k, self.places.ranks) if status == "ok" else status
        if status != "ok":
            return unread, status
        if self.places.ranks:
            return tuple(float(order.index(place) + 1) for place in range(1, k + 1)), "ok"
        return tuple(float(place == order[0]) for place in range(1, k + 1)), "ok"

    def read_list(self, reply: Reply, k: int) -> tuple[tuple[float, ...], Status]:
        """Parse a reply about k candidates that is a text, or a distribution over their names; like `parse_list`."""
        if reply.logprobs is None:
            cut_off = self._is_cut_off(reply, self.places.named)
            return ((math.nan,) * k, "cut_off") if cut_off else self._parsed_list(reply.text, k)
        masses = [math.exp(each) for each in reply.logprobs]
        total = math.fsum(masses)
        return (tuple(mass / total for mass in masses), "ok") if total else ((math.nan,) * k, "refused")

    def write_list(self, value: Sequence[float]) -> str:
        r"""Return the reply of a perfectly compliant judge.

        Parameters
        ----------
        value : sequence of float, shape (k,)
            By position: 1 for the best and 0 for others; or, for a ranking, the ranks.

        Raises
        ------
        InputError
            If no reply means the value.

        Examples
        --------
        >>> import biaslab as bl
        >>> mine = bl.Protocol.from_template("Rank them:\n{candidates}", "list", replies="order")
        >>> mine.write_list((2, 1, 3))
        '[2] > [1] > [3]'
        """
        k, numbers = len(value), [float(each) for each in value]
        wanted = list(range(1, k + 1)) if self.places.ranks else [0] * (k - 1) + [1]
        if sorted(numbers) != [float(each) for each in wanted]:
            ranked = f"the ranks 1 to {k}, one per position"
            allowed = ranked if self.places.ranks else "1 for one position, 0 for others"
            raise InputError("value", tuple(value), allowed)
        ordered = sorted(range(k), key=lambda at: numbers[at], reverse=not self.places.ranks)
        return self.places.write_order([at + 1 for at in ordered])


def _answer_in(text: str | None) -> str | None:
    """Return a reply without its thought; None if it ends inside the thought."""
    split = split_thought(text or "")
    return None if split.thought is not None and not split.answer else split.answer


@lru_cache(maxsize=256)
def _reader_of(reader: VerdictReader, attribute: str) -> VerdictReader:
    return reader.of(attribute) if attribute else reader


@dataclass(frozen=True)
class Entry:
    """A candidate of a list, as a template shows it; prints as its text.

    Parameters
    ----------
    name : str
        Name in prompt and reply, for example "[2]".
    number : int
        Its position, from 1.
    letter : str
        The letter of its position.
    text : str
        The text.
    """

    name: str
    number: int
    letter: str
    text: str

    def __str__(self) -> str:
        return self.text


class Candidates(tuple[Entry, ...]):
    """Candidates of a list in the order shown; prints each name before its text."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n\n".join(f"{entry.name} {entry.text}" for entry in self)


def _status(order: Sequence[int], k: int, ranks: bool) -> Status:
    if not all(1 <= place <= k for place in order):
        return "invented"
    if len(set(order)) < len(order):
        return "repeated"
    return "incomplete" if ranks and len(order) < k else "ok"


_TEXTS = """{% if context.strip() %}{{ context }}

{% endif %}{% for candidate in candidates %}{{ candidate.name }} {{ candidate.text }}

{% endfor %}"""
_BEST = "Which {{ noun }} is best in {{ attribute }}? {{ definition }}\n\nAnswer with its number in brackets only."
_RANKING = """Rank all {{ k }} by {{ attribute }}, the best first. {{ definition }}

Answer with the numbers only, in the form [] > [] > []."""


@cache
def list_protocol(ranks: bool = False, label: bool = True) -> Protocol:
    """Return biaslab's own protocol for lists.

    Parameters
    ----------
    ranks : bool
        Ask for a ranking instead of the best candidate.
    label : bool
        Ask for the probability of each candidate's number, if the best is requested.

    Examples
    --------
    >>> list_protocol().list_labels(3), list_protocol(ranks=True).write_list((2, 1, 3))
    (('[1]', '[2]', '[3]'), '[2] > [1] > [3]')
    """
    return Protocol.from_template(
        _TEXTS + (_RANKING if ranks else _BEST),
        "list",
        replies="order" if ranks else "best",
        answer="label" if label and not ranks else "text",
        syntax="jinja2",
        max_tokens=128 if ranks else 16,
        name="list_ranking" if ranks else "list_best",
    )


def __dir__() -> list[str]:
    return __all__
