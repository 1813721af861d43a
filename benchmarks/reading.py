"""How well verdicts and scores are read in other people's logs: precision, recall, and what differs from their parse.

The replies are those of the published research data (``--data``), read as texts, without the formats' readers. The
expected readings of a sample stand in ``tests/prompts/parsing/corpus.csv``, found by a hash of the reply, for the
sentences are not ours to publish; of a reply that decides nothing "-" is expected. Precision is the share of right ones
among those that were read, recall the share of those that were read right among those that decide. Then all replies are
compared with what their authors read in them, where they published it.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import math
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from biaslab.core.scales import scale_named
from biaslab.prompts.parsing import parse_choice, parse_score, parse_scores

CORPUS = Path(__file__).parents[1] / "tests" / "prompts" / "parsing" / "corpus.csv"
UNDECIDED = "-"


class Asked(NamedTuple):
    """A reply, what was asked, and what its authors read in it.

    Parameters
    ----------
    format : str
        The log it stands in.
    question : str
        Labels, ``"A|B|C*"``, with a star after the one that means a tie; or scale and attribute, ``"1-5 coherence"``.
    reply : str
        What the judge wrote.
    published : str, optional
        The label, "" if the authors' parse is not published or failed.
    """

    format: str
    question: str
    reply: str
    published: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The format, and a hash of question and reply."""
        return self.format, hashlib.sha256(f"{self.question}\n{self.reply}".encode()).hexdigest()[:16]


def read(asked: Asked) -> str:
    """Return what biaslab reads: a label, "tie", a score, or "-"."""
    if "|" not in asked.question:
        scale, _, attribute = asked.question.partition(" ")
        known = scale_named(scale)
        one = parse_scores(asked.reply, [attribute], known)[attribute] if attribute else parse_score(asked.reply, known)
        return UNDECIDED if math.isnan(one[0]) else f"{one[0]:g}"
    named = asked.question.split("|")
    labels = [name.rstrip("*") for name in named]
    tie = next((label for label, name in zip(labels, named, strict=True) if name.endswith("*")), None)
    chosen, status = parse_choice(asked.reply, labels, tie)
    if status == "tie" or (chosen is not None and labels[chosen] == tie):
        return "tie"
    return UNDECIDED if chosen is None else labels[chosen]


def replies(data: Path) -> Iterator[Asked]:
    """Yield every reply of the shared logs that is a text, with what was asked."""
    recorded = data / "recorded"
    for reader in (_llmbar, _pair_logs, _pandalm, _summeval, _topical_chat):
        yield from reader(recorded)


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines() if line.strip()]


def _llmbar(recorded: Path) -> Iterator[Asked]:
    with tarfile.open(recorded / "llmbar" / "llmbar_LLMBar+Processed.tar.xz") as archive:
        for member in archive.getmembers():
            if member.name.endswith("/result.json") and (opened := archive.extractfile(member)):
                for pair in json.load(opened):
                    for entry in pair["results"]:
                        yield from _llmbar_entry(entry)


def _llmbar_entry(entry: Any) -> Iterator[Asked]:
    if not isinstance(entry, dict):  # metrics and references that the judge generated for itself
        return
    for key, given in entry.items():
        texts = given.get("completion") if isinstance(given, dict) else given
        text = texts[0] if isinstance(texts, list) and texts else texts
        if not isinstance(text, str):
            continue
        if key.startswith("score_"):
            yield Asked("llmbar ratings", "0-9", text)
        else:
            shown = ("Output (b)", "Output (a)") if key == "swap = True" else ("Output (a)", "Output (b)")
            winner = given.get("winner")
            yield Asked("llmbar", "Output (a)|Output (b)", text, shown[int(winner) - 1] if winner in ("1", "2") else "")


def _pair_logs(recorded: Path) -> Iterator[Asked]:
    folder = recorded / "position_bias_analyzer"
    for file in sorted(folder.glob("DevBench_*.jsonl.gz")):
        for row in _lines(file):
            found = set(re.findall(r"^\W*Choice\W*([AB])\b", row["judgment"] or "", re.MULTILINE))
            yield Asked("devbench", "A|B", row["judgment"] or "", found.pop() if len(found) == 1 else "")
    for name in ("MTBench_position_bias", "MTBench_position_bias_gpt4_gemini", "MTBench_repetition"):
        for row in _lines(folder / f"{name}.jsonl.gz"):
            found = set(re.findall(r"\[\[([ABC])\]\]", row["judgment"] or ""))
            verdict = found.pop() if len(found) == 1 else ""
            yield Asked("mt-bench", "A|B|C*", row["judgment"] or "", verdict.replace("C", "tie"))
    for row in _lines(recorded / "summeval_judges" / "h2h_gpt35_both_orders.jsonl.gz"):
        yield Asked("summeval pairs", "A|B|C*", row["resp"], row["resp"][:1].replace("C", "tie"))


