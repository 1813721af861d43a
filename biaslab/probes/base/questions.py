"""Bases of probes that compare pairs or score single texts: how to ask, and how to parse the reply."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import combinations, groupby, product
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar, get_args

import numpy as np

from biaslab import prompts
from biaslab.core.checks import require_one_of, require_sampling, unknown
from biaslab.core.errors import InputError
from biaslab.core.interfaces import Nearest
from biaslab.core.output import AnyPath
from biaslab.core.requests import About, Choice, Compare, Completion, Request, Score, request_key
from biaslab.core.scales import Scale, find_scale
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Scalar, Status, Trial
from biaslab.measures.scoring import pointwise
from biaslab.measures.scoring.pointwise import AnswerSettings, AnyAnswer, Item, Question, items, read_score
from biaslab.probes.base.probe import Probe
from biaslab.prompts.parsing import parse_choice
from biaslab.prompts.protocols import Protocol, ProtocolForm
from biaslab.stats.samples import tempered

if TYPE_CHECKING:
    from biaslab.prompts.edits.attacks import Defence, Turns

VerdictAnswer = Literal["distribution", "text", "verdict"]
_PAIR_ANSWERS = get_args(VerdictAnswer)
_WITHIN_TEXTS: tuple[Defence, ...] = ("none", "quoting")  # defences that do not wrap the whole prompt
_Drawn = TypeVar("_Drawn")
#: Value of the column ``template`` for texts shown without a prompt.
NO_PROMPT = "direct"
_LARGE = 709.0  # larger values overflow exp


@dataclass(frozen=True)
class PairProbe(Probe):
    """Base for probes that compare pairs of candidates.

    Further parameters: `biaslab.probes.base.Probe`.

    A trial's ``value`` is the probability that the candidate shown first wins, normalised over the two labels (p_ij of
    Liusie et al. 2024, Eq. 3), or 0, ½ (tie), 1 for text. A tie is marked by the status: "Tie" is the likeliest answer.
    Two equally likely labels give no decision either, but their ½ is a probability, which remedies can change.

    Parameters
    ----------
    answer : {"distribution", "text", "verdict"}
        Read the probabilities of the two labels (Liusie et al. 2024, Eq. 3), or generate text and parse the label (Eqs.
        4, 5); or show the two texts to a judge that takes no prompt (`biaslab.core.Compare`).
    ties : bool
        Offer "Tie" as a third answer.
    replicates : int
        With ``answer="text"``: samples of each request.
    temperature : float
        With ``answer="text"``: 0 is greedy; replicates are then equal.
    protocol : Protocol or path, optional
        Prompt and parser to use instead of biaslab's own; see `biaslab.Protocol`. It also sets whether text or label
        probabilities are read, the temperature, and whether ties are offered; its id is in the column ``template``.

    Attributes
    ----------
    unprompted : frozenset of type
        Contains `biaslab.core.Compare` if judges without prompts can be asked, because the bias does not depend on the
        prompt.
    """

    protocol_forms: ClassVar[tuple[ProtocolForm, ...]] = ("pair",)

    answer: VerdictAnswer = field(default="distribution", kw_only=True)
    ties: bool = field(default=False, kw_only=True)
    replicates: int = field(default=1, kw_only=True)
    temperature: float = field(default=1.0, kw_only=True)
    protocol: Protocol | AnyPath | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("answer", self.answer, _PAIR_ANSWERS[: 3 if Compare in self.unprompted else 2])
        require_sampling(self.answer, self.replicates, self.temperature)

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: text instead of label probabilities, a verdict instead of text."""
        if isinstance(refused, Completion) and self.answer == "text" and Compare in self.unprompted:
            settled = {"answer": "verdict", "protocol": None, "replicates": 1}
            return Nearest(replace(self, **settled), "shows the texts without a prompt")  # type: ignore[arg-type]
        return super().nearest(refused)

    def pairs(
        self,
        dataset: Dataset,
        columns: Callable[[Item, Item, str], Mapping[str, Scalar] | None] = lambda *_: {},
        templates: Sequence[int] = (1,),
        n_pairs: int | None = None,
        cue: str = "",
    ) -> Iterator[Trial]:
        """Plan the pairs of each context's candidates in both orders, for each attribute, template and replicate.

        Parameters
        ----------
        dataset : Dataset
            The data to judge.
        columns : callable, optional
            Maps the candidates shown first and second, and the attribute, to columns of trials, in addition to
            ``template`` and ``human_gap``, the human score of the first minus that of the second; or to None, not to
            ask for this pair.
        templates : sequence of {1, 2}
            Comparative templates; with a protocol or without a prompt, only the first counts.
        n_pairs : int, optional
            Pairs per context, drawn by the seed and the context; default: all.
        cue : str
            As in `ask_pair`.
        """
        attributes = dataset.require_attributes(self.attributes)
        templates = templates if self.protocol is None and self.answer != "verdict" else templates[:1]
        for context_id, candidates in by_context(dataset).items():
            drawn = draw(list(combinations(candidates, 2)), n_pairs, self.seed, context_id)
            for (first, second), attribute, template in product(both_orders(drawn), attributes, templates):
                own = columns(first, second, attribute)
                if own is not None:
                    gap = first.human[attribute] - second.human[attribute]
                    condition: dict[str, Scalar] = {"template": template, "human_gap": gap}
                    condition.update(own)
                    yield from self.ask_pair(dataset, template, attribute, (first, second), condition, cue=cue)

    def ask_pair(
        self,
        dataset: Dataset,
        template: int,
        attribute: str,
        pair: tuple[Item, Item],
        condition: Mapping[str, Scalar],
        headings: tuple[str, str] = ("", ""),
        note: str = "",
        edits: tuple[str, ...] = (),
        defence: Defence = "none",
        cue: str = "",
    ) -> Iterator[Trial]:
        """Return one trial per replicate of an ordered pair.

        Parameters
        ----------
        dataset : Dataset
            Source of noun and definition.
        template : {1, 2}
            Comparative template.
        attribute : str
            The attribute to compare on.
        pair : tuple of Item
            The candidates shown first and second, as shown; the context is the first's.
        condition : mapping
            Columns of the trials frame.
        headings : tuple of str
            Text in brackets after the names of first and second.
        note : str
            A sentence before the question.
        edits : tuple of str
            Names of the edits of first and second, "" for none; empty if neither is edited.
        cue : str
            Text at the end of the prompt, such as "Answer:".
        defence : str
            Defence around the prompt (`biaslab.prompts.edits.attacks`); its `shield` has been applied to the texts.
        """
        if attribute not in dataset.attributes:
            raise unknown("attribute", attribute, dataset.attributes)
        context_id, context, names = pair[0].context_id, pair[0].context, (pair[0].candidate_id, pair[1].candidate_id)
        texts, source, where = (pair[0].text, pair[1].text), bool(context.strip()), (context_id, attribute, *names)
        protocol, exact = self.protocol, self.answer == "distribution"
        if self.answer == "verdict":
            about = About(context_id, names, texts, (attribute,), source, edits=edits)
            request = Compare(*texts, context, pair[0].reference, attribute, about)
            return iter([Trial(request, *where, 0, {**condition, "template": NO_PROMPT})])
        if isinstance(protocol, Protocol):
            if defence not in _WITHIN_TEXTS:
                raise InputError("defence", defence, f"one of {', '.join(_WITHIN_TEXTS)} with a protocol")
            texts = (_headed(texts[0], headings[0]), _headed(texts[1], headings[1]))
            shown, labels = protocol.show(dataset, attribute, context_id, names, texts), protocol.labels
            named = dataset.require_attributes(self.attributes) if protocol.joint else (attribute,)
            source = source and "context" in protocol.sources
            about = About(context_id, names, texts, named, source, labels, edits=edits, protocol=protocol)
            samples = range(self.replicates)
            requests: list[Request] = [protocol.request(shown, about, k, self.seed, exact, note) for k in samples]
            condition = {**condition, "template": protocol.id}
        else:
            definition, labels = dataset.attributes[attribute], _labels(dataset.noun, self.ties)
            form = _form(template, dataset.noun, attribute, definition, self.ties, headings, note, cue)
            parts = form[0], context, form[1], texts[0], form[2], texts[1], form[3]
            whole = "".join(parts)
            prompt = whole.strip()
            about = About(context_id, names, texts, (attribute,), source, labels, edits=edits)
            defended: str | Turns = prompt
            if defence != "none":
                from biaslab.prompts.edits.attacks import defend

                defended = defend(prompt, defence)
            kept = parts if len(whole) == len(prompt) and defended is prompt else ()
            if exact:
                return iter((Trial(Choice(defended, labels, about, kept), *where, 0, condition, labels),))
            samples = range(self.replicates)
            requests = [Completion(defended, self.temperature, 32, k, self.seed, about) for k in samples]
        return iter([Trial(each, *where, k, condition, labels) for k, each in enumerate(requests)])

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the probability that the first wins, or the score, and the status."""
        return read_reply(self.protocol, trial, reply)


def read_pair(trial: Trial, reply: Reply, protocol: object = None) -> tuple[float, Status]:
    """Return the probability that the first of a pair wins (0, ½ or 1 for text), and the status.

    Replies to a protocol are parsed by it.
    """
    if isinstance(trial.request, Compare):
        return (math.nan, "refused") if reply.score is None else (reply.score, "tie" if reply.score == 0.5 else "ok")
    if isinstance(protocol, Protocol):
        return protocol.read(reply, trial.attribute)
    if isinstance(trial.request, Choice):
        return _read_distribution(reply.logprobs or ())
    chosen, status = parse_choice(reply.text, trial.labels)
    if chosen is None and status != "tie":
        return math.nan, status
    return (0.5, "tie") if chosen is None or chosen == 2 else (1.0 - chosen, "ok")


def _headed(text: str, heading: str) -> str:
    """Return a candidate's text with a heading on the line before it, if there is one."""
    return f"({heading})\n{text}" if heading else text


