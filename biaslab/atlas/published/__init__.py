"""Numbers printed in papers and by authors with their data, and the experiments they come from.

One CSV file per paper, one printed number per row, copied from the text: nothing is recomputed, and apparent errors
are kept with a note. Empty cells have no row. The papers that biaslab follows:

================== ==================================================================================================
``liusie2024``     Liusie et al. 2024, *LLM Comparative Assessment*, arXiv 2307.07889v3: Tables 1-11
``stureborg2024``  Stureborg et al. 2024, *LLMs are Inconsistent and Biased Evaluators*, arXiv 2405.01724: Tables 1-5
                   and the table of Appendix E, here ``"E"`` (Table 6 holds words only)
``wang2023``       Wang et al. 2023, *Learning Evaluation Models from LLMs*, arXiv 2308.04386: Tables 1-6, 9, 11, 12
``chen2024``       Chen et al. 2024, *LLM as a Scorer*, arXiv 2406.02863: Table 2 (Table 1 holds words only)
================== ==================================================================================================

Printed along with recorded judgements (`biaslab.atlas`) in their authors' repositories; ``table`` is the file:

=================== ==================================================================================================
``zeng2024``        Zeng et al. 2024, *LLMBar*, arXiv 2310.07641: every ``statistics.json`` of a verdict on two outputs
``shi2024``         Shi et al. 2024, *Judging the Judges*, arXiv 2406.07791: the rates in ``log.txt``
``panickssery2024`` Panickssery et al. 2024, *LLM Evaluators Recognize and Favor Their Own Generations*,
                    arXiv 2404.13076: self-preference on XSum as ``analysis.ipynb`` prints it
``wang2024``        Wang et al. 2024, *PandaLM*, arXiv 2306.05087: accuracy and agreement of annotators in the README
``zheng2024``       Zheng et al. 2024, *Cheating Automatic LLM Benchmarks*, arXiv 2410.07137: win rate in the README
``dubois2024``      Dubois et al. 2024, *Length-Controlled AlpacaEval*, arXiv 2404.04475: win rates of text_davinci_001
                    on the leader boards
=================== ==================================================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from biaslab.core.checks import did_you_mean
from biaslab.core.errors import InputError
from biaslab.core.files import declared
from biaslab.stats.frame import require_columns

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BESIDE_DATA", "PAPERS", "experiments", "load", "of_dataset", "of_scorers"]

#: Names of the papers that biaslab follows, in the order returned by `load`.
PAPERS = ("liusie2024", "stureborg2024", "wang2023", "chen2024")
#: Names of papers whose authors print numbers along with the judgements that they publish.
BESIDE_DATA = ("zeng2024", "shi2024", "panickssery2024", "wang2024", "zheng2024", "dubois2024")

#: Data sets and attributes with other names in papers.
_DATASETS = {"webnlg_2017": "webnlg"}
_ATTRIBUTES = {"semantic equivalence": "semantics", "overall quality": "overall"}
#: The authors' loader uses USR's "understandable" for coherency, and for continuity "maintains context", which is
#: UniEval's coherence.
_OF_TOPICALCHAT = {"coherence": "understandability", "continuity": "coherence"}
_USUAL = "summeval"
#: Liusie et al.'s table of agreement by data set; ``graded`` is next to SummEval.
_AGREEMENT = {"summeval": 1, "graded": 1, "podcast": 2, "topicalchat": 3, "webnlg": 4, "webnlg_2017": 4}
#: Beginnings of its rows, and of the names of the same scorers here.
_SCORERS = {
    "Comparative Assessment": "comparative",
    "Prompt Scoring": "prompt scoring",
    "G-Eval": "G-Eval",
    "Baselines | GPTScore": "GPTScore",
    "Baselines | BLEU": "BLEU (ref",
    "Baselines | METEOR": "METEOR (ref",
    "Baselines | BERTScore": "BERTScore F1 (ref",
}
_ONE_PROMPT = r" [12](?=$|,)|mean P"


def load(paper: str | None = None, table: str | int | None = None) -> pd.DataFrame:
    """Return printed numbers as a tidy frame.

    Parameters
    ----------
    paper : str, optional
        A name from `PAPERS` or `BESIDE_DATA`; by default all.
    table : str or int, optional
        Number of the table as printed, ``"E"``, or the name of a file; by default all. Without a paper: that table of
        every paper that has it.

    Returns
    -------
    pandas.DataFrame
        ``paper``, ``table`` and ``page_or_section``: where it is printed. ``row``, ``column``: the labels in the
        table, outer label first, separated by `` | ``. ``metric``, ``attribute``, ``dataset``, ``judge``: what was
        measured, in biaslab's terms if possible, empty if not applicable. ``value`` (float) in ``unit``: *fraction*,
        *percent*, *x100* (a correlation or metric times 100), *correlation*, *alpha*, *perplexity*, *levels* or
        *points of 1-10*. ``printed``: the value as a string, with the digits given in the paper. ``note``: caveats.

    Raises
    ------
    InputError
        If the paper or the table is unknown.

    Examples
    --------
    >>> bias = load("liusie2024", table=5)
    >>> bias.query("judge == 'FlanT5-3B' and row.str.endswith('prompt 1')")[["attribute", "value"]].values.tolist()
    [['coherence', 0.37], ['consistency', 0.46], ['fluency', 0.39], ['relevance', 0.41]]
    """
    import pandas as pd

    known = (*PAPERS, *BESIDE_DATA)
    if paper is not None and paper not in known:
        raise InputError("paper", paper, ", ".join(known))
    frame = pd.concat([_read(name) for name in known if paper in (None, name)], ignore_index=True)
    if table is None:
        return frame
    chosen = frame[frame["table"] == str(table)].reset_index(drop=True)
    if chosen.empty:
        raise InputError("table", table, ", ".join(frame["table"].unique()))
    return chosen


def of_dataset(printed: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Return the values printed for a data set, or for SummEval if a paper has none.

    Parameters
    ----------
    printed : pandas.DataFrame
        Rows returned by `load`.
    dataset : str
        Name of a data set; only its first word matters.

    Returns
    -------
    pandas.DataFrame
        Those rows, with the loaders' attribute names.

    Examples
    --------
    >>> rows = load("liusie2024", table=9)
    >>> of_dataset(rows, "webnlg_2017")["attribute"].unique().tolist()
    ['fluency', 'grammar', 'semantics']
    >>> of_dataset(rows, "graded")["dataset"].unique().tolist()
    ['summeval']
    """
    name = (dataset.split() or [""])[0]
    rows = printed[printed["dataset"] == _DATASETS.get(name, name)]
    rows = rows if len(rows) else printed[printed["dataset"] == _USUAL]
    renamed = _ATTRIBUTES | (_OF_TOPICALCHAT if name == "topicalchat" else {})
    return rows.assign(attribute=rows["attribute"].map(lambda attribute: renamed.get(attribute, attribute)))


