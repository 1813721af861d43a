"""Precision of the studies: which intervals are narrower than the smallest effect that matters."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab.core import find_metric, is_primary
from biaslab.core.csv_files import read_csv, write_csv
from biaslab.core.output import count

FILE = "precision.csv"
_NEEDED = {"probe", "judge", "metric", "estimate", "ci_low", "ci_high"}
_COLUMNS = ["study", "metric", "matters", "intervals", "narrow", "recorded", "told", "widest", "n_contexts"]
_EDGE = 1e-9  # of rounding, where an interval is as wide as what matters


def measure_precision(folder: str | PathLike[str]) -> pd.DataFrame:
    """Compare the width of the primary intervals that figures show with the smallest effect that matters.

    Simulated judges do not count: what was planted in them is known, and their intervals are as narrow as one likes.

    Parameters
    ----------
    folder : str or path
        Holds ``<study>__<name>.png`` with ``.csv`` beside it, see `biaslab.plots.save`, and other tables of a study
        without a picture.

    Returns
    -------
    pandas.DataFrame
        One row per study and primary metric; no row for what estimates no primary metric. Columns:

        * ``study`` — its name, with which the names of its figures begin.
        * ``metric`` — a primary metric of its probe.
        * ``matters`` — the smallest distance from the null that matters, as the probe declares it, in the metric's
          unit.
        * ``intervals`` — how many figures show, the same one counted once; 0 where the metric was estimated and none
          is shown, such as where it is undefined.
        * ``narrow`` — of these, whose half width is less than ``matters``.
        * ``recorded`` — of recorded judges, whose number of replies was not ours to choose.
        * ``told`` — narrow, or of a recorded judge.
        * ``widest`` — largest half width: of judges that were asked, where there are any. NaN without an interval.
        * ``n_contexts`` — most contexts of an interval, likewise; 0 where the table does not say.

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


def write_precision(folder: str | PathLike[str]) -> pd.DataFrame:
    """Write the table of `measure_precision` into the folder of the figures, as ``precision.csv``, and return it."""
    table = measure_precision(folder)
    write_csv(table, Path(folder) / FILE)
    return table


def share_told(table: pd.DataFrame) -> float:
    """Return which share of the intervals is narrower than what matters or of a recorded judge; NaN without any."""
    total = int(table["intervals"].sum())
    return int(table["told"].sum()) / total if total else float("nan")


def describe_precision(table: pd.DataFrame) -> str:
    """Sum up in one sentence how many primary intervals can tell; empty if none was drawn."""
    if not table["intervals"].sum():
        return ""
    total, told, recorded = (int(table[name].sum()) for name in ("intervals", "told", "recorded"))
    of_them = f", {recorded:,} of them of recorded judges" if recorded else ""
    return (
        f"{told:,} of {count(total, 'interval')} of primary metrics ({share_told(table):.0%}) "
        f"can tell: narrower than what matters on both sides, or of a recorded judge{of_them}"
    )


def _primary_rows(path: Path) -> pd.DataFrame:
    """Read the rows of primary metrics for which a probe says what matters; none where the file holds no estimates."""
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
    """Yield a row per metric; what tells estimates apart is everything that a table says of them."""
    redone = ("p_value", "q_value", "note", "finding")  # which figures may do anew
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
            float(estimates["matters"].iloc[0]),  # one a metric: a study is of one probe and what was audited with it
            len(rows),
            int(narrow.sum()),
            int(recorded.sum()),
            int((narrow | recorded).sum()),
            round(float(half[asked].max()), 6) if len(rows) else float("nan"),
            int(contexts.max()) if len(contexts) else 0,
        )


def _is_recorded(judge: str) -> bool:
    """Return whether a judge is of a log: one that was asked has an id that begins with its kind (``local:``)."""
    return judge.startswith("recorded/") or ":" not in judge
