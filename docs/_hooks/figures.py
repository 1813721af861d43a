"""The figures of the pages of biases: recorded judges where there are any, else simulated ones with a known bias.

``<!-- figure -->`` becomes the figure of the page, drawn while the site is built, and the sentence that it tells. On
the first page the list of questions becomes a gallery: each with the figure of its page and what that figure tells.
"""

import re
import tempfile
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from mkdocs.structure.files import File

import biaslab as bl
from biaslab.atlas import panels
from biaslab.atlas.estimates_table import reference
from biaslab.atlas.panels import AtlasFigure
from biaslab.core.output import percent
from biaslab.distill import bias_inheritance

MARK = "<!-- figure -->"
SIMULATED = "simulated judges with a known bias"
Drawn = tuple[list[Any], pd.DataFrame, str | None, str]  # axes, rows, what they tell unless computed, whom they show


def recorded(
    panel: Callable[[], AtlasFigure], metric: str | list[str] | None = None, **look: Any
) -> Callable[[], Drawn]:
    """Return what draws a panel of the atlas."""

    def draw() -> Drawn:
        shown = panel()
        [ax] = bl.plots.panels(1, 3.6 + 0.45 * shown.rows["who"].nunique(), width=17)
        bl.plots.intervals(shown.rows, metric, by="who", ax=ax, title="recorded judges", **look)
        return [ax], shown.rows, shown.headline, "recorded judges"

    return draw


def index() -> Drawn:
    """Draw which recorded judge has which bias."""
    rows = reference()
    [ax] = bl.plots.bias_matrix(rows, 2, title="recorded judges", name="bias__index", out=_FOLDER.name).axes
    return [ax], rows, " ".join(ax.figure.get_suptitle().split()), "recorded judges, their strongest estimates"


def familiarity() -> Drawn:
    """Draw the scores that recorded judges give per nat of log perplexity."""
    rows = bl.atlas.estimates(probe="familiarity", metric="familiarity_slope")
    rows = rows[rows["attribute"].isin(["coherence", "consistency"]) & rows["configuration"].isin(["rts", "recorded"])]
    rows = rows.sort_values("judge")
    [ax] = bl.plots.panels(1, 3.6 + 0.6 * rows["judge"].nunique(), width=17)
    bl.plots.intervals(rows, "familiarity_slope", by="judge", hue="attribute", ax=ax, title="recorded judges")
    return [ax], rows, None, "recorded judges"


def comparative() -> Drawn:
    """Draw how often recorded judges prefer the better answer."""
    rows = bl.atlas.estimates(probe="position", metric="comparative_accuracy", source="llmbar")
    rows = rows[(rows["dataset"] == "llmbar") & (rows["template"] == "Vanilla")].sort_values("estimate")
    [ax] = bl.plots.panels(1, 6.0, width=17)
    bl.plots.intervals(rows, "comparative_accuracy", by="judge", ax=ax, title="recorded judges, LLMBar")
    return [ax], rows, None, "recorded judges"


def planted(probe: Any, name: str, values: list[float], metric: str, label: str) -> Callable[[], Drawn]:
    """Return what draws the estimates of a metric against the bias that judges were given."""

    def draw() -> Drawn:
        data = bl.load_dataset("graded", limit=24)
        parts = []
        for value in values:
            judge = bl.SimulatedJudge(data, noise=0.5, sharpness=5.0, **{name: value})
            estimates = probe.estimate(bl.collect(probe, judge, data, progress=False))
            parts.append(estimates[estimates["metric"] == metric].assign(planted=value))
        rows = pd.concat(parts, ignore_index=True)
        [ax] = bl.plots.panels(1, 6.5, width=12)
        bl.plots.against(rows, "planted", metric, ax=ax, xlabel=label, title="simulated judges, graded")
        return [ax], rows, None, SIMULATED

    return draw


def sweep() -> Drawn:
    """Draw agreement against temperature of a judge whose answers scatter."""
    data = bl.load_dataset("graded", limit=48)
    probe = bl.probes.Sweep(attributes=["coherence"], temperatures=[0.0, 0.5, 1.0, 1.5, 2.0], samples=2)
    judge = bl.SimulatedJudge(data, noise=0.5, sharpness=5.0)
    estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["agreement"])
    rows = estimates[estimates["samples"] == 2]
    [ax] = bl.plots.panels(1, 6.5, width=12)
    look = {"xlabel": "temperature", "title": "simulated judge, mean of 2 samples"}
    bl.plots.against(rows, "temperature", "agreement", hue="cot", ax=ax, **look)
    return [ax], rows, None, "a simulated judge that a rationale does not change"