def of_scorers(agreement: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Return the agreement within contexts that Liusie et al. (2024) print for the same scorers (Tables 1-4).

    Parameters
    ----------
    agreement : pandas.DataFrame
        Result of `biaslab.scoring.agreement`, with names of scorers as in the notebook *baselines*. If it has averages
        over both prompts, only these are compared, because the paper's values are such averages.
    dataset : str
        Name of the data set; only its first word matters.

    Returns
    -------
    pandas.DataFrame
        The printed rows as `load` returns them, with the loaders' attribute names and ``value`` as a fraction. Further
        columns: ``scorer``, the scorer of the frame that is compared with the row, missing if there is none (and a row
        for each if there are several); ``label``, such as "Table 1". No rows if the paper has no such data set.

    Raises
    ------
    TrialsError
        If the frame names no scorers or attributes.

    Examples
    --------
    >>> import pandas as pd
    >>> ours = pd.DataFrame({"scorer": ["prompt scoring 1"], "attribute": ["coherence"]})
    >>> theirs = of_scorers(ours, "graded").dropna(subset="scorer")
    >>> theirs[["scorer", "judge", "value"]].round(3).head(2).to_numpy().tolist()
    [['prompt scoring 1', 'FlanT5-220M', 0.04], ['prompt scoring 1', 'FlanT5-770M', -0.036]]
    """
    require_columns(agreement, ["scorer", "attribute"], "agreement")
    table = _AGREEMENT.get((dataset.split() or [""])[0])
    printed = load("liusie2024", table=table or 1)
    printed = of_dataset(printed[printed["column"] != "System-lvl"], dataset)
    printed = printed if table else printed.head(0)
    ours = agreement[["scorer", "attribute"]].drop_duplicates()
    if ours["scorer"].str.contains("(both", regex=False).any():
        ours = ours[~ours["scorer"].str.contains(_ONE_PROMPT)]
    ours = ours.assign(kind=_beginning(ours["scorer"], list(_SCORERS.values())))
    rows = printed.assign(kind=_beginning(printed["row"], list(_SCORERS)).map(_SCORERS))
    rows = rows.merge(ours.dropna(subset="kind"), on=["kind", "attribute"], how="left").drop(columns="kind")
    return rows.assign(value=rows["value"] / 100, label=f"Table {table}")


def _beginning(names: pd.Series, beginnings: list[str]) -> pd.Series:
    """Return the one of several beginnings that each name has; missing if it has none."""
    return names.str.extract(f"^({'|'.join(map(re.escape, beginnings))})")[0]


@cache
def _read(paper: str) -> pd.DataFrame:
    import pandas as pd

    with files(__name__).joinpath(f"{paper}.csv").open(encoding="utf-8") as stream:
        frame = pd.read_csv(stream, dtype=str, keep_default_na=False)
    frame["printed"] = frame["value"]
    return frame.astype({"value": float})


@dataclass(frozen=True)
class Experiment:
    """A run of a notebook with the settings of a paper, on one data set.

    Attributes
    ----------
    paper : str
        For example ``"liusie2024"``.
    items : tuple of str
        The tables, figures and appendices that it reproduces.
    notebook : str
        Name of the notebook.
    dataset : str
        Name of the data set, with its options.
    settings : dict of str to str
        Every parameter of the notebook that affects a result, as written on the command line.
    not_stated : tuple of str
        Parameters that the paper does not state; their values are biaslab's choice.
    """

    paper: str
    items: tuple[str, ...]
    notebook: str
    dataset: str
    settings: dict[str, str]
    not_stated: tuple[str, ...] = ()


def experiments(paper: str, item: str | None = None, dataset: str | None = None) -> list[Experiment]:
    """Return the experiments of a paper with its own settings.

    Parameters
    ----------
    paper : str
        A name from ``biaslab.atlas.published.PAPERS``.
    item : str, optional
        A table, figure or appendix as named in ``biaslab paper NAME``, for example ``"Table 5"``; case and hyphens do
        not matter. By default all.
    dataset : str, optional
        Only those on this data set; options after its name, such as ``?words=2500``, may be omitted. If an item has a
        single data set, it is replaced by the given one.

    Returns
    -------
    list of Experiment
        One per notebook, data set and choice of settings.

    Raises
    ------
    InputError
        If the paper is unknown, no experiment reproduces the item, or none of several is on the data set.

    Examples
    --------
    >>> [first, *_] = experiments("stureborg2024", "Table 4")
    >>> first.notebook, first.settings["replicates"], first.settings["n_contexts"]
    ('consistency', '10', 'none')
    """
    known = list(dict.fromkeys(each.paper for each in _all()))
    if paper not in known:
        raise InputError("paper", paper, ", ".join(known), did_you_mean(paper, known))
    chosen = [each for each in _all() if each.paper == paper]
    if item is not None:
        names = list(dict.fromkeys(name for each in chosen for name in each.items))
        wanted = {_plain(name): name for name in names}.get(_plain(item))
        if wanted is None:
            raise InputError("item", item, ", ".join(names), did_you_mean(item, names))
        chosen = [each for each in chosen if wanted in each.items]
    return chosen if dataset is None else _on(dataset, chosen)


def _on(dataset: str, chosen: list[Experiment]) -> list[Experiment]:
    sets = list(dict.fromkeys(each.dataset for each in chosen))
    names = {each.partition("?")[0]: each for each in reversed(sets)} | {each: each for each in sets}
    if dataset in names:
        return [each for each in chosen if each.dataset == names[dataset]]
    if len(sets) > 1:
        raise InputError("dataset", dataset, " or ".join(sets), did_you_mean(dataset, sets))
    return [replace(each, dataset=dataset) for each in chosen]


def _plain(item: str) -> str:
    return item.lower().replace("-", " ").replace(".", "").replace(" ", "")


@cache
def _all() -> tuple[Experiment, ...]:
    runs = declared("biaslab.atlas.published", "experiments.toml")
    found = []
    for run in runs["run"]:
        settings = {name: _as_text(value) for name, value in run["settings"].items()}
        rest = (settings, tuple(run.get("not_stated", ())))
        found += [
            Experiment(run["paper"], tuple(items), run["notebook"], data, *rest) for data, items in run["data"].items()
        ]
    return tuple(found)


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def __dir__() -> list[str]:
    return __all__
