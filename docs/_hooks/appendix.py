"""The appendices: tables to look things up in, made from ``data/``, so that no page that people read holds them.

``data/appendix.toml`` has the title and the text of each page; ``<!-- promises -->`` in a text becomes the table of
``data/promises.csv``, ``<!-- costs -->`` what the papers' experiments cost. ``python docs/_hooks/appendix.py PAGE.md``
prints, of a page that ``biaslab validate --page`` has written, the rows for the data of a new calibration.
"""

import csv
import re
import sys
import tomllib
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
FOLDER = "appendix"
MARK = re.compile(r"^<!-- (\w+) -->$", re.M)
PAPERS = {
    "liusie2024": "Liusie et al. 2024, LLM Comparative Assessment",
    "stureborg2024": "Stureborg et al. 2024, LLMs are Inconsistent and Biased Evaluators",
    "wang2023": "Wang et al. 2023, Learning Evaluation Models from Large Language Models (ECT)",
    "chen2024": "Chen et al. 2024, LLM as a Scorer",
}


def on_files(files: Any, config: Any) -> None:
    """Add a page for each appendix, and one that lists them."""
    from mkdocs.structure.files import File

    pages = tomllib.loads((DATA / "appendix.toml").read_text(encoding="utf-8"))
    texts = {name: f"# {page['title']}\n{MARK.sub(_table, page['text'])}" for name, page in pages.items()}
    listed = "\n".join(f"* [{page['title']}]({name}.md)" for name, page in pages.items())
    texts["index"] = f"# Appendix\n\nTables to look things up in: what was measured, printed or drawn.\n\n{listed}\n"
    for name, text in texts.items():
        files.append(File.generated(config, f"{FOLDER}/{name}.md", content=text))


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of the data."""
    with (DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table(found: Iterable[dict[str, str]]) -> str:
    """Return rows as a table in Markdown."""
    found = list(found)
    lines = [[name.replace("_", " ") for name in found[0]], ["---"] * len(found[0])]
    lines += [[cell.replace("|", "\\|") for cell in row.values()] for row in found]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _table(mark: re.Match[str]) -> str:
    if mark[1] == "costs":
        from tools.papers.costs import tables

        return tables()
    found = rows(mark[1])
    if mark[1] in ("calibration", "papers"):
        first = next(iter(found[0]))
        return "\n\n".join(
            f"### {_title(name)}\n\n{table({key: each[key] for key in each if key != first} for each in part)}"
            for name, part in groupby(sorted(found, key=_order(found, first)), lambda row: row[first])
        )
    return table(found)


def _order(found: list[dict[str, str]], first: str) -> Any:
    """Keep groups in the order in which they begin, and, of a calibration, the metrics of a probe together."""
    begun = list(dict.fromkeys(row[first] for row in found))
    metrics = list(dict.fromkeys((row.get("probe"), row.get("metric")) for row in found))
    probes = list(dict.fromkeys(probe for probe, _ in metrics))
    return lambda row: (
        begun.index(row[first]),
        probes.index(row.get("probe")),
        metrics.index((row.get("probe"), row.get("metric"))),
    )


def _title(name: str) -> str:
    if name in PAPERS:
        return PAPERS[name]
    from biaslab.calibration.cells import JUDGES
    from biaslab.calibration.generators import GENERATORS

    return f"{name}: {JUDGES.get(name) or GENERATORS[name].about}"


def read_page(text: str) -> list[list[str]]:
    """Return the rows of a page of `biaslab validate`, each with its generator, if the page has any."""
    found, generator = [], []
    for line in text.splitlines():
        if line.startswith("## "):
            generator = [line[3:].split(":")[0]]
        elif line.startswith("| ") and not line.startswith(("| probe |", "| promise |")):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            found.append(generator + [cell.strip().replace("\\|", "|") for cell in cells])
    return found


if __name__ == "__main__":
    csv.writer(sys.stdout, lineterminator="\n").writerows(read_page(Path(sys.argv[1]).read_text(encoding="utf-8")))