def draw_of(seed: int, context_id: str) -> np.random.Generator:
    """Return a random generator that depends only on the seed and the context."""
    return np.random.default_rng([seed, zlib.crc32(context_id.encode())])


def draw(population: Sequence[_Drawn], n: int | None, seed: int, context_id: str) -> list[_Drawn]:
    """Draw candidates or pairs of a context without replacement, keeping their order; None takes all."""
    if n is None or n >= len(population):
        return list(population)
    return [population[i] for i in sorted(draw_of(seed, context_id).choice(len(population), n, replace=False))]


def by_context(dataset: Dataset) -> dict[str, list[Item]]:
    """Return the candidates of each context, in the data set's order."""
    return {name: list(group) for name, group in groupby(items(dataset), key=lambda item: item.context_id)}


def both_orders(pairs: Iterable[tuple[Item, Item]]) -> Iterator[tuple[Item, Item]]:
    """Yield each pair, then the same pair in the other order."""
    for pair in pairs:
        yield from (pair, pair[::-1])


def name_candidates(noun: str) -> tuple[str, str]:
    """Return the names of the first and second candidate in a prompt.

    Examples
    --------
    >>> name_candidates("summary")
    ('Summary A', 'Summary B')
    """
    return f"{noun.capitalize()} A", f"{noun.capitalize()} B"


