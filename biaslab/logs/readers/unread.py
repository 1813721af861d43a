"""Report how much of a log could not be read, whether the rest supports a finding, and which mapping would read it."""

from __future__ import annotations

import re
from collections import Counter

import pandas as pd

from biaslab.core.errors import UnreadableLogError
from biaslab.core.output import count
from biaslab.logs.readers.mapping import UNKNOWN_WINNER
from biaslab.logs.readers.rows import CALL_FAILED

HALF = 0.5
"""Where a larger share of a log could not be read, nothing is estimated from the rest."""

_UNREAD = ("unparsable", "out_of_range", "cut_off")
_SHOWN = 3
_LONGEST = 200
_LABELLED = re.compile(r"(?P<label>[A-Za-z]\w*)\"?\s*[:=]\s*[\"'*\[(]*(?P<value>\d+(?:\.\d+)?|[A-Za-z]+)\b")
_SEEN = 500  # replies that a pattern is looked for in
_MEANINGS = {"A": "first", "B": "second", "C": "tie", "1": "first", "2": "second", "0": "tie", "TIE": "tie"}
_FEW = 8  # values that a verdict has at most


def unread_share(trials: pd.DataFrame) -> float:
    """Return which share of a log could not be read: malformed lines, failed calls, and replies without a verdict.

    Refusals are read as what they are. Lines and calls are those of the whole log, whatever rows of it these are.

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
    """Raise `UnreadableLogError` where more than half of a log could not be read.

    Examples
    --------
    >>> require_readable(pd.DataFrame({"status": ["ok", "unparsable", "unparsable"]}))
    Traceback (most recent call last):
    ...
    biaslab.core.errors.UnreadableLogError: log is '2 of 3 not read: 2 replies', allowed: one of which at least half \
can be read, for the rest may be a biased choice; biaslab.logs.readers.unread.explain_unread(trials) says what would \
read them
    """
    if unread_share(trials) <= HALF:
        return
    first = next(iter(trials.attrs.get("problems", ())), None)
    remedy = "biaslab.logs.readers.unread.explain_unread(trials) says what would read them"
    if first is not None and not trials["status"].isin(_UNREAD).any():
        remedy = f"mend the file: {first[0]}, line {first[1]}: {first[2]}"
    allowed = "one of which at least half can be read, for the rest may be a biased choice"
    raise UnreadableLogError("log", describe_unread(trials), allowed, remedy)


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
    """Return what of the log gave no row: malformed lines, and calls that failed."""
    failed_calls = trials.attrs.get("left_out", {}).get(CALL_FAILED, 0)
    return {"malformed line": trials.attrs.get("malformed", 0), "failed call": failed_calls}


def explain_unread(trials: pd.DataFrame) -> list[str]:
    r"""Return lines that show three replies that could not be read, and say what would read them.

    Parameters
    ----------
    trials : pandas.DataFrame
        Made by `biaslab.read_judgements`.

    Returns
    -------
    list of str
        None where everything could be read.

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
    lines = [f"{_brief(reply)!r}" for reply in replies.drop_duplicates().head(_SHOWN)]
    unknown = [reason for reason in trials.attrs.get("unmatched", {}) if reason.startswith(UNKNOWN_WINNER)]
    if unknown:
        return [*lines, *unknown]
    if empty:
        lines.append(f"{empty:,} of them have no reply: --map reply=FIELD names its field, if it stands in another")
    ratings = trials.get("ratings")
    if ratings is not None and ratings.fillna("").ne("").all() and not len(replies):
        lines.append("these are ratings of people without a judge: --humans says how far they agree")
    pairs = bool(unread["opponent_id"].notna().any())
    out = unread["status"] == "out_of_range"
    if out.mean() > 0.5:
        scales = ", ".join(sorted(unread["scale"].dropna().unique()))
        lines.append(f"they lie outside {scales or 'the scale'}: --map scale==LOW-HIGH says which scale was asked for")
    elif len(replies):
        lines.append(_pattern(replies.head(_SEEN), pairs))
    return lines


def _pattern(replies: pd.Series, pairs: bool) -> str:
    """Return the mapping that reads what most replies have after the same word."""
    found: dict[str, Counter[str]] = {}
    for reply in replies:
        for label, value in {(m["label"].strip(), m["value"]) for m in _LABELLED.finditer(reply)}:
            found.setdefault(label, Counter())[value] += 1
    known = {label: values for label, values in found.items() if _is_verdict(values, pairs)}
    if not known:
        example = "'winner=FIELD~verdict: (\\w+)'" if pairs else "'score_pattern=Score: (\\d+)'"
        return f"a mapping reads them, with the words that stand before the verdict: --map {example}"
    label = max(known, key=lambda name: (len(known[name]) > 1, known[name].total()))
    if not pairs:
        return f"a regular expression would read them: --map 'score_pattern={label}\\W+(\\d+(?:\\.\\d+)?)'"
    meanings = ", ".join(f'"{value}" = "{_MEANINGS.get(value.upper(), "…")}"' for value in sorted(known[label]))
    return (
        f"a line in a mapping file would read them, with the field they stand in, and first, second or tie for dots: "
        f"winner = {{ field = \"FIELD\", pattern = '{label}\\W+(\\w+)', values = {{ {meanings} }} }}"
    )


def _is_verdict(values: Counter[str], pairs: bool) -> bool:
    return len(values) <= _FEW if pairs else all(value[:1].isdigit() for value in values)


def _brief(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= _LONGEST else f"{joined[: _LONGEST // 2]} … {joined[-_LONGEST // 2 :]}"
