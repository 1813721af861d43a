"""Print what the judge of the papers' experiments costs: requests, tokens, hours of a GPU, dollars.

``python -m tools.papers.costs`` plans each experiment on texts of the published sets' sizes (`SHAPES`) and asks nobody.
Requests that several experiments share are counted once, because the store keeps their replies. Tokens are estimated
at four characters each. What ECT trains, and what its writing model writes, is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
import typer

import biaslab as bl
from biaslab import distill, scoring
from biaslab.atlas.published import PAPERS, Experiment, experiments
from biaslab.cli.options import hints, make_probes
from biaslab.core import Request
from biaslab.probes import find_probe
from biaslab.study.token_counts import count_tokens

#: Contexts, candidates a context, words of a context and of a candidate, attributes, by data set. Words are rounded
#: means of the published files. RoSE is all three parts that the paper has, 6,000 and twice 4,000 summaries, with the
#: lengths that CNN/DailyMail, XSum and SAMSum are known for; ECT's printed accuracies are shares of the pairs of as
#: many systems as stand at WMT22.
SHAPES = {
    "summeval": (100, 16, 360, 63, ("coherence", "consistency", "fluency", "relevance")),
    "topicalchat": (60, 6, 160, 20, ("naturalness", "coherence", "engagingness")),
    "topicalchat?attributes=understandability": (60, 6, 160, 20, ("understandability",)),
    "webnlg_2017": (223, 9, 25, 22, ("fluency", "grammar", "semantics")),
    "podcast?words=2500": (179, 20, 2500, 90, ("overall",)),
    "rose": (1750, 8, 485, 36, ("acu",)),
    "dialogue_sets": (25, 1, 900, 900, ("severity",)),
    "wmt?pair=en-de&year=2022": (1315, 13, 20, 20, ("quality",)),
    "wmt?pair=en-ru&year=2022": (1315, 15, 20, 20, ("quality",)),
    "wmt?pair=zh-en&year=2022": (1875, 14, 20, 20, ("quality",)),
}
SAMPLE = 2  # contexts that are planned; the others are taken to be like them
#: Arithmetic, not a measurement: 16 GFLOP a token of 8 B parameters at 40 % of 989 TFLOP/s; one H100 writes about as
#: many tokens a second in batches of some hundred.
READ, WRITTEN = 0.4 * 989e12 / 16e9, 5000.0
PRICES = {"input": 0.15, "output": 0.6}  # dollars for a million tokens: gpt-4o-mini in 2025


def shaped(name: str) -> bl.Dataset:
    """Return a few contexts of constructed texts of a published set's size."""
    if name == "dialogue_sets":
        return bl.load_dataset(name, limit=SAMPLE)
    _, candidates, source, words, attributes = SHAPES[name]
    rows = [
        (
            f"c{i}",
            f"c{i} " + "word " * source,
            f"k{k}",
            f"s{k}",
            f"text {i} {k} " + "word " * words,
            f"reference {i} " + "word " * words,
        )
        for i in range(SAMPLE)
        for k in range(candidates)
    ]
    columns = ["context_id", "context", "candidate_id", "system", "text", "reference"]
    human = pd.DataFrame(columns=["context_id", "candidate_id", "attribute", "annotator", "score"])
    about = dict.fromkeys(attributes, "the text is good in this respect")
    return bl.Dataset(name, pd.DataFrame(rows, columns=columns), human, about)


