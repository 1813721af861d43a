"""What the pages of the biases take from the probes, so that it never drifts, and the committed figures.

``<!-- metrics -->`` becomes the tables of the probe that the page is named after, ``<!-- probes -->`` a list of all,
``<!-- forms -->`` a table of what is estimated of each bias by what the judge gives.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from biaslab.core.metrics import Metric
from biaslab.probes import FORMS, available, find_probe, table

ROOT = Path(__file__).resolve().parents[2]
FIGURE = re.compile(r"\((?:\.\./)*(figures/\S+\.png)\)")


def on_files(files: Any, config: Any) -> None:
    """Add the committed figures that pages show."""
    shown = {name for file in files.documentation_pages() for name in FIGURE.findall(file.content_string)}
    for name in sorted(shown):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the tables where a page asks for them."""
    if "<!-- metrics -->" in markdown:
        markdown = markdown.replace("<!-- metrics -->", metrics(Path(page.file.src_uri).stem))
    for mark, made in (("<!-- probes -->", probes), ("<!-- forms -->", forms)):
        markdown = markdown.replace(mark, made()) if mark in markdown else markdown
    return markdown


def metrics(name: str) -> str:
    """Return the tables of a probe's metrics: those that are tested, and the others."""
    kind = find_probe(name)
    tested = [one for one in kind.metrics if one.primary]
    rows = ["| tested | what it is | fair | above: the judge | below: the judge | matters from |", "|---" * 6 + "|"]
    rows += [f"| {_said(one)} | {one.above} | {one.below} | {_number(one.matters, '± ')} |" for one in tested]
    others = [one for one in kind.metrics if not one.primary]
    rows += ["", "| also estimated | what it is | fair |", "|---" * 3 + "|"] if others else []
    rows += [f"| {_said(one)} |" for one in others]
    return "\n".join([*rows, "", f"Defined at [`{kind.__name__}`][{kind.__module__}.{kind.__qualname__}]."])


def probes() -> str:
    """Return a table of all probes: the page of each, and what it does."""
    rows = ["| page | probe | in a line |", "|---|---|---|"]
    for name, kind in available().items():
        line = (kind.__doc__ or "").strip().splitlines()[0]
        page = f"[{name}]({name}.md)" if (ROOT / "docs" / "biases" / f"{name}.md").exists() else name
        rows.append(f"| {page} | [`{kind.__name__}`][{kind.__module__}.{kind.__qualname__}] | {line} |")
    return "\n".join(rows)


def forms() -> str:
    """Return a table of bias × form, from what `biaslab.probes.table` says."""
    found = table()
    shown = [form for form in FORMS if (found["form"] == form).any()]
    rows = [
        f"| bias | {' | '.join(shown)} | a judge without prompts | a log has to hold |",
        "|---" * (len(shown) + 3) + "|",
    ]
    for name, of_probe in found.groupby("probe", sort=False):
        cells = ["<br>".join(map(_estimated, of_probe[of_probe["form"] == form].to_dict("records"))) for form in shown]
        first = of_probe.iloc[0]
        page = f"[{name}](../biases/{name}.md)" if (ROOT / "docs" / "biases" / f"{name}.md").exists() else name
        will_do = "✓" if first["judges"] == "any" else "–"
        rows.append(f"| {page} | {' | '.join(cell or '–' for cell in cells)} | {will_do} | {first['needs']} |")
    return "\n".join(rows)


def _estimated(row: dict[str, Any]) -> str:
    unit = f", {row['unit']}" if row["unit"] else ""
    return f"`{row['metric']}`: {row['what']}{unit}; null {row['null']:g}".replace("|", "\\|")


def _said(one: Metric) -> str:
    return f"`{one.name}` | {one.axis} | {_number(one.null)}"


def _number(value: float | None, before: str = "") -> str:
    return "" if value is None else f"{before}{value:g}"
