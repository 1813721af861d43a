"""Edits: does a judge reward a change that leaves quality unchanged? (Ye et al. 2024; Chen et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any, Literal, get_args

import pandas as pd

from biaslab.core import Completion, Figure, Nearest, Reply, Request, Scalar, Score, Status, Trial
from biaslab.core.checks import require_one_of, require_some_of, require_whole
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Asking, drawn_items
from biaslab.probes._edit_logs import recorded_edits
from biaslab.probes._edit_metrics import BOTH, EDITED, NULL, PAIRS, SCORES, UNEDITED
from biaslab.probes._edited_pairs import UNDEFENDED, defended_parts, pair_parts
from biaslab.probes._edited_scores import score_parts, untouched
from biaslab.probes.base import Accepted, Cell, PairProbe, Part, ScoreProbe, label_mass
from biaslab.probes.base.own_protocol import protocol_column, settle
from biaslab.probes.base.pair_probe import draw_of, name_candidates
from biaslab.prompts.defences import Defence, defend, shield
from biaslab.prompts.edits import Edit as Change, Placed, changes, find_edit, null_edit, placed
from biaslab.prompts.edits.null import PREFIX
from biaslab.prompts.protocols import Protocol

Form = Literal["score", "pair"]
#: Default edits: one per position of a change, and one that lengthens.
_USUAL = ("authority", "bandwagon", "padding", "refinement")


@dataclass(frozen=True)
class Edit(PairProbe, ScoreProbe):
    """Effect of edits: the reward for a change that leaves the quality of a text unchanged.

    Texts are judged in three variants: *unedited*, *edited*, and with a meaningless *null edit* of the same size in the
    same place (`biaslab.edits.null`). Any change may affect a score, so only the *excess* of the edit over its null
    edit is due to its content. The edits are in `biaslab.edits` (where `Edit` is a single edit; this class is the
    probe). Further parameters: `biaslab.probes.base.ScoreProbe`, `biaslab.probes.base.PairProbe`.

    Parameters
    ----------
    edits : sequence of str, biaslab.prompts.edits.Edit or callable, optional
        Names from `biaslab.edits.available`, edits, or your own functions from text to text. Default: *authority*,
        *bandwagon*, *padding* and *refinement*. Every edit adds two requests per unedited one.
    forms : sequence of {"score", "pair"}
        Score single candidates, and/or compare pairs in both orders.
    n_candidates : int, optional
        Candidates per context to score, drawn at random; None: all.
    n_pairs : int, optional
        Pairs per context to compare, drawn at random together with the candidate to edit; None: all pairs.
    template : {1, 2}
        Comparative template.
    gap_bins : int
        Bins of the human score gap.
    defences : sequence of {"none", "delimiters", "quoting", "reminder", "two_step"}
        Defences in the prompt against candidates that address the judge (`biaslab.prompts.defences`); everything is
        asked with each.
    answer : {"distribution", "text", "verdict"}
        Read the probabilities of the labels, or generate and parse text; or show the texts to a judge that takes no
        prompt, which allows only edits of the text itself and no defences.

    Raises
    ------
    InputError
        If a value is out of range, or an edit is unknown or repeated.

    Notes
    -----
    Every edit is compared with its own null edit on complete blocks: items, or pairs in both orders, with a missing
    judgement are dropped and counted in ``n_dropped``. Texts that an edit does not change are left out. The column
    ``quality`` says whether the edit keeps or lowers quality; if it lowers quality, a fair judge scores lower, and an
    excess *above* 0 is the finding. There is one estimate for each judge × data set × attribute × edit × form.

    From scores (``form`` "score"), in points of the scale:

    - ``score_excess`` — score with the edit minus score with its null edit. Null 0; above: the edit is rewarded.
      Primary.
    - ``score_excess_sd`` — the same in standard deviations of the judge's scores of the unedited texts. Null 0.
    - ``score_worth`` — the same in points of human score: divided by the judge's slope on human scores within contexts.
      Undefined if the slope is not shown to be above 0; error in human scores inflates it.
    - ``score_effect`` — score with an edit minus score without, for edit and null edit (column ``variant``). Null 0.
    - ``top_rate`` — share of scores nearest to the top of the scale, by ``variant``. 0–1.

    From pairs (``form`` "pair"), with one candidate edited and the other never, averaged over both orders:

    - ``win_excess`` — probability that the edited candidate wins, minus that with its null edit. −1 to 1, null 0;
      above: the edit is rewarded. Primary. For text, the share of verdicts with ties counting ½, so that, unlike
      logits, it means the same in every answer mode.
    - ``logit_excess`` — the same in logits, which do not shrink if the judge is certain. Null 0. For text and shares of
      samples: the common log odds ratio over pairs (`biaslab.ranking.order_odds`).
    - ``win_effect``, ``logit_effect`` — the same relative to the unedited pair, for edit and null edit (column
      ``variant``). Null 0.
    - ``flip_rate``, ``flip_excess`` — how often the winner differs from that without the edit, by ``variant`` (0–1);
      and with the edit minus with the null edit (null 0).
    - ``worse_wins`` — share of decisions for the worse candidate if it is edited, by ``variant``. 0–1; for "edited" it
      is the success rate of an attack.
    - ``side_win_excess``, ``side_logit_excess`` — the excess by whether the better or the worse candidate is edited, or
      both have equal human scores (column ``edited``). ``win_excess`` and ``logit_excess`` are also given by bins of
      the absolute human gap (column ``human_gap``).

    From both:

    - ``untouched`` — share of texts that the edit does not change. 0–1.
    - ``label_mass`` — total probability of all labels. 0–1.
    - ``score_defended``, ``win_defended`` — excess with a defence minus excess without, on the same items, for each
      defence except "none" (column ``defence``). Null 0; below: the defence weakens an attack that works.

    **Inference.** Excesses and effects: t tests and t intervals over contexts. Rates: bootstrap or score intervals;
    ``method`` says which. If judgements are missing, ``bound_low`` and ``bound_high`` of the primary metrics hold
    whatever the missing values are. q-values are over all edits that are estimated together.

    References
    ----------
    Ye et al. 2024, *Justice or Prejudice? Quantifying Biases in LLM-as-a-Judge* (CALM); Chen et al. 2024, *Humans or
    LLMs as the Judge? A Study on Judgement Biases*; Koo et al. 2024, *Benchmarking Cognitive Biases in LLMs as
    Evaluators* (CoBBLEr).

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Edit(["coherence"], ["authority"], forms=["pair"])
    >>> judge = bl.SimulatedJudge(data, noise=0.2, edits={"authority": 1.0, "null:authority": 0.4})
    >>> found = probe.estimate(bl.collect(probe, judge, data, progress=False)).set_index("metric")
    >>> round(float(found.loc["logit_excess", "estimate"].iloc[0]), 1)
    0.6
    """

    name = "edit"
    verdicts = True
    protocol_form = "pair or score"
    cell = ("judge", "dataset", "attribute", "edit", "form")
    conditions = ("quality", "defence", "variant", "edited", "human_gap")
    columns = (
        *("context_id", "candidate_id", "opponent_id", "replicate", "value", "status", "label_mass", "samples"),
        *("variant", "changed", "quality", "edited_first", "human_gap", "human", "scale"),
    )
    needs = "judgements of edited texts and of the same texts unedited: a column edit"
    metrics = (*SCORES, *PAIRS, *BOTH)
    figures = (
        Figure("effects", ("score_effect", "win_effect"), by="edit", hue="variant", col="metric"),
        Figure("excess", ("score_excess", "win_excess"), by="edit", col="metric"),
        Figure("human_gap", "win_excess", x="human_gap", hue="edit"),
        Figure("attacks", ("worse_wins", "win_excess"), by="edit", hue="variant", col="metric"),
        Figure(
            "defences",
            ("worse_wins", "win_defended"),
            by="edit",
            hue="defence",
            col="metric",
            where={"variant": ["edited", None]},
        ),
    )

    edits: Sequence[str | Change | Callable[[str], str]] | None = None
    forms: Sequence[Form] = ("score", "pair")
    n_candidates: int | None = 2
    n_pairs: int | None = 2
    template: int = 1
    gap_bins: int = 3
    defences: Sequence[Defence] = (UNDEFENDED,)
    answer: Literal["distribution", "text", "verdict"] = field(  # type: ignore[assignment]
        default="distribution", kw_only=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_some_of("forms", self.forms, get_args(Form))
        require_whole("n_candidates", self.n_candidates, 1, optional=True)
        require_whole("n_pairs", self.n_pairs, 1, optional=True)
        require_one_of("template", self.template, (1, 2))
        require_whole("gap_bins", self.gap_bins, 1)
        require_some_of("defences", self.defences, get_args(Defence))
        names = [edit.name for edit in self.chosen]
        if not names or len(set(names)) < len(names) or any(name.startswith(PREFIX) for name in names):
            allowed = f"at least one, with different names that do not begin with {PREFIX!r}"
            raise InputError("edits", names, allowed, "name the functions, or wrap them in biaslab.prompts.edits.Edit")
        if self.answer == "verdict":
            in_prompt = [edit.name for edit in self.chosen if edit.place != "text"]
            in_prompt += [name for name in self.defences if name != UNDEFENDED]
            if in_prompt:
                raise InputError("answer", self.answer, "distribution or text", f"{in_prompt[0]} needs a prompt")

    @property
    def chosen(self) -> tuple[Change, ...]:
        """The edits to study."""
        if isinstance(self.edits, str | Change):
            raise InputError("edits", self.edits, "a list of edits", f"write [{self.edits!r}]")
        return tuple(map(find_edit, _USUAL if self.edits is None else self.edits))

    def take_protocol(self) -> None:
        """Ask only for the protocol's form."""
        if self.protocol is None:
            return
        protocol = Protocol.of_form(self.protocol, "pair", "score")
        if set(self.defences) - {UNDEFENDED, *(["quoting"] if protocol.form == "pair" else [])}:
            raise InputError("defences", list(self.defences), "none with a protocol")
        settle(self, {"protocol": protocol, "forms": (protocol.form,)})
        (PairProbe if protocol.form == "pair" else ScoreProbe).take_protocol(self)

    @property
    def asking(self) -> Asking:
        """How scores are asked for."""
        answer = "score" if self.answer == "verdict" else self.answer
        return Asking(answer, self.replicates, self.temperature, self.max_tokens, self.seed, evaluators=True)

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: text instead of label probabilities, then texts without prompt, then one form."""
        if self.answer == "verdict" and len(self.forms) > 1:
            form: Form = "pair" if isinstance(refused, Score) else "score"
            words = f"judges only by {form}s"
            return Nearest(replace(self, forms=(form,)), words, omits=words)
        if not isinstance(refused, Completion) or self.answer != "text":
            return super().nearest(refused)
        kept = [edit for edit in self.chosen if edit.place == "text"]
        if not kept or any(name != UNDEFENDED for name in self.defences):
            return None
        left = [edit.name for edit in self.chosen if edit.place != "text"]
        omits = f"leaves out {', '.join(left)}, which need a prompt" if left else ""
        settled = {"answer": "verdict", "protocol": None, "replicates": 1, "edits": kept}
        words = " and ".join(filter(None, ("shows the texts without a prompt", omits)))
        return Nearest(replace(self, **settled), words, omits=omits)  # type: ignore[arg-type]

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan each drawn item, and each drawn pair in both orders, unedited, edited and null-edited."""
        attributes, human = dataset.require_attributes(self.attributes), dataset.human_means.to_dict()
        for defence in self.defences:
            if "score" in self.forms:
                yield from self._scores(dataset, attributes, defence)
            if "pair" in self.forms:
                for context_id, rows in dataset.candidates.groupby("context_id", sort=False):
                    yield from self._pairs(dataset, attributes, human, defence, (str(context_id), rows))

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score, or the probability that the first of a pair wins, and the status."""
        return (ScoreProbe if trial.opponent_id is None else PairProbe).read(self, trial, reply)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of one edit, from scores or pairs, with each defence, and the effect of defences."""
        trials, of_pairs = cell.trials, cell.where["form"] == "pair"
        defence = trials["defence"].fillna(UNDEFENDED) if "defence" in trials else UNDEFENDED
        cell = replace(cell, trials=trials.assign(defence=defence))
        quality = {"quality": trials["quality"].iloc[0]}
        for name, part_of_cell in cell.trials.groupby("defence", sort=False):
            for part in self._measure(replace(cell, trials=part_of_cell), of_pairs):
                yield replace(part, condition={**quality, "defence": name, **part.condition})
        for part in defended_parts(cell, of_pairs):
            yield replace(part, condition={**quality, **part.condition})

    def _measure(self, cell: Cell, of_pairs: bool) -> Iterator[Part]:
        yield from pair_parts(cell, self.gap_bins) if of_pairs else score_parts(cell)
        items = ("context_id", "candidate_id", *(("opponent_id",) if of_pairs else ()))
        shares = {"untouched": untouched(cell.trials, items), "label_mass": label_mass(cell.trials)}
        yield Part(shares, cell.trials)

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Select judgements with a column ``edit`` and their unedited counterparts (for pairs, also ``edited``)."""
        edited, note = recorded_edits(trials)
        return Accepted(edited, note or f"needs {self.needs}" if edited.empty else note)

    def _scores(self, dataset: Dataset, attributes: Sequence[str], defence: Defence) -> Iterator[Trial]:
        for item in drawn_items(dataset, self.n_candidates, self.seed):
            for edit in self.chosen:
                for variant, change, condition in _variants(edit.given(item.context), item.text, dataset.noun):
                    shown = _behind(placed(change, item.text, dataset.noun), defence)
                    counterpart = replace(item, text=shown.text)
                    for attribute in attributes:
                        placing = {"heading": shown.heading, "note": shown.note, "edit": shown.edit}
                        asked = self.question(dataset, counterpart, attribute, **placing)
                        if defence != UNDEFENDED:
                            asked = replace(asked, messages=defend(str(asked.messages), defence))
                        columns = {
                            "form": "score",
                            "variant": variant,
                            "defence": defence,
                            **condition,
                            **_ONLY_OF_PAIRS,
                        }
                        columns |= protocol_column(self.protocol)
                        yield from asked.trials(self.asking, columns)

    def _pairs(
        self,
        dataset: Dataset,
        attributes: Sequence[str],
        human: Mapping[Any, Any],
        defence: Defence,
        of_context: tuple[str, pd.DataFrame],
    ) -> Iterator[Trial]:
        name, rows = of_context
        texts = dict(zip(rows["candidate_id"], rows["text"], strict=True))
        context, names = (name, str(rows["context"].iloc[0])), name_candidates(dataset.noun)
        for (edited, other), edit in product(self._draw(name, list(texts)), self.chosen):
            for variant, change, condition in _variants(edit.given(context[1]), texts[edited], names[0]):
                for place, attribute in product((0, 1), attributes):
                    shown = _behind(placed(change, texts[edited], names[place]), defence)
                    sides = (edited, shown.text), (other, shield(texts[other], defence))
                    pair = sides if place == 0 else sides[::-1]
                    score = human[attribute]
                    gap = float(score[name, pair[0][0]] - score[name, pair[1][0]])
                    columns = {"form": "pair", "variant": variant, **condition, "edited_first": 1.0 - place}
                    columns |= {"defence": defence}
                    columns |= {"human_gap": gap, "human": None, "scale": None, "answer": self.answer}
                    of = [(shown.heading, shown.edit), ("", "")]
                    headings, edits = zip(*(of if place == 0 else of[::-1]), strict=True)
                    asked = (dataset, self.template, attribute, context, pair, columns)
                    yield from self.ask_pair(*asked, headings, shown.note, edits if change else (), defence)

    def _draw(self, context_id: str, candidates: list[str]) -> list[tuple[str, str]]:
        """Return the pairs of a context to compare, with the candidate to edit first."""
        unordered, draw = list(combinations(candidates, 2)), draw_of(self.seed, context_id)
        turned = draw.integers(2, size=len(unordered))
        pairs = [pair[::-1] if turn else pair for pair, turn in zip(unordered, turned, strict=True)]
        if self.n_pairs is None or self.n_pairs >= len(pairs):
            return pairs
        return [pairs[i] for i in sorted(draw.choice(len(pairs), self.n_pairs, replace=False))]


def _behind(shown: Placed, defence: Defence) -> Placed:
    """Return a candidate as shown in a defended prompt, with the edit named "edit+defence"."""
    edit = f"{shown.edit}+{defence}" if shown.edit and defence != UNDEFENDED else shown.edit
    return replace(shown, text=shield(shown.text, defence), edit=edit)


_ONLY_OF_PAIRS: Mapping[str, Scalar] = {"edited_first": None, "human_gap": None}


def _variants(edit: Change, text: str, name: str) -> Iterator[tuple[str, Change | None, dict[str, Any]]]:
    """Yield the variants of a candidate; only the unedited one if the edit changes nothing."""
    changed = changes(edit, text, name)
    condition = {"edit": edit.name, "quality": edit.quality, "changed": float(changed)}
    yield UNEDITED, None, condition
    if changed:
        yield EDITED, edit, condition
        yield NULL, null_edit(edit), condition
