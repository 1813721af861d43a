"""The data card of a source: what is carried, from where, under which licence, what was left out, how it was read."""

from __future__ import annotations

import pandas as pd

from biaslab.atlas.sources import AtlasSource
from tools.atlas.perplexity import LONGEST

_MIT = """\
Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""
_APACHE = """\
Licensed under the Apache License, Version 2.0, which is the licence of biaslab too: its text is in the file LICENSE.
It is also at http://www.apache.org/licenses/LICENSE-2.0. Unless required by applicable law or agreed to in writing,
what is distributed under the License is distributed on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY
KIND, either express or implied. Changes: the published records were read as numbers; texts and replies were dropped.
"""
_LICENCES = {"MIT": _MIT, "Apache-2.0": _APACHE}


def card(source: AtlasSource, rows: pd.DataFrame) -> str:
    """Return the data card of a source as Markdown.

    Parameters
    ----------
    source : Source
        Where the rows come from.
    rows : pandas.DataFrame
        Made by `tools.atlas.building.make_rows`.
    """
    parts = [
        f"# {source.name}\n\n{source.title}.",
        "\n".join([
            f"* Repository: {source.repository}",
            f"* Commit: {source.commit or 'not known'}",
            f"* Licence: {source.licence}",
            f"* Raw files: {', '.join(f'`{name}`' for name in source.files)}",
        ]),
        f"## What was left out\n\n{source.left_out}{_also(rows)}",
        f"## How replies were read\n\n{source.how_read}",
        f"## Counts\n\n{_counts(rows)}",
        f"## Log-perplexities\n\n{_perplexities(rows)}",
        f"## Licence\n\n{source.notice}\n\n{_LICENCES[source.licence].rstrip()}",
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _also(rows: pd.DataFrame) -> str:
    """Write how many records were left out, and why."""
    facts = rows.attrs
    counts = [f"{count:,} records: {reason}" for reason, count in facts.get("left_out", {}).items()]
    counts += [f"{facts[name]:,} {name}" for name in ("malformed", "duplicates") if facts.get(name)]
    return f"\n\nCounted: {'; '.join(counts)}." if counts else ""


def _counts(rows: pd.DataFrame) -> str:
    """Return a table: a row a data set and judge."""
    grouped = rows.groupby(["dataset", "judge"], sort=True)
    lines = ["| data set | judge | judgements | contexts | readable | ties |", "|---|---|---:|---:|---:|---:|"]
    for (dataset, judge), part in grouped:
        contexts, ties = part["context_id"].nunique(), int((part["status"] == "tie").sum())
        readable = int(part["status"].isin(["ok", "tie"]).sum())
        lines.append(f"| {dataset} | {judge} | {len(part):,} | {contexts:,} | {readable:,} | {ties:,} |")
    return "\n".join(lines)


def _perplexities(rows: pd.DataFrame) -> str:
    texts, read = rows.attrs["texts"], rows.attrs["read"]
    if not texts:
        return "None: the texts were not published."
    return (
        f"Known of {read:,} of {texts:,} texts: −mean log P(token | tokens before it) under SmolLM2-135M-Instruct, in "
        f"nats a token of its tokenizer, of the bare text without prompt or chat template. Longer texts were cut to "
        f"{LONGEST} tokens; a text of one token, or of none, has no number."
    )
