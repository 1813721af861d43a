"""Report what of a log could not be read, and suggest how to read it."""

from __future__ import annotations

import pandas as pd

from biaslab.core.errors import UnreadableLogError
from biaslab.core.output import count
from biaslab.logs.readers.rows import CALL_FAILED

HALF = 0.5
"""If a larger share of a log could not be read, nothing is estimated from the rest."""

_UNREAD = ("unparsable", "out_of_range", "cut_off")
_SHOWN = 3
_VERDICT = r"winner = 'COLUMN~Verdict: (\w+) | A -> first, B -> second'"
_SCORE = r"score_pattern = 'Score: (\d+)'"


def unread_share(trials: pd.DataFrame) -> float:
    """Return the share of a log that could not be read: malformed lines, failed calls, replies without a verdict.

    Refusals count as read. Malformed lines and failed calls are those of the whole log, even if `trials` is part of it.

    Examples
    --------
    >>> unread_share(pd.DataFrame({"status": ["ok", "unparsable", "refused", "out_of_range"]}))
    0.5
    """
    replies = float(trials["status"].isin(_UNREAD).mean()) if len(trials) else 0.0
    lost = sum(_lost(trials).values())
    rows = trials.attrs.get("judgements", len(trials))
    return 1 - (1 - replies) * rows / (rows + lost) if rows + lost else 0.0


def require_readable(trials: pd.DataFrame) -> None:
    """Raise `UnreadableLogError` if more than half of a log could not be read.

    Examples
    --------
    >>> require_readable(pd.DataFrame({"status": ["ok", "unparsable", "unparsable"]}))
    Traceback (most recent call last):
    ...
    biaslab.core.errors.UnreadableLogError: most of the log was not read (2 of 3 not read: 2 replies), \
and the readable rest may be a biased selection; biaslab.logs.readers.summary.explain_unread(trials) suggests how to \
read them
    """
    if unread_share(trials) <= HALF:
        return
    first = next(iter(trials.attrs.get("problems", ())), None)
    remedy = "biaslab.logs.readers.summary.explain_unread(trials) suggests how to read them"
    if first is not None and not trials["status"].isin(_UNREAD).any():
        remedy = f"repair the file: {first[0]}, line {first[1]}: {first[2]}"
    why = "the readable rest may be a biased selection"
    raise UnreadableLogError.plain(f"most of the log was not read ({describe_unread(trials)}), and {why}; {remedy}")


def describe_unread(trials: pd.DataFrame) -> str:
    """Describe how much of a log could not be read, by reason.

    Examples
    --------
    >>> trials = pd.DataFrame({"status": ["ok", "unparsable"]})
    >>> trials.attrs = {"malformed": 7}
    >>> describe_unread(trials)
    '8 of 9 not read: 7 malformed lines, 1 reply'
    """
    parts = {**_lost(trials), "reply": int(trials["status"].isin(_UNREAD).sum())}
    listed = ", ".join(count(number, noun) for noun, number in parts.items() if number)
    return f"{sum(parts.values()):,} of {len(trials) + sum(_lost(trials).values()):,} not read: {listed}"


def _lost(trials: pd.DataFrame) -> dict[str, int]:
    """Return counts of log entries without a row: malformed lines and failed calls."""
    failed_calls = trials.attrs.get("left_out", {}).get(CALL_FAILED, 0)
    return {"malformed line": trials.attrs.get("malformed", 0), "failed call": failed_calls}


def explain_unread(trials: pd.DataFrame) -> list[str]:
    r"""Return lines with three unreadable replies, and what would have them read.

    Parameters
    ----------
    trials : pandas.DataFrame
        From `biaslab.read_judgements`.

    Returns
    -------
    list of str
        Empty if everything could be read.

    Examples
    --------
    >>> log = {"status": ["unparsable"] * 2, "reply": ["Mark: 7", "Mark: 3"], "opponent_id": None, "scale": "1-5"}
    >>> print("\n".join(explain_unread(pd.DataFrame(log))))
    'Mark: 7'
    'Mark: 3'
    if the score stands in the reply, give the words around it in a mapping: score_pattern = 'Score: (\d+)'
    """
    unread = trials[trials["status"].isin(_UNREAD)]
    if unread.empty:
        return []
    replies = unread["reply"].dropna()
    replies = replies[replies.str.strip() != ""]
    empty = len(unread) - len(replies)
    lines = [f"{shortened(reply)!r}" for reply in replies.drop_duplicates().head(_SHOWN)]
    lines += [f"{n:,} {reason}" for reason, n in trials.attrs.get("unmatched", {}).items()]
    if (unread["status"] == "out_of_range").mean() > HALF:
        scales = ", ".join(sorted(unread["scale"].dropna().unique()))
        lines.append(f"they lie outside {scales or 'the scale'}: give the scale that was used (scale)")
    elif empty:
        lines.append(f"{empty:,} of them have no reply: name the column with the verdict or score, or the reply")
    elif unread["opponent_id"].notna().any():
        lines.append(f"if the verdict stands in the reply, give its words and their meaning in a mapping: {_VERDICT}")
    else:
        lines.append(f"if the score stands in the reply, give the words around it in a mapping: {_SCORE}")
    return lines


def shortened(text: str, longest: int = 200) -> str:
    """Return a reply on one line, without its middle if it is long."""
    joined = " ".join(text.split())
    return joined if len(joined) <= longest else f"{joined[: longest // 2]} … {joined[-longest // 2 :]}"