def recipe() -> Drawn:
    """Draw how well a judge agrees by the recipe, and by what came before it."""
    data = bl.load_dataset("graded", limit=48)
    probe = bl.probes.Recipe(["coherence"], levels=["context"], coefficients=["spearman"])
    judge = bl.SimulatedJudge(data, noise=0.5, sharpness=5.0)
    rows = probe.estimate(bl.collect(probe, judge, data, progress=False), ["agreement"])
    rows = rows.replace({"scorer": {"rate_explain": "rate-explain", "g_eval": "G-Eval"}})
    [ax] = bl.plots.panels(1, 5.0, width=12)
    bl.plots.intervals(rows, "agreement", by="scorer", ax=ax, title="simulated judge, graded")
    return [ax], rows, None, "a simulated judge that answers all three methods alike"


def thinking() -> Drawn:
    """Draw a bias that falls with the budget for thoughts."""
    data = bl.load_dataset("graded", limit=48)
    judge = bl.SimulatedJudge(data, position=1.2, noise=0.5, context_noise=0.3, thought_debiasing=0.5)
    probe = bl.probes.Thinking(["coherence"], parameters={"templates": [1], "n_pairs": 4})
    rows = probe.estimate(bl.collect(probe, judge, data, progress=False), ["bias", "thinking_shift"])
    [ax] = bl.plots.panels(1, 5.5, width=12)
    look = {"null": probe.measured.null, "label": probe.measured.axis, "title": "simulated judge, graded"}
    bl.plots.intervals(rows, "bias", by="thinking", ax=ax, **look)
    ax.set_ylabel("budget for thoughts")
    least, most = rows.loc[rows["metric"] == "bias", "estimate"].iloc[[0, -1]]
    return (
        [ax],
        rows,
        f"A simulated judge: more thinking lowers P(A) from {least:.2f} to {most:.2f}",
        "a simulated judge whose bias falls with its thinking budget",
    )


def edits() -> Drawn:
    """Draw three edits beside their null edits: one that pays by its content, one by its size, and one not at all."""
    data = bl.load_dataset("graded", limit=24)
    capitals = bl.edits.TextEdit("capitals", str.upper)
    label = bl.edits.TextEdit("label", lambda _: "revised version", place="heading")
    size = {"capitals": 0.5, "null:capitals": 0.5}
    judge = bl.SimulatedJudge(data, noise=0.5, edits={"authority": 0.9, "null:authority": 0.2} | size)
    probe = bl.probes.Edit(["coherence"], ["authority", capitals, label], n_candidates=4)
    trials = bl.collect(probe, judge, data, progress=False)
    rows, excess = probe.estimate(trials, ["score_effect", "win_effect"]), probe.estimate(trials, probe.primary)
    labels = {"score_effect": "score with the change minus without (points)"}
    labels |= {"win_effect": "P(wins) with the change minus without"}
    drawn = bl.plots.draw(rows, list(labels), by="edit", hue="variant", col="metric", label=labels)
    whom = "a simulated judge that rewards a citation, and capitals no more than any change of that size"
    return list(drawn.axes), rows, bl.plots.headline(excess), whom


def inheritance() -> Drawn:
    """Draw a student that keeps half of its teacher's preference for the first."""
    data = bl.load_dataset("graded", limit=24)
    probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    teacher, student = (
        bl.collect(probe, bl.SimulatedJudge(data, position=size, noise=0.5, seed=seed), data, progress=False)
        for seed, size in enumerate((1.0, 0.5))
    )
    found = bias_inheritance(probe, teacher, student, ["first_position_logit"], progress=False)
    [share] = found.loc[found["metric"] == "bias_share", "estimate"]
    tells = f"A simulated student keeps {percent(share, 2)} of its teacher's bias"
    return bl.plots.inherited(found, "logits"), found, tells, "a simulated teacher and a student with half of its bias"


