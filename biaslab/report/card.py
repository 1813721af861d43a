"""The bias card: one page on which biases a judge has, what it is fit for, and which remedies help."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from biaslab.core.errors import InputError, TrialsError
from biaslab.core.files import csv_of
from biaslab.core.metrics import find_metric
from biaslab.core.output import MISSING, AnyPath, count, number, percent, replacing, require_file, with_interval
from biaslab.report.methods import NEEDED, Checklist, checklist
from biaslab.report.summary import (
    ANY_JUDGEMENT,
    NO_AGREEMENT,
    STATUS,
    Fitness,
    advice_lines,
    agreements,
    fitness,
    is_bias,
    item,
    spaced,
    sum_up,
    verdict_lines,
)
from biaslab.report.tables import to_html
from biaslab.report.verdicts import ADDED, Finding, by_metric, classify, side_words, tidy
from biaslab.report.wording import correction, fair, levels, span, templates, version
from biaslab.stats.frame import FAMILY, require_columns, with_numpy_types, without_breakdowns
from biaslab.stats.synthesis import FEWEST_POOLED, synthesis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_WIDTH = 100  # characters per line of a card as text


def _agreement(row: Mapping[Any, Any]) -> str:
    named = ", ".join(filter(None, (row["label"], row["cell"])))
    return " ".join(filter(None, (f"{named}: {row['estimate']}", row["interval"])))


@dataclass(frozen=True, eq=False, repr=False)
class Card:
    """A bias card; ``print`` shows it as text, and JupyterLab as HTML.

    Attributes
    ----------
    biases : pandas.DataFrame
        One row per judge and primary metric: ``judge, probe, metric, label, status, brief, opposite, verdict, standing,
        rank, strongest, estimate, interval, share, q, mde, detectable, remedy, advice, to_do, sides, n_open,
        n_cells``. ``opposite`` names inconclusive cells on the other side; ``share`` has log odds as a probability;
        ``status`` is one of *bias*, *slight*, *none*, *unclear*, *untested*; ``brief`` is the first clause of
        ``verdict``;
        ``standing`` (in brief: ``rank``) and the columns after it describe the strongest cell. ``sides`` lists the
        sides of the null on which a bias was found; ``n_open`` counts inconclusive cells.
    quality : pandas.DataFrame
        Agreement of each judge with the reference scores: ``judge, label, cell, estimate, interval``, the number of
        cells that have a chance level (``with_chance``), and the numbers shown to be above (``above_chance``) and below
        it (``below_chance``).
    findings : tuple of Finding
        What each estimate of a primary metric shows.
    unmeasured : tuple of tuple of str
        Judge, probe and the reason why the probe was not measured.
    otherwise : tuple of tuple of str
        Judge, probe, and what was asked differently than planned, with the reason.
    checklist : Checklist or None
        Items of published checklists, answered from all estimates; None if these lack a column that it needs.
    """

    biases: pd.DataFrame
    quality: pd.DataFrame
    findings: tuple[Finding, ...]
    unmeasured: tuple[tuple[str, str, str], ...] = ()
    otherwise: tuple[tuple[str, str, str], ...] = ()
    checklist: Checklist | None = None

    @cached_property
    def cells(self) -> pd.DataFrame:
        """All estimates of primary metrics with their verdicts; see `biaslab.report.findings`."""
        return tidy(pd.DataFrame([each.row for each in self.findings]), self.findings)

    @cached_property
    def synthesis(self) -> pd.DataFrame:
        """Each judge's metrics pooled over data sets, where it has one estimate of each of three or more.

        See `biaslab.synthesis`; empty if there are none.
        """
        of = self.cells.groupby(list(FAMILY))["dataset"]
        rows = self.cells[of.transform("size") == of.transform("nunique")]
        rows = rows[rows["se"] > 0] if "se" in rows else rows.iloc[:0]
        several = rows.groupby(list(FAMILY))["dataset"].transform("size") >= FEWEST_POOLED
        return synthesis(rows[several]) if several.any() else rows.iloc[:0]

    def _pooled(self, judge: str) -> list[str]:
        """Return a sentence for each metric that is pooled over data sets."""
        rows = self.synthesis[self.synthesis["judge"] == judge].to_dict("records")
        return [
            f"{find_metric(row['metric'], row['probe']).label} {with_interval(row, 2)}, over "
            f"{count(row['n_estimates'], 'data set')}, I² {percent(row['i_squared'], 2)}; predicted in another: "
            f"{number(row['prediction_low'], 2)} to {number(row['prediction_high'], 2)}"
            for row in rows
        ]

    @property
    def judges(self) -> list[str]:
        """The judges, in input order."""
        return [str(name) for name in dict.fromkeys(each.row["judge"] for each in self.findings)]

    @property
    def overall(self) -> dict[str, str]:
        """What each judge is and is not fit for, judging by its biases: the first line of the card.

        Examples
        --------
        >>> import biaslab as bl
        >>> rows = bl.atlas.estimates(judge="claude-3-haiku-20240307", source="devbench")
        >>> bl.report.card(rows).overall["claude-3-haiku-20240307"].partition(".")[0]
        'Do not use for pairs shown in one order only'
        """
        return {judge: str(self._fitness(judge)) for judge in self.judges}

    def _fitness(self, judge: str) -> Fitness:
        own, quality = (frame[frame["judge"] == judge].to_dict("records") for frame in (self.biases, self.quality))
        return fitness(own, quality)

    def __str__(self) -> str:
        lines: list[str] = []
        for judge, about in self.overall.items():
            rows = self.biases[self.biases["judge"] == judge].to_dict("records")
            quality = self.quality[self.quality["judge"] == judge].to_dict("records")
            open_ = [(f"{row['probe']}, {row['label']}", row["verdict"]) for row in rows if row["estimate"] == MISSING]
            open_ += [(probe, why) for name, probe, why in self.unmeasured if name == judge]
            rest = "; ".join(f"{spaced(name)} ({why})" for name, why in open_)
            lines += [
                judge,
                *(part for sentence in about.splitlines() for part in item(sentence, _WIDTH)),
                *verdict_lines(rows, _WIDTH),
                *(part for row in quality for part in item(f"· {_agreement(row)}", _WIDTH)),
                *(part for words in self._pooled(judge) for part in item(f"· pooled: {words}", _WIDTH)),
                *advice_lines(rows, _WIDTH),
                *(item(f"– not tested: {rest}", _WIDTH) if rest else []),
                *(part for name, _, words in self.otherwise if name == judge for part in item(f"! {words}", _WIDTH)),
                "",
            ]
        return "\n".join([*lines, f"Found: q < .05 over {correction(self.cells)} on this card."])

    __repr__ = __str__

    def to_html(self) -> str:
        """Return a self-contained HTML page."""
        return self._html("card.html.j2", self._picture_bytes())

    def to_markdown(self) -> str:
        """Return the card as Markdown, without the figure and without the table of all estimates."""
        return templates().get_template("card.md.j2").render(**self._facts())

    def plot(self) -> Axes:
        """Plot each estimate's distance from no bias, in units of the smallest distance that matters."""
        from biaslab.report.plots.card_figure import draw

        about = self._facts()
        facts = [", ".join(about["datasets"]), f"n = {about['n']} contexts", f"{about['level']} intervals"]
        return draw(self.biases, self.findings, " · ".join([*facts, f"q over {about['tests']}"]))

    def save(self, stem: AnyPath, picture: bool = True) -> list[Path]:
        """Save the card as ``.html``, ``.md`` and ``.png`` and its estimates as ``.csv``; return the paths.

        Parameters
        ----------
        stem : str or Path
            Path of the files, without suffix.
        picture : bool
            Draw the figure, which takes most of the time; otherwise there is no ``.png`` and no figure on the page.
        """
        require_file("stem", f"{stem}.html")
        drawn = self._picture_bytes() if picture else b""
        page, table = self._html("card.html.j2", drawn).encode(), csv_of(self.cells).encode()
        contents = {".html": page, ".md": self.to_markdown().encode(), ".png": drawn, ".csv": table}
        paths = {Path(f"{stem}{suffix}"): content for suffix, content in contents.items() if content}
        for path, content in paths.items():
            with replacing(path) as partial:
                partial.write_bytes(content)
        return list(paths)

    def _repr_html_(self) -> str:
        return self._html("card_body.html.j2", self._picture_bytes())

    def _html(self, template: str, drawn: bytes) -> str:
        picture = base64.b64encode(drawn).decode("ascii")
        facts = self._facts() | {"picture": picture, "table": to_html(self.cells.drop(columns=list(ADDED)))}
        return templates().get_template(template).render(**facts)

    def _picture_bytes(self) -> bytes:
        import matplotlib.pyplot as plt

        with io.BytesIO() as file:
            figure: Figure = self.plot().figure  # type: ignore[assignment]
            figure.savefig(file, format="png", dpi=200, bbox_inches="tight", metadata={"Software": None})
            plt.close(figure)
            return file.getvalue()

    def _facts(self) -> dict[str, Any]:
        contexts = self.cells.loc[self.cells["n_contexts"] > 0, "n_contexts"]
        keys = dict.fromkeys(zip(self.biases["probe"], self.biases["metric"], strict=True))
        return {
            "judges": [self._of_judge(name) for name in self.judges],
            "rows": sorted((self._row(*key) for key in keys), key=lambda row: row["worst"]),
            "status": STATUS,
            "datasets": [str(name) for name in dict.fromkeys(self.cells["dataset"])],
            "n": span(contexts) if len(contexts) else "0",
            "level": levels(self.cells),
            "tests": correction(self.cells),
            "seeds": ", ".join(f"{seed:.0f}" for seed in self.cells["seed"].dropna().unique()),
            "version": version(),
            "compared": bool(self.biases["standing"].any()),
            "checklist": self.checklist,
        }

    def _row(self, probe: str, metric: str) -> dict[str, Any]:
        declared, own = find_metric(metric, probe), self.biases
        rows = own[(own["probe"] == probe) & (own["metric"] == metric)].set_index("judge").to_dict("index")
        worst = min(list(STATUS).index(row["status"]) for row in rows.values())
        facts = {"probe": probe.replace("_", " "), "label": declared.axis, "null": fair(declared.null)}
        return {**facts, "worst": worst, "by_judge": [rows.get(judge) for judge in self.judges]}

    def _of_judge(self, judge: str) -> dict[str, Any]:
        own = self.biases[self.biases["judge"] == judge]
        names = {key: [_short(row, own) for row in own[own["status"] == key].to_dict("records")] for key in STATUS}
        quality = self.quality[self.quality["judge"] == judge].to_dict("records")
        missing = [(probe.replace("_", " "), why) for name, probe, why in self.unmeasured if name == judge]
        otherwise = [why for name, _, why in self.otherwise if name == judge]
        facts = {"fitness": self._fitness(judge), "quality": quality, "missing": missing, "otherwise": otherwise}
        facts["pooled"] = self._pooled(judge)
        return {"name": judge, "names": names, **facts}


