"""Report how a log was read: its format, the number of judgements, and what was left out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab.logs.readers.log_columns import identity_of

_LISTED = 10  # malformed lines shown; all are counted


def reading_summary(file: str, trials: pd.DataFrame, humans: bool = False) -> list[str]:
    r"""Return lines that describe how a log was read.

    Parameters
    ----------
    file : str
        Name of the log.
    trials : pandas.DataFrame
        From `biaslab.read_judgements`, with its ``attrs``.
    humans : bool
        Whether the rows are items rated by people rather than judgements.

    Examples
    --------
    >>> trials = pd.DataFrame({"status": ["ok", "unparsable"]})
    >>> trials.attrs = {"files": {"log.csv": "table"}, "tables": {"log.csv": "pairs: a and b on each q"},
    ...     "encodings": {}, "duplicates": 0, "left_out": {"the call failed": 1}, "unmatched": {}, "skipped": [],
    ...     "malformed": 0, "problems": []}
    >>> print("\n".join(reading_summary("log.csv", trials)))
    read as pairs: a and b on each q
    log.csv: 2 judgements (table), 1 of them readable
      1 left out: the call failed
    """
    facts = trials.attrs
    formats = ", ".join(sorted(set(facts["files"].values())))
    readable = int(trials["status"].isin(["ok", "tie"]).sum())
    lines = [f"read as {note}" for note in facts["tables"].values()]
    read = f"{len(trials):,} judgements ({formats}), {readable:,} of them readable"
    lines.append(f"{file}: {f'{len(trials):,} items rated by people ({formats})' if humans else read}")
    lines += [f"  {name} is not in UTF-8: read as {encoding}" for name, encoding in facts["encodings"].items()]
    if facts["duplicates"]:
        others = f"; {facts['contradictions']:,} contradict it" if facts["contradictions"] else ""
        lines.append(f"  dropped {facts['duplicates']:,} duplicate judgements (kept the first of each{others})")
    once, pairs = _judged_once(trials)
    if 0 < once < pairs:
        lines.append(f"  {once:,} of {pairs:,} pairs judged in one order only (not used where both orders are needed)")
    lines += [f"  {count:,} left out: {reason}" for reason, count in facts["left_out"].items()]
    lines += [f"  {count:,} do not fit the mapping: {reason}" for reason, count in facts["unmatched"].items()]
    if facts["skipped"]:
        lines.append(
            f"  skipped {len(facts['skipped']):,} files that are not logs: {', '.join(facts['skipped'][:3])}, …"
        )
    if facts["malformed"]:
        lines.append(f"  {facts['malformed']:,} malformed lines:")
    lines += [f"    {name}, line {line}: {reason}" for name, line, reason in facts["problems"][:_LISTED]]
    if facts["malformed"] > _LISTED:
        lines.append(f"    … and {facts['malformed'] - _LISTED:,} more")
    return lines


def _judged_once(trials: pd.DataFrame) -> tuple[int, int]:
    """Return the number of pairs judged in one order only, and of all pairs with known order."""
    if "opponent_id" not in trials:
        return 0, 0
    shown = trials[trials["opponent_id"].notna() & trials["order_known"].astype(bool)]
    one, two = shown["candidate_id"], shown["opponent_id"]
    ahead = (one < two).to_numpy(bool)
    if shown.empty:
        return 0, 0
    names = [name for name in identity_of(trials) if name not in ("candidate_id", "opponent_id", "replicate")]
    keys = [name for name in names if name == "context_id" or shown[name].ne(shown[name].iloc[0]).any()]
    pairs = shown[keys].assign(one=np.where(ahead, one, two), two=np.where(ahead, two, one), ahead=ahead)
    orders = pairs.drop_duplicates().groupby([*keys, "one", "two"], dropna=False).size()
    return int((orders == 1).sum()), len(orders)