PAGES: dict[str, Callable[[], Drawn]] = {
    "anchoring": planted(
        bl.probes.Anchoring(["coherence", "fluency"], n_orders=1),
        "anchoring",
        [0.0, 0.2, 0.4, 0.6, 0.8],
        "anchor_slope",
        "planted: share of the way to the score before",
    ),
    "comparative": comparative,
    "consistency": recorded(
        panels.reliability, ["sample_alpha", "human_alpha"], hue="data", label="Krippendorff's α (interval)"
    ),
    "edit": edits,
    "familiarity": familiarity,
    "index": index,
    "inheritance": inheritance,
    "list_position": planted(
        bl.probes.ListPosition(["coherence"], k=4),
        "position",
        [-1.0, -0.5, 0.0, 0.5, 1.0],
        "first_place_excess",
        "planted: log odds of the candidate shown first",
    ),
    "output_order": recorded(panels.reasons),
    "position": recorded(panels.first_position, hue="data"),
    "recipe": recipe,
    "score_distribution": recorded(panels.scale, hue="attribute"),
    "self_preference": recorded(panels.own_texts, hue="naming", label="P(own text wins)"),
    "source": planted(
        bl.probes.Source(["relevance"], levels=["context"], coefficients=["kendall"]),
        "source_reliance",
        [0.0, 0.25, 0.5, 0.75, 1.0],
        "agreement_loss",
        "planted: share of the quality that is lost without the source",
    ),
    "sweep": sweep,
    "thinking": thinking,
    "vacuum": planted(
        bl.probes.Vacuum(["coherence"], ["identical"], asks=["pairs"], n_candidates=2),
        "position",
        [-1.0, -0.5, 0.0, 0.5, 1.0],
        "dark_first_rate",
        "planted: log odds of the candidate shown first",
    ),
    "template": planted(
        bl.probes.Template(["coherence"], factors=["wording", "order", "system", "rubric"]),
        "template_noise",
        [0.0, 0.25, 0.5, 0.75, 1.0],
        "template_sd",
        "planted: standard deviation of the templates' shifts (points)",
    ),
    "verbosity": recorded(panels.length, hue="attribute"),
}
_FOLDER = tempfile.TemporaryDirectory()
_WORDS: dict[str, str] = {}
_FINDINGS: dict[str, str] = {}
QUESTIONS = re.compile(r"(?:^\* \*\*[^*\n]+\*\* \[[^]\n]+\]\(biases/\w+\.md\)\n)+", re.M)
QUESTION = re.compile(r"\* \*\*([^*]+)\*\* \[([^]]+)\]\(biases/(\w+)\.md\)")


def on_files(files: Any, config: Any) -> None:
    """Draw the figure of every page, and add it to the site."""
    with mpl.rc_context():
        for name, draw in PAGES.items():
            axes, rows, tells, whom = draw()
            bl.plots.save(axes, rows, "bias", name, _FOLDER.name, headline=tells)
            path = Path(_FOLDER.name) / f"bias__{name}.png"
            files.append(File.generated(config, f"biases/{path.name}", abs_src_path=str(path)))
            _WORDS[name] = whom
            _FINDINGS[name] = " ".join(axes[0].figure.get_suptitle().split())


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the figure where the page asks for it, and the gallery on the first page."""
    if page.file.src_uri == "index.md":
        return QUESTIONS.sub(lambda found: gallery(found[0]), markdown)
    name = Path(page.file.src_uri).stem
    whom = _WORDS.get(name, "")
    line = f"*{whom.capitalize()}{', with 95 % intervals over contexts' * (name != 'index')}.*"
    text = re.sub(r"([\[\]\\])", r"\\\1", _FINDINGS.get(name, "") or whom)
    return markdown.replace(MARK, f"![{text}](bias__{name}.png)\n\n{line}")


def gallery(questions: str) -> str:
    """Return a list of questions as a gallery of the figures of their pages."""
    return '<div class="gallery">\n' + "\n".join(_thumbnail(*one) for one in QUESTION.findall(questions)) + "\n</div>\n"


def _thumbnail(question: str, title: str, name: str) -> str:
    finding, whom = escape(_FINDINGS.get(name, "")), escape(_WORDS.get(name, ""))
    picture = (
        f'<img src="biases/bias__{name}.png" alt="{finding or escape(title)}" loading="lazy">' if name in _WORDS else ""
    )
    caption = f"<p>{finding}</p><p><small>{whom}</small></p>" if name in _WORDS else ""
    return f'<a href="biases/{name}.html"><b>{escape(question)}</b>{picture}{caption}</a>'
