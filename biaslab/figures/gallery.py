"""The index of a folder of figures: each figure with its estimates, their precision, and the cost of the last run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab.core.files import read_csv, write_csv
from biaslab.core.metrics import find_metric, is_primary
from biaslab.core.output import AnyPath, count, percent
from biaslab.figures.notebook import NotebookRun, find_headline
from biaslab.report.plots.figure_words import marked
from biaslab.report.wording import span, templates, version

#: Studies listed first: recorded judges, which readers know.
_FIRST = ("atlas", "replications")


def write_index(folder: AnyPath, runs: Sequence[NotebookRun] = ()) -> Path:
    """Write ``index.html``, which shows every figure of a folder with its estimates; return its path.

    Parameters
    ----------
    folder : str or path
        Contains ``<study>__<name>.png`` with ``.pdf`` and ``.csv`` next to it; see `biaslab.plots.save`. The text in a
        table's column ``headline`` is shown below the figure.
    runs : sequence of NotebookRun
        Notebooks of the last run.

    Returns
    -------
    Path
    """
    place = Path(folder)
    studies: dict[str, list[dict[str, object]]] = {}
    for picture in sorted(place.glob("*__*.png"), key=_place):
        study, _, name = picture.stem.partition("__")
        beside = [picture.with_suffix(suffix) for suffix in (".pdf", ".csv")]
        others = [file.name for file in beside if file.exists()]
        numbers = picture.with_suffix(".csv")
        caption = {"facts": describe_estimates(numbers), "headline": find_headline(numbers), "kind": _kind(numbers)}
        studies.setdefault(study, []).append({"name": name, "png": picture.name, "others": others, **caption})
    target = place / "index.html"
    page = templates("biaslab.figures").get_template("index.html.j2")
    table = measure_precision(place)
    lines = [(run.notebook, _output(run), run.seconds, cost([run])) for run in runs]
    drawn = {figure["kind"] for figures in studies.values() for figure in figures}
    kinds = [kind for kind in _KINDS if kind in drawn]
    shown = {"lines": lines, "could_tell": describe_precision(table), "precision": table.to_dict("records")}
    shown |= {"kinds": kinds if len(kinds) > 1 else []}
    target.write_text(page.render(studies=studies, version=version(), **shown), encoding="utf-8")
    return target


def _output(run: NotebookRun) -> str:
    tables = sum(file.suffix == ".csv" for file in run.files)
    return f"{count(len(run.figures), 'figure')} from {count(run.estimates, 'row')} of {count(tables, 'table')}"


def _place(picture: Path) -> tuple[int, str]:
    """Sort figures by name, with those of the first studies before all others."""
    study = picture.stem.partition("__")[0]
    return (_FIRST.index(study) if study in _FIRST else len(_FIRST)), picture.name


_KINDS = ("recorded", "toy", "simulated")  # judges, as the gallery filters them


def _kind(path: Path) -> str:
    """Return whether the judges of a table are "simulated", a "toy", or "recorded" (or anybody's own)."""
    try:
        judges = set(read_csv(path, usecols=["judge"])["judge"].dropna().map(str))
    except (OSError, ValueError):
        return "recorded"
    marks = {marked(judge).partition(" ")[0] for judge in judges}
    return next((kind for kind in _KINDS if kind in marks), _KINDS[0])


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


def describe(run: NotebookRun) -> str:
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


def cost(runs: Sequence[NotebookRun]) -> str:
    """Count the new replies and those from the store, with their tokens."""
    asked, stored = sum(run.asked for run in runs), sum(run.stored for run in runs)
    paid, saved = sum(run.asked_tokens for run in runs), sum(run.stored_tokens for run in runs)
    new, known = (f" ({tokens:,} tokens)" if tokens else "" for tokens in (paid, saved))
    return f"{count(asked, 'judge call')}{new}, {count(stored, 'reply')} from the store{known}"


FILE = "precision.csv"
_NEEDED = {"probe", "judge", "metric", "estimate", "ci_low", "ci_high"}
_COLUMNS = ["study", "metric", "matters", "intervals", "narrow", "recorded", "widest", "n_contexts"]
_EDGE = 1e-9  # rounding tolerance for intervals exactly as wide as the threshold


def measure_precision(folder: AnyPath) -> pd.DataFrame:
    """Compare the width of primary intervals in figures with the smallest effect that matters.

    Simulated judges are excluded: their biases are known, and their intervals can be made arbitrarily narrow.

    Parameters
    ----------
    folder : str or path
        Contains ``<study>__<name>.png`` with ``.csv`` next to it, see `biaslab.plots.save`, and further tables of a
        study without a picture.

    Returns
    -------
    pandas.DataFrame
        One row per study and primary metric; studies without one have no rows. Columns:

        * ``study`` — its name, the prefix of its figures' names.
        * ``metric`` — a primary metric of its probe.
        * ``matters`` — the smallest distance from the null that matters, as declared by the probe, in the metric's
          unit.
        * ``intervals`` — number of intervals in figures, without duplicates; 0 if the metric was estimated but is not
          shown, for example because it is undefined.
        * ``narrow`` — how many of these have a half width below ``matters``.
        * ``recorded`` — how many are of recorded judges, whose number of replies is given.
        * ``widest`` — largest half width, of judges that were asked if there are any. NaN without an interval.
        * ``n_contexts`` — largest number of contexts, likewise; 0 if unknown.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = {"probe": "position", "judge": "local:a", "metric": "first_position_rate", "estimate": [0.6, 0.7]}
    >>> table = pd.DataFrame(rows | {"ci_low": [0.55, 0.5], "ci_high": [0.65, 0.9], "n_contexts": 24})
    >>> table.to_csv(folder / "position__rate.csv", index=False)
    >>> _ = (folder / "position__rate.png").write_bytes(b"")
    >>> measure_precision(folder)[["study", "matters", "intervals", "narrow", "widest"]].to_numpy().tolist()
    [['position', 0.1, 2, 1, 0.2]]
    """
    studies: dict[str, list[pd.DataFrame]] = {}
    for path in sorted(Path(folder).glob("*__*.csv")):
        primary = _primary_rows(path)
        if len(primary):
            shown = path.with_suffix(".png").exists() & primary[["estimate", "ci_low", "ci_high"]].notna().all(axis=1)
            studies.setdefault(path.stem.partition("__")[0], []).append(primary.assign(shown=shown))
    rows = [row for study, parts in studies.items() for row in _of_study(study, pd.concat(parts, ignore_index=True))]
    return pd.DataFrame(rows, columns=_COLUMNS)


def write_precision(folder: AnyPath) -> pd.DataFrame:
    """Write the table of `measure_precision` to ``precision.csv`` in the folder of figures, and return it."""
    table = measure_precision(folder)
    write_csv(table, Path(folder) / FILE)
    return table


def share_narrow(table: pd.DataFrame) -> float:
    """Return the share of intervals that are narrower than what matters; NaN without any."""
    total = int(table["intervals"].sum())
    return int(table["narrow"].sum()) / total if total else float("nan")


def describe_precision(table: pd.DataFrame) -> str:
    """Summarise in one sentence how many primary intervals are narrow; empty if none was drawn."""
    if not table["intervals"].sum():
        return ""
    total, narrow, recorded = (int(table[name].sum()) for name in ("intervals", "narrow", "recorded"))
    of_them = f"; of recorded judges: {recorded:,}" if recorded else ""
    intervals = f"{narrow:,} of {count(total, 'interval')} of primary metrics ({percent(share_narrow(table), 2)})"
    return f"{intervals} are narrower than what matters on both sides{of_them}"


def _primary_rows(path: Path) -> pd.DataFrame:
    """Read the rows of primary metrics with a declared threshold; empty if the file has no estimates."""
    try:
        frame = read_csv(path, low_memory=False)
    except (OSError, ValueError):
        return pd.DataFrame()
    if not set(frame.columns) >= _NEEDED:
        return pd.DataFrame()
    frame = frame[~frame["judge"].astype(str).str.startswith("simulated:")]
    pairs = list(zip(frame["metric"].astype(str), frame["probe"].astype(str), strict=True))
    sizes = {pair: find_metric(*pair).matters if is_primary(*pair) else None for pair in set(pairs)}
    matters = np.array([sizes[pair] for pair in pairs], float)
    primary: pd.DataFrame = frame.assign(matters=matters)[np.isfinite(matters)]
    return primary


def _of_study(study: str, primary: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    """Yield a row per metric; estimates are distinguished by everything in a table."""
    redone = ("p_value", "q_value", "note", "notes", "headline")  # which figures may recompute
    alike = [name for name in primary.columns if name not in redone]
    for metric, estimates in primary.groupby("metric", sort=False):
        rows = estimates[estimates["shown"]].drop_duplicates(alike)
        half = (rows["ci_high"] - rows["ci_low"]).to_numpy(float) / 2
        recorded = np.array([_is_recorded(judge) for judge in rows["judge"].astype(str)], bool)
        narrow = half < rows["matters"].to_numpy(float) - _EDGE
        asked = ~recorded if (~recorded).any() else recorded
        contexts = rows.loc[asked, "n_contexts"].dropna() if "n_contexts" in rows else pd.Series(dtype=float)
        yield (
            study,
            str(metric),
            float(estimates["matters"].iloc[0]),  # one per metric: a study has one probe, and its audits
            len(rows),
            int(narrow.sum()),
            int(recorded.sum()),
            round(float(half[asked].max()), 6) if len(rows) else float("nan"),
            int(contexts.max()) if len(contexts) else 0,
        )


def _is_recorded(judge: str) -> bool:
    """Return whether a judge is from a log: ids of judges that were asked begin with their kind (``local:``)."""
    return judge.startswith("recorded/") or ":" not in judge