def card(
    estimates: pd.DataFrame | Sequence[pd.DataFrame],
    remedies: pd.DataFrame | None = None,
    *,
    matters: Mapping[str, float] | None = None,
    unmeasured: Sequence[tuple[str, str, str]] = (),
    otherwise: Sequence[tuple[str, str, str]] = (),
    reference: str | pd.DataFrame | None = "atlas",
) -> Card:
    """Make the bias card of one or more judges from the estimates of several probes.

    Parameters
    ----------
    estimates : pandas.DataFrame or sequence of them
        Estimates frames. The card has a verdict on each primary metric and shows quality metrics as agreement; other
        metrics are left out. q-values are recomputed over the tests on the card; see `biaslab.stats.corrected`.
    remedies : pandas.DataFrame, optional
        Result of `biaslab.mitigation.remedies` or `biaslab.ranking.compare_remedies` for the same metrics. The card
        names a remedy only if a paired test, corrected for the number of remedies tried, shows that it helps.
    matters : mapping of str to float, optional
        See `biaslab.report.verdicts`.
    unmeasured : sequence of tuple of str
        Judge, probe and reason, to list as not measured on the card.
    otherwise : sequence of tuple of str
        Judge, probe and what was asked differently than planned (``trials.attrs["otherwise"]``), to list on the card.
    reference : {"atlas"}, pandas.DataFrame or None
        Compare each bias with the recorded judges of the atlas, or with those in another estimates frame (see
        `biaslab.report.verdicts`); None: no comparison.

    Returns
    -------
    Card

    Raises
    ------
    TrialsError
        If no primary metric has an estimate, or a column is missing.
    InputError
        If `matters` or `reference` is invalid.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=12)
    >>> probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    >>> frames = [
    ...     probe.estimate(bl.collect(probe, judge, data, progress=False), ["first_position_rate"])
    ...     for judge in (bl.SimulatedJudge(data, position=2.0, noise=1), bl.SimulatedJudge(data, noise=1))
    ... ]
    >>> card(frames).biases["status"].tolist()
    ['bias', 'none']
    """
    frames = [estimates] if isinstance(estimates, pd.DataFrame) else list(estimates)
    if not frames:
        raise InputError.plain("estimates are empty; pass at least one estimates frame")
    for frame in frames:
        require_columns(frame, ("probe", "metric", "estimate"), "estimates")
    whole = pd.concat([with_numpy_types(frame).dropna(axis=1, how="all") for frame in frames], ignore_index=True)
    needed = [c for c in frames[0].columns if c not in whole]  # columns that are empty everywhere
    whole[needed] = float("nan")
    whole = without_breakdowns(whole)
    named = list(zip(whole["metric"], whole["probe"], strict=True))
    cells = whole[[is_bias(*pair) for pair in named]].reset_index(drop=True)
    if cells.empty:
        present = f"have only {', '.join(dict.fromkeys(whole['metric']))}" if len(whole) else "have no row"
        raise TrialsError.plain(f"estimates {present}; a card needs at least one primary metric of a probe")
    quality = agreements(whole[[find_metric(*pair).quality for pair in named]])
    found = classify(cells, matters, reference=reference)
    rows = [sum_up(part, remedies) for part in by_metric(found).values()]
    items = checklist(whole) if set(NEEDED) <= set(whole.columns) else None
    return Card(pd.DataFrame(rows), quality, tuple(found), tuple(unmeasured), tuple(otherwise), items)


