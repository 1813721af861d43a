"""Scores with several samples an item: ``source, system_output, prompt, all_responses`` and, mostly, ``scores``.

The format of G-Eval (Liu et al. 2023, arXiv 2303.16634) and of *A Closer Look into Automatic Evaluation Using LLMs*
(Chiang & Lee 2023, arXiv 2310.05657), a JSON list. Attribute, scale, order of the output and whether there are
evaluation steps (auto-CoT) are read in the prompt; the judge is not in the file: it is what stands before the first
underscore of the file's name.
"""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from biaslab.core.schema import count_words
from biaslab.datasets._files import text_key
from biaslab.logs.readers.log_columns import trials_of
from biaslab.logs.readers.readings import each_on_scale, scored
from biaslab.logs.readers.rows import Rows, Source, plain

FIELDS = frozenset({"source", "system_output", "prompt", "all_responses"})
_ATTRIBUTE = re.compile(r"^[ \t]*-?[ \t]*(?P<name>[A-Z]\w+):?\s*\Z", re.MULTILINE)
_CRITERION = re.compile(r"\b(?P<name>[A-Z]\w+)[ \t]*\((?P<low>\d+)[ \t]*[-–][ \t]*(?P<high>\d+)\)")
_SCALE = re.compile(r"scale of (?P<low>\d+)[ \t]*[-–][ \t]*(?P<high>\d+)")
_NAMES = {
    "summeval": {"coherence", "consistency", "fluency", "relevance"},
    "topicalchat": {"engagingness", "coherence"},
}


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial a sample."""
    texts = rows.take_texts("source", "system_output", "prompt")
    context, responses, scores = (
        rows.take("context", "text"),
        rows.take("all_responses", "list"),
        rows.take("scores", "any"),
    )
    system = rows.take("system_id", "id", "unknown")
    asked = [_asked(prompt) if isinstance(prompt, str) else None for prompt in texts["prompt"]]
    rows.refuse(pd.Series([found is None for found in asked]), "the prompt names no attribute with a scale")
    rows.refuse(
        pd.Series([not all(isinstance(r, str | None) for r in given) for given in responses]), "a response is no text"
    )
    made: list[tuple[Any, ...]] = []
    for place, (found, given) in enumerate(zip(asked, responses, strict=True)):
        if not rows.good[place] or found is None:
            continue
        text, about = texts["source"][place], context[place]
        identity = text_key(*(part.strip() for part in (text, about) if isinstance(part, str)))
        shown = system[place] if system[place] != "unknown" else text_key(texts["system_output"][place].strip())
        human = _human(scores[place], found[0])
        if source.scale is not None:
            found = (found[0], source.scale, *found[2:])
        words = float(count_words(texts["system_output"][place]))
        fixed = (place, _dataset(scores[place]), identity, shown, *found, human, words, text_key(text.strip()))
        made += [(*fixed, replicate, plain(reply)) for replicate, reply in enumerate(given)]
    return _trials(made, source)


def _trials(made: list[tuple[Any, ...]], source: Source) -> pd.DataFrame:
    known = [
        "dataset",
        "context_id",
        "candidate_id",
        "attribute",
        "scale",
        "form",
        "order",
        "human",
        "words",
        "replicate",
    ]
    found = pd.DataFrame(made, columns=["place", *known[:-1], "source_key", "replicate", "reply"]).set_index("place")
    found["reply"] = found["reply"].astype("str")
    readings = each_on_scale(
        found["reply"],
        found["scale"],
        found["attribute"],
        lambda scale, name: scored(scale, name, source.score_pattern),
    )
    judge = source.file.rsplit("/", 1)[-1].split("_")[0]
    configuration = found["form"] + ", " + found["order"] if len(found) else found["form"]
    columns: dict[str, Any] = {name: found[name] for name in [*known, "reply"]}
    trials = trials_of({"judge": judge, "configuration": configuration, **columns, **readings}, found.index)
    return trials.assign(source_key=found["source_key"].astype("str"))  # what a recorded judge finds the context by


def _asked(prompt: str) -> tuple[str, str, str, str] | None:
    """Return attribute, scale, form and order of the output; None if the prompt names no attribute with a scale."""
    ends = _ATTRIBUTE.search(prompt)
    spans = [found for found in _CRITERION.finditer(prompt) if ends is None or found["name"] == ends["name"]]
    if not spans:
        return None
    span = _SCALE.search(prompt) if ends is None else None
    low, high = (int((span or spans[0])[end]) for end in ("low", "high"))
    if not low < high:
        return None
    tail = prompt[-600:]
    rating, reasons = tail.find('"Rating:'), max(tail.find('"Rationale:'), tail.find('"Analysis:'))
    order = "s" if reasons < 0 else "sr" if 0 <= rating < reasons else "rs"
    form = "question" if ends is None else "auto-CoT" if "Evaluation Steps" in prompt else "no auto-CoT"
    return spans[0]["name"].lower(), f"{low}-{high}", form, order


def _human(scores: Any, attribute: str) -> float:
    value = scores.get(attribute) if isinstance(scores, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("nan")


def _dataset(scores: Any) -> str:
    found = set(scores) if isinstance(scores, dict) else set()
    return next((name for name, attributes in _NAMES.items() if attributes <= found), "unknown")