def probes_of(each: Experiment) -> Iterator[object]:
    """Yield what a notebook asks with; of ECT's evaluators that is what teaches them."""
    if each.notebook == "distillation":
        given = each.settings
        aspects = (given["attributes"] if given["aspects"] == "none" else given["aspects"]).split(",")
        for scale in ("stars", "0-100"):
            if scale in (given["scale"], given["other_scale"]):
                yield distill.Stars(given["task"], aspects, scale, reference=True, answer="text")
        return
    if each.notebook == "baselines":
        names = {"G-Eval": scoring.GEval, "GPTScore": scoring.GPTScore}
        for scorer in each.settings["scorers"].split(","):
            kind = names.get(scorer)
            yield kind() if kind else scoring.PromptScoring(None, 1 if scorer.endswith("1") else 2, answer="text")
    pairs = each.notebook in ("comparative", "budget", "baselines")
    kind = find_probe("comparative" if pairs else each.notebook)
    named = hints(kind).keys() - {"steps", "rival_steps"}  # which a notebook knows by words of its own
    own = [f"{name}={value}" for name, value in each.settings.items() if name in named and value]
    if not pairs:
        yield from make_probes([kind], own, {})
        return
    own = [setting for setting in own if not re.match("template=|decoding=|answer=|strategy=", setting)]
    both = each.settings.get("templates") == "1,2" or each.settings.get("both_templates") == "true"
    for template in (1, 2) if both else (1,):
        yield from make_probes([kind], [*own, f"template={template}"], {})


def requests_of(each: Experiment, data: bl.Dataset) -> list[Request]:
    """Return what an experiment asks about a data set."""
    return [trial.request for probe in probes_of(each) for trial in probe.design(data)]  # type: ignore[attr-defined]


def count(name: str, chosen: list[Experiment]) -> tuple[float, float, float, float]:
    """Return requests, tokens read, those of them that no request before began with, and tokens written."""
    data = shaped(name)
    times: dict[Request, float] = {}
    for each in chosen:
        contexts = each.settings["n_contexts"]
        factor = (SHAPES[name][0] if contexts == "none" else int(contexts)) / data.n_contexts
        times |= {request: max(factor, times.get(request, 0.0)) for request in requests_of(each, data)}
    counted = count_tokens(bl.SimulatedJudge(data), list(times))
    factors = np.array(list(times.values()))
    read, written = (factors * counted.read).sum(), (factors * counted.written).sum()
    return factors.sum(), read, counted.distinct * read / counted.read.sum(), written


def price(apart: bool) -> pd.DataFrame:
    """Return what experiments cost: all of a paper on one data set together, or what shares settings apart."""
    groups: dict[tuple[str, ...], list[Experiment]] = {}
    for each in (each for paper in PAPERS for each in experiments(paper) if each.notebook != "reward"):
        key = (each.paper, ", ".join(each.items) if apart else "", each.dataset)
        groups.setdefault(key, []).append(each)
    rows = [(*key, *count(key[-1], chosen)) for key, chosen in groups.items()]
    columns = ["paper", "items", "data set", "requests", "read", "distinct", "written"]
    table = pd.DataFrame(rows, columns=columns)
    hours = (table["distinct"] / READ + table["written"] / WRITTEN) / 3600
    dollars = (table["read"] * PRICES["input"] + table["written"] * PRICES["output"]) / 1e6
    return table.assign(hours=hours, dollars=dollars)


def tables() -> str:
    """Return both tables in Markdown."""
    table = price(apart=False)
    lines = ["| paper | data set | requests | read | read, beginnings shared | written, at most | GPU hours | $ |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|")
    for row in [*table.to_dict("records"), {"paper": "all", "data set": "", **table.sum(numeric_only=True)}]:
        millions = " | ".join(f"{row[name] / 1e6:,.1f} M" for name in ("read", "distinct", "written"))
        cells = f"{row['requests']:,.0f} | {millions} | {row['hours']:.1f} | {row['dollars']:,.0f}"
        lines.append(f"| {row['paper']} | {row['data set']} | {cells} |")
    lines.append("\n| paper | items | data set | requests | GPU hours | $ |\n|---|---|---|---:|---:|---:|")
    for row in price(apart=True).to_dict("records"):
        cells = f"{row['requests']:,.0f} | {row['hours']:.2f} | {row['dollars']:,.2f}"
        lines.append(f"| {row['paper']} | {row['items']} | {row['data set']} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    typer.echo(tables())
