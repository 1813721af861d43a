"""The index of a folder of figures: each figure with its estimates, and the cost of the last run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from biaslab.core.csv_files import read_csv
from biaslab.core.output import count
from biaslab.figures.notebook import Run
from biaslab.figures.precision import describe_precision, measure_precision
from biaslab.report.wording import span, templates, version

#: Studies listed first: recorded judges, which readers know.
_FIRST = ("atlas", "replications")


@dataclass(frozen=True)
class Line:
    """One notebook of a run, for the index.

    Parameters
    ----------
    notebook : str
        Name of the notebook.
    made : str
        What was made, from which inputs.
    seconds : float
        Duration.
    cost : str
        Replies asked and from the store, with tokens.
    """

    notebook: str
    made: str
    seconds: float
    cost: str


def write_index(folder: str | PathLike[str], lines: Sequence[Line] = ()) -> Path:
    """Write ``index.html``, which shows every figure of a folder with its estimates; return its path.

    Parameters
    ----------
    folder : str or path
        Contains ``<study>__<name>.png`` with ``.pdf`` and ``.csv`` next to it; see `biaslab.plots.save`. The text in a
        table's column ``finding`` is shown below the figure.
    lines : sequence of Line
        Notebooks of the last run.

    Returns
    -------
    Path
    """
    place = Path(folder)
    studies: dict[str, list[dict[str, object]]] = {}
    for picture in sorted(place.glob("*__*.png"), key=_place):
        study, _, name = picture.stem.partition("__")
        others = [
            picture.with_suffix(suffix).name for suffix in (".pdf", ".csv") if picture.with_suffix(suffix).exists()
        ]
        numbers = picture.with_suffix(".csv")
        caption = {"facts": describe_estimates(numbers), "finding": find_sentence(numbers)}
        studies.setdefault(study, []).append({"name": name, "png": picture.name, "others": others, **caption})
    target = place / "index.html"
    page = templates("biaslab.figures").get_template("index.html.j2")
    table = measure_precision(place)
    shown = {"lines": lines, "could_tell": describe_precision(table), "precision": table.to_dict("records")}
    target.write_text(page.render(studies=studies, version=version(), **shown), encoding="utf-8")
    return target


def _place(picture: Path) -> tuple[int, str]:
    """Sort figures by name, with those of the first studies before all others."""
    study = picture.stem.partition("__")[0]
    return (_FIRST.index(study) if study in _FIRST else len(_FIRST)), picture.name


def find_sentence(path: Path) -> str:
    """Return the sentence in the column ``finding`` of a CSV file; empty if there is none."""
    try:
        sentences = read_csv(path, usecols=["finding"])["finding"].dropna().unique()
    except (OSError, ValueError):
        return ""
    return str(sentences[0]) if len(sentences) == 1 else ""


def describe_estimates(path: Path) -> str:
    """Describe the estimates of a CSV file: rows, judges, data sets, contexts; empty if there is no file."""
    try:
        frame = read_csv(path)
    except (OSError, ValueError):
        return ""
    parts = [f"{len(frame):,} rows"]
    for column in ("judge", "dataset"):
        names = list(frame[column].dropna().unique()) if column in frame else []
        parts += [", ".join(map(str, names[:3])) + (", …" if len(names) > 3 else "")] if names else []
    contexts: list[float] = list(frame["n_contexts"].dropna()) if "n_contexts" in frame else []
    if contexts:
        parts.append(f"n = {span(contexts)} contexts")
    return " · ".join(parts)


def describe(run: Run) -> str:
    """Describe the output of one notebook, and its cost."""
    if run.up_to_date:
        return f"{run.notebook}: {count(len(run.figures), 'figure')}, up to date"
    lines = [f"{run.notebook}: {count(len(run.figures), 'figure')} in {run.seconds:.0f} s; {cost([run])}"]
    stems = dict.fromkeys(file.with_suffix("") for file in run.files)
    for stem in stems:
        suffixes = " ".join(file.suffix for file in run.files if file.with_suffix("") == stem)
        facts = describe_estimates(stem.with_suffix(".csv")) if ".csv" in suffixes else ""
        lines.append(f"  {stem}  {suffixes}{f'  from {facts}' if facts else ''}")
    if run.ignored:
        lines.append(f"  without {', '.join(run.ignored)}, which this notebook does not have")
    return "\n".join(lines)


def cost(runs: Sequence[Run]) -> str:
    """Count the new replies and those from the store, with their tokens."""
    asked, stored = sum(run.asked for run in runs), sum(run.stored for run in runs)
    paid, saved = sum(run.asked_tokens for run in runs), sum(run.stored_tokens for run in runs)
    return (
        f"{count(asked, 'judge call')}{f' ({paid:,} tokens)' if paid else ''}, "
        f"{count(stored, 'reply')} from the store{f' ({saved:,} tokens)' if saved else ''}"
    )