def _pandalm(recorded: Path) -> Iterator[Asked]:
    verdicts = {"1": "Response 1", "2": "Response 2", "0": "tie", "Tie": "tie"}
    for file, name in (("gpt-3.5-turbo", "gpt"), ("pandalm-7b", "pandalm")):
        for row in json.loads(gzip.decompress((recorded / "pandalm" / f"{file}-testset-v1.json.gz").read_bytes())):
            published = verdicts.get(str(row[f"{name}_result"]), "")
            yield Asked("pandalm reasons", "Response 1|Response 2|Tie*", row[f"{name}_reason"], published)


def _summeval(recorded: Path) -> Iterator[Asked]:
    for row in _lines(recorded / "summeval_judges" / "judge_scores.jsonl.gz"):
        if not isinstance(row["resp"], str):
            continue
        if "mcq" in row["mode"]:
            yield Asked("summeval letters", "A|B|C|D|E", row["resp"], row["resp"].strip()[:1])
        else:
            yield Asked(f"summeval {row['judge'].split('-0')[0]}", f"1-5 {row['aspect']}", row["resp"])


def _topical_chat(recorded: Path) -> Iterator[Asked]:
    for file in sorted((recorded / "closer_look_topical_chat").glob("*.json.gz")):
        attribute = "coherence" if "_coh_" in file.name else "engagingness"
        for item in json.loads(gzip.decompress(file.read_bytes())):
            for text in item["all_responses"]:
                published = re.findall(r"^\W*Rating: *([0-9.]+) *$", text, re.MULTILINE)
                yield Asked("topical-chat", f"1-3 {attribute}", text, published[0] if len(published) == 1 else "")


class Count(NamedTuple):
    """How many replies of a format are expected to decide, were read, and were read right."""

    format: str
    rows: int
    deciding: int
    read: int
    right: int

    @property
    def precision(self) -> float:
        """Share of right ones among those that were read."""
        return self.right / self.read if self.read else math.nan

    @property
    def recall(self) -> float:
        """Share of those that were read right among those that decide."""
        return self.right / self.deciding if self.deciding else math.nan


def expected(file: Path = CORPUS) -> dict[tuple[str, str], str]:
    """Return the expected reading of each reply of the sample."""
    with file.open(encoding="utf-8", newline="") as opened:
        return {(row["format"], row["reply"]): row["expected"] for row in csv.DictReader(opened)}


def counts(pairs: Iterable[tuple[str, str, str]]) -> list[Count]:
    """Count (format, expected, found) by format."""
    tally = Counter(
        (form, what)
        for form, wanted, found in pairs
        for what, holds in (
            ("rows", True),
            ("deciding", wanted != UNDECIDED),
            ("read", found != UNDECIDED),
            ("right", found == wanted != UNDECIDED),
        )
        if holds
    )
    names = ("rows", "deciding", "read", "right")
    return [Count(form, *(tally[form, name] for name in names)) for form in sorted({form for form, _ in tally})]


def main() -> None:
    """Print the tables from which ``docs/reading.md`` takes its numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the published data")
    distinct = dict.fromkeys(replies(parser.parse_args().data))
    wanted = expected()
    known = {asked.key: asked for asked in distinct}
    print("| log | replies in the sample | that decide | read | precision | recall |\n|---|---|---|---|---|---|")
    for count in counts((key[0], value, read(known[key])) for key, value in wanted.items()):
        shares = f"{count.precision:.3f} | {count.recall:.3f}"
        print(f"| {count.format} | {count.rows:,} | {count.deciding:,} | {count.read:,} | {shares} |")
    print("\n| log | different replies | read | with a published reading | that agree | other | not read |")
    print("|---|---|---|---|---|---|---|")
    found = [(asked, read(asked)) for asked in distinct]
    for form in sorted({asked.format for asked in distinct}):
        mine = [(asked, value) for asked, value in found if asked.format == form]
        published = [(asked.published, value) for asked, value in mine if asked.published]
        agree = sum(_same(theirs, ours) for theirs, ours in published)
        unread = sum(ours == UNDECIDED for _, ours in published)
        was_read = sum(value != UNDECIDED for _, value in mine)
        rest = f"{len(published):,} | {agree:,} | {len(published) - agree - unread:,} | {unread:,}"
        print(f"| {form} | {len(mine):,} | {was_read:,} | {rest} |")


def _same(theirs: str, ours: str) -> bool:
    return theirs == ours or (ours[:1].isdigit() and float(theirs) == float(ours))


if __name__ == "__main__":
    main()