@lru_cache(maxsize=1024)
def _form(
    template: int, noun: str, attribute: str, definition: str, ties: bool, headings: Sequence[str], note: str, cue: str
) -> tuple[str, ...]:
    """Return a comparative prompt without its texts and outer white space; see `biaslab.prompts.prepare`."""
    of = {"noun": noun, "attribute": attribute, "definition": definition}
    texts = ("context", "first", "second")
    form = prompts.prepare(f"comparative_{template}", texts, **of, ties=ties, headings=headings, note=note, cue=cue)
    return (form[0].lstrip(), *form[1:-1], form[-1].rstrip())


@cache
def _labels(noun: str, ties: bool) -> tuple[str, ...]:
    return (*name_candidates(noun), "Tie") if ties else name_candidates(noun)


def _read_distribution(logprobs: Sequence[float]) -> tuple[float, Status]:
    """Return p and the status, which is "tie" if that is the most likely label."""
    if not logprobs or not any(map(math.isfinite, logprobs[:2])):
        tied = len(logprobs) > 2 and math.isfinite(logprobs[2])
        return (0.5, "tie") if tied else (math.nan, "refused")
    first, second = logprobs[:2]
    difference = first - second
    p = 1 / (1 + math.exp(-difference)) if difference > -_LARGE else 0.0
    return p, "tie" if len(logprobs) > 2 and logprobs[2] > max(first, second) else "ok"


