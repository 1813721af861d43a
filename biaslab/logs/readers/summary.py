"""Report what of a log could not be read, and suggest how to read it."""

from __future__ import annotations

import re
from collections import Counter

import pandas as pd

from biaslab.core.errors import UnreadableLogError
from biaslab.core.output import count
from biaslab.logs.readers.rows import CALL_FAILED

HALF = 0.5
"""If a larger share of a log could not be read, nothing is estimated from the rest."""

_UNREAD = ("unparsable", "out_of_range", "cut_off")
_SHOWN = 3
_LABELLED = re.compile(r"(?P<label>[A-Za-z]\w*)\"?\s*[:=]\s*[\"'*\[(]*(?P<value>\d+(?:\.\d+)?|[A-Za-z]+)\b")
_SEEN = 500  # maximum replies searched for a pattern
_MEANINGS = {"A": "first", "B": "second", "C": "tie", "1": "first", "2": "second", "0": "tie", "TIE": "tie"}
_FEW = 8  # maximum number of different verdicts


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
    r"""Return lines with three unreadable replies and suggestions for reading them.

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
    >>> explain_unread(pd.DataFrame(log))[-1]
    "a regular expression would read them: --map 'score_pattern=Mark\\W+(\\d+(?:\\.\\d+)?)'"
    """
    unread = trials[trials["status"].isin(_UNREAD)]
    if unread.empty:
        return []
    replies = unread["reply"].dropna()
    replies = replies[replies.str.strip() != ""]
    empty = len(unread) - len(replies)
    lines = [f"{shortened(reply)!r}" for reply in replies.drop_duplicates().head(_SHOWN)]
    if unknown := trials.attrs.get("unknown_winners"):
        return [*lines, *unknown]
    if empty:
        lines.append(f"{empty:,} of them have no reply; if it is in another field, use --map reply=FIELD")
    ratings = trials.get("ratings")
    if ratings is not None and ratings.fillna("").ne("").all() and not len(replies):
        lines.append("these are human ratings without a judge; use --humans to measure their agreement")
    pairs = bool(unread["opponent_id"].notna().any())
    out = unread["status"] == "out_of_range"
    if out.mean() > 0.5:
        scales = ", ".join(sorted(unread["scale"].dropna().unique()))
        lines.append(
            f"they lie outside {scales or 'the scale'}; give the scale that was used, such as --map scale==1-10"
        )
    elif len(replies):
        lines.append(_pattern(replies.head(_SEEN), pairs))
    return lines


def _pattern(replies: pd.Series, pairs: bool) -> str:
    """Suggest a mapping for the verdict or score that follows the same word in most replies."""
    counts: dict[str, Counter[str]] = {}
    for reply in replies:
        for label, value in {(m["label"].strip(), m["value"]) for m in _LABELLED.finditer(reply)}:
            counts.setdefault(label, Counter())[value] += 1
    known = {label: values for label, values in counts.items() if _is_verdict(values, pairs)}
    if not known:
        example = "'winner=FIELD~verdict: (\\w+)'" if pairs else "'score_pattern=Score: (\\d+)'"
        return f"a mapping would read them; replace the words before the verdict: --map {example}"
    label = max(known, key=lambda name: (len(known[name]) > 1, known[name].total()))
    if not pairs:
        return f"a regular expression would read them: --map 'score_pattern={label}\\W+(\\d+(?:\\.\\d+)?)'"
    meanings = ", ".join(f'"{value}" = "{_MEANINGS.get(value.upper(), "…")}"' for value in sorted(known[label]))
    return (
        f"a line in a mapping file would read them; fill in their field, and first, second or tie for the dots: "
        f"winner = {{ field = \"FIELD\", pattern = '{label}\\W+(\\w+)', values = {{ {meanings} }} }}"
    )


def _is_verdict(values: Counter[str], pairs: bool) -> bool:
    return len(values) <= _FEW if pairs else all(value[:1].isdigit() for value in values)


def shortened(text: str, longest: int = 200) -> str:
    """Return a reply on one line, without its middle if it is long."""
    joined = " ".join(text.split())
    return joined if len(joined) <= longest else f"{joined[: longest // 2]} … {joined[-longest // 2 :]}"