_MOST = 3  # maximum number of biases that an answer describes
_EITHER = "one or the other, by attribute, data or prompt"


def answer(estimates: pd.DataFrame | Sequence[pd.DataFrame], matters: Mapping[str, float] | None = None) -> str:
    """Say in a few sentences what a study found, what it excludes or leaves open, and what to do.

    Parameters
    ----------
    estimates, matters
        As in `biaslab.report.card`. Of several judges, the answer counts those with each bias; people are not
        counted, but their tests are among those that q is corrected for.

    Returns
    -------
    str
        If nothing is a test of a bias, the sentence of `biaslab.plots.headline`.

    Raises
    ------
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> import biaslab as bl
    >>> rows = bl.atlas.estimates(judge="claude-3-haiku-20240307", source="devbench", breakdowns=False)
    >>> answer(rows).split(". ")[0]
    'Found for claude-3-haiku-20240307: prefers the candidate shown second (in 2 of 2) (P(A) 0.102 [0.073, 0.141])'
    """
    from biaslab.report.plots.figure_words import headline, judge_words, short_label
    from biaslab.report.plots.style import family_of, shortened

    frames = [estimates] if isinstance(estimates, pd.DataFrame) else list(estimates)
    for frame in frames:
        require_columns(frame, ("probe", "judge", "metric", "estimate"), "estimates")
    frames = [frame.assign(judge=frame["judge"].astype(object).fillna("the judge")) for frame in frames]
    if not any(is_bias(*pair) for each in frames for pair in zip(each["metric"], each["probe"], strict=True)):
        words = headline(pd.concat(frames, ignore_index=True)) if frames else ""
        return " ".join([*([f"{words}."] if words else []), "Nothing here is a test of a bias."])
    made = card(frames, matters=matters, reference=None)  # people's tests are of the same family, as in tables
    models = [name for name in made.judges if family_of(name) != "people"] or made.judges
    rows = [row for row in made.biases.to_dict("records") if row["judge"] in models]
    labels = {(row["probe"], row["metric"]): short_label(find_metric(row["metric"], row["probe"])) for row in rows}
    tested = Counter((row["probe"], row["metric"]) for row in rows if row["status"] != "untested")
    if len(models) > 1:
        found = Counter((row["probe"], row["metric"]) for row in rows if row["sides"])
        most = sorted(tested, key=lambda key: (-found[key], -tested[key]))[:_MOST]
        parts = [[r for r in rows if (r["probe"], r["metric"]) == key and r["status"] != "untested"] for key in most]
        told = [row for part in parts for row in part]
        counts = [_of_judges(labels[key], part) for key, part in zip(most, parts, strict=True)]
        others = f"; {count(len(tested) - _MOST, 'more metric')}" if len(tested) > _MOST else ""
        sentences = [f"Among {len(models)} judges: {'; '.join(counts) or 'no bias was tested'}{others}."]
    else:
        told = sorted(rows, key=lambda row: row["status"] not in ("bias", "slight"))
        sentences = _of_one(shortened(judge_words(models[0])), told, labels)
        fit = fitness(rows, made.quality[made.quality["judge"] == models[0]].to_dict("records"))
        sentences += [f"{hedge[:1].upper()}{hedge[1:]}." for hedge in fit.hedges if hedge != NO_AGREEMENT]
        if ANY_JUDGEMENT in fit.unfit:
            return " ".join([*sentences, "What to do: use another judge."])
    to_do = list(dict.fromkeys(row["to_do"] for row in told if row["to_do"] not in ("", "nothing")))
    nothing = "nothing about these biases" if tested else "see why no bias was tested, in each estimate's note"
    return " ".join([*sentences, f"What to do: {'; '.join(to_do[:_MOST]) or nothing}."])