@dataclass(frozen=True)
class ScoreProbe(Probe):
    """Base for probes that score candidates one by one on one scale.

    Further parameters: `biaslab.probes.base.Probe`.

    A trial's ``value`` is the score on the scale; for a distribution, the expected score.

    Parameters
    ----------
    scale : str
        One of `biaslab.core.scales.SCALES`.
    answer : {"distribution", "text", "score"}
        Read the exact distribution over the scale's labels, or generate text and parse the score; or ask an evaluator,
        which takes no prompt, for one number.
    replicates : int
        With ``answer="text"``: samples of each request; their scores are averaged.
    temperature : float
        With ``answer="text"``: 0 is greedy; replicates are then equal.
    max_tokens : int
        With ``answer="text"``: maximum tokens of an answer.
    protocol : Protocol or path, optional
        Prompt and parser to use instead of biaslab's own; see `biaslab.Protocol`. It sets scale, temperature and
        maximum length; its id is in the column ``protocol``.

    Attributes
    ----------
    unprompted : frozenset of type
        Contains `biaslab.core.Score`: evaluators can be asked, unless the bias depends on the prompt.
    """

    unprompted = frozenset({Score})
    protocol_forms: ClassVar[tuple[ProtocolForm, ...]] = ("score",)
    columns: ClassVar[tuple[str, ...]] = ("context_id", "candidate_id", "human", "value", "status")

    scale: str = field(default="1-5", kw_only=True)
    answer: AnyAnswer = field(default="distribution", kw_only=True)
    replicates: int = field(default=1, kw_only=True)
    temperature: float = field(default=1.0, kw_only=True)
    max_tokens: int = field(default=16, kw_only=True)
    protocol: Protocol | AnyPath | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._scale, self.asking

    @property
    def _scale(self) -> Scale:
        own = score_protocol(self.protocol)
        return own.scale if own else find_scale(self.scale)

    @property
    def asking(self) -> AnswerSettings:
        """How scores are asked for."""
        return AnswerSettings(
            self.answer, self.replicates, self.temperature, self.max_tokens, self.seed, Score in self.unprompted
        )

    def scores(
        self, dataset: Dataset, columns: Callable[[Item, str], Mapping[str, Scalar]] = lambda *_: {}
    ) -> Iterator[Trial]:
        """Plan the score of each candidate on each attribute, for each replicate.

        Parameters
        ----------
        dataset : Dataset
            The data to judge.
        columns : callable, optional
            Maps a candidate and an attribute to columns of trials.
        """
        for question in self.questions(dataset):
            yield from question.trials(self.asking, columns(question.item, question.attribute))

    def questions(self, dataset: Dataset) -> Iterator[Question]:
        """Yield the question for each candidate's score on each attribute."""
        for item, attribute in product(items(dataset), dataset.require_attributes(self.attributes)):
            yield self.question(dataset, item, attribute)

    def question(self, dataset: Dataset, item: Item, attribute: str, **placed: str) -> Question:
        """Return the question for one score; headings, notes and edits as in `Question.rate`."""
        return question_of(self.protocol, dataset, item, attribute, self._scale, self.attributes, **placed)

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: text instead of label probabilities, an evaluator's number instead of text."""
        if isinstance(refused, Completion) and self.answer == "text" and Score in self.unprompted:
            settled = {"answer": "score", "replicates": 1, "protocol": None}
            return Nearest(replace(self, **settled), "takes an evaluator's number instead of text")  # type: ignore[arg-type]
        return super().nearest(refused)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score, or the probability that the first of a pair wins, and the status."""
        return read_reply(self.protocol, trial, reply)


def draw_score(trial: Trial, reply: Reply, temperature: float, use: str) -> tuple[float, Status]:
    """Draw one score from a label distribution at a temperature; return it with its status.

    The distribution is inverted at a random number that depends only on the request and its use.
    """
    p = tempered(reply.logprobs or (), temperature)
    if np.isnan(p).any() or not len(p):
        return math.nan, "refused"
    place = int(np.searchsorted(p.cumsum(), random_number(trial.request, use) / 2**52 * p.sum(), side="right"))
    return float(find_scale(str(trial.condition["scale"])).values[min(place, len(p) - 1)]), "ok"


def random_number(request: Request, use: str) -> int:
    """Return a random integer below 2**52 that depends on a request and its use."""
    return int(request_key(request, use)[:13], 16)


def question_of(
    protocol: object,
    dataset: Dataset,
    item: Item,
    attribute: str,
    scale: Scale,
    attributes: Sequence[str] | None = None,
    **placed: str,
) -> Question:
    """Return the question for a score, from a score protocol or from biaslab's own prompt.

    Headings, notes and edits are as in `Question.rate`.
    """
    if own := score_protocol(protocol):
        return protocol_question(own, dataset, item, attribute, attributes, **placed)
    return Question.rate(dataset, item, [attribute], scale, **placed)  # type: ignore[arg-type]


def score_protocol(protocol: object) -> Protocol | None:
    """Return the protocol if it asks for scores, else None."""
    return protocol if isinstance(protocol, Protocol) and protocol.form == "score" else None


def read_reply(protocol: object, trial: Trial, reply: Reply) -> tuple[float, Status]:
    """Return the probability that the first of a pair wins, or the score, and the status.

    Text is parsed by the protocol, if there is one of the form that was asked for.
    """
    if trial.opponent_id is not None:
        return read_pair(trial, reply, protocol)
    own = score_protocol(protocol)
    if own and isinstance(trial.request, Completion):
        return own.read(reply, trial.attribute)
    return read_score(trial, reply)


def protocol_column(protocol: object) -> dict[str, Scalar]:
    """Return the column that names a score protocol (for pairs, the column ``template`` does)."""
    own = score_protocol(protocol)
    return {"protocol": own.id} if own else {}


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
    text = _headed(item.text, heading)
    shown = protocol.show(dataset, attribute, item.context_id, [item.candidate_id], [text])
    shown["context"] = item.context
    named = dataset.require_attributes(attributes) if protocol.joint else (attribute,)
    scale = protocol.scale
    about = pointwise.about_scores(replace(item, text=text), named, scale, edit=edit)
    source = about.source and "context" in protocol.sources
    about = replace(about, labels=scale.labels, source=source, protocol=protocol)
    return Question(item, attribute, protocol.messages(shown, note), scale, about)


def require_source_slot(protocol: Protocol) -> None:
    """Raise `InputError` unless a protocol shows the source."""
    if "context" not in protocol.sources:
        remedy = "without it, there is nothing to compare"
        raise InputError("protocol", protocol.id, "a protocol whose template shows the context", remedy)
