"""Define `Protocol`: the prompt of a judge and the parser of its replies."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from biaslab.core.checks import require_one_of, require_temperature, require_whole
from biaslab.core.errors import InputError
from biaslab.core.messages import Role
from biaslab.core.own_code import PREFIX, own_object
from biaslab.core.project import SETTINGS
from biaslab.core.settings_file import find_file, named_tables
from biaslab.prompts.protocols.answering import Choose, Form
from biaslab.prompts.protocols.asking import Answer, Asking
from biaslab.prompts.protocols.building import (
    as_json,
    as_turns,
    guess_variables,
    points_of,
    reader_of,
    require_candidates,
    require_no_verdicts,
)
from biaslab.prompts.protocols.files import arguments_of
from biaslab.prompts.protocols.list_reader import ListReply, Places
from biaslab.prompts.protocols.readers import Labels, Reader
from biaslab.prompts.protocols.slots import SlotText, Syntax

_WORDS_FIRST = re.compile(
    r"step[ -]by[ -]step|(?:begin|start|first)\b[^.\n]{0,80}\b(?:explanation|reason\w*|analysis|comparing|feedback)"
    r"|after (?:providing|giving|writing) (?:your|an?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Protocol(Asking):
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
    reader : Reader
        Finds verdicts in a reply, and writes them.
    points : tuple of float
        The possible values of a reply: for pairs, probabilities that the candidate shown first wins (½ is a tie); for
        scores, the points of the scale; for lists, none.
    variables : tuple of (str, str)
        What each slot shows: a name from `biaslab.prompts.protocols.asking.SOURCES`, or a column of the data set's
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
        replies: ListReply = "best",
        names: str = "[{n}]",
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
        reader : Reader, optional
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
        require_one_of("form", form, get_args(Form))
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
    def loaded(cls, protocol: Protocol | str | PathLike[str]) -> Protocol:
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
    def of_form(cls, given: Protocol | str | PathLike[str], *forms: Form) -> Protocol:
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
            self.require_round_trip(value)
        if self.form == "list":
            self.require_list_round_trip()

    def _require_label_first(self) -> None:
        words = [match[0] for _, text in self.turns if (match := _WORDS_FIRST.search(text.source))]
        if self.answer == "label" and words:
            raise InputError("answer", "label", f'"text", since the prompt asks for a rationale first ({words[0]!r})')
        if self.answer == "label" and isinstance(self.reader, Places) and self.reader.ranks:
            raise InputError("answer", "label", '"text" for rankings', 'or ask for the best: replies="best"')
        if self.answer == "label" and not isinstance(self.reader, Labels | Places):
            raise InputError("answer", "label", '"text" unless verdicts are labels', "give verdicts, or answer='text'")

    @property
    def id(self) -> str:
        """Name, and a short hash of all fields."""
        return f"{self.name}@{self._hash}"

    @cached_property
    def _hash(self) -> str:
        document = json.dumps([as_json(getattr(self, each.name)) for each in fields(self)[1:]], sort_keys=True)
        return hashlib.sha256(document.encode()).hexdigest()[:8]