def _of_one(judge: str, rows: Sequence[Mapping[Any, Any]], labels: Mapping[tuple[str, str], str]) -> list[str]:
    """Write the biases of one judge: found, excluded, inconclusive and not tested."""
    found = [
        f"{row['brief']} ({labels[row['probe'], row['metric']]} {row['estimate']} {row['interval']}){row['opposite']}"
        for row in rows
        if row["status"] in ("bias", "slight")
    ]
    more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    groups = {f"Found for {judge}": [*found[:_MOST], *more]}
    for words, status in {"No bias that matters": "none", "Inconclusive": "unclear", "Not tested": "untested"}.items():
        names = dict.fromkeys(labels[row["probe"], row["metric"]] for row in rows if row["status"] == status)
        groups[words if found else f"{words} for {judge}"] = list(names)
    return [f"{words}: {'; '.join(texts)}." for words, texts in groups.items() if texts]


def _of_judges(label: str, rows: Sequence[Mapping[Any, Any]]) -> str:
    """Write how many judges have a bias to which side, have none that matters, and are undecided."""
    metric, counts = find_metric(rows[0]["metric"], rows[0]["probe"]), Counter(row["status"] for row in rows)
    ways = [row["sides"] for row in rows if row["sides"]]
    sides = Counter(side_words(metric, way[0]) if len(way) == 1 else _EITHER for way in ways)
    found = [f"{words}: {n}" for words, n in sides.most_common()]
    slight = f", too small to matter in {counts['slight']} of these" if counts["slight"] else ""
    words = {f"found in {counts['bias'] + counts['slight']} of {len(rows)} ({', '.join(found)}){slight}": len(found)}
    words |= {f"none that matters in {counts['none']} of {len(rows)}": counts["none"]}
    words |= {f"inconclusive in {counts['unclear']} of {len(rows)}": counts["unclear"]}
    return f"{label} {', '.join(text for text, n in words.items() if n)}"


def _short(row: Mapping[Any, Any], own: pd.DataFrame) -> str:
    """Return the probe's name for a bias, plus the metric's if the probe has several."""
    name = str(row["probe"]).replace("_", " ")
    return name if (own["probe"] == row["probe"]).sum() == 1 else f"{name}: {row['label']}"
