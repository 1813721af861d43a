"""The sources of the atlas: where recorded judgements come from, under which licence, and how they were read."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.core.checks import unknown
from biaslab.core.errors import InputError

if TYPE_CHECKING:
    from types import ModuleType

    import pandas as pd


@dataclass(frozen=True)
class Source:
    """Judgements that somebody published.

    Parameters
    ----------
    name : str
        What it is called here.
    title : str
        What it is, in a line, with its paper.
    repository : str
        Where it was published.
    licence : str
        Identifier of the licence, empty where there is none.
    notice : str
        Copyright notice of the licence.
    carried : bool
        Whether the licence allows to carry the judgements as numbers; of other sources only our estimates are here.
    files : tuple of str
        Glob patterns below the folder of raw data.
    left_out : str
        What of these files is not among the rows.
    how_read : str
        How replies became values.
    commit : str
        Of the repository; empty where it is not known.
    """

    name: str
    title: str
    repository: str
    licence: str
    notice: str
    carried: bool
    files: tuple[str, ...]
    left_out: str
    how_read: str
    commit: str = ""

    def read(self, folder: str | Path) -> pd.DataFrame:
        """Read the raw files, with a reader of the folder ``tools`` of the repository.

        Parameters
        ----------
        folder : path
            Of raw data, which holds ``files``.

        Returns
        -------
        pandas.DataFrame
            As `biaslab.read_judgements` returns it, with ``reply``; judges have the names of the atlas.

        Raises
        ------
        InputError
            If a file is missing, or biaslab was not installed from a checkout.
        """
        self.require_files(Path(folder))
        trials: pd.DataFrame = getattr(build_tool("raw_files"), self.name)(Path(folder))
        return trials

    def require_files(self, folder: Path) -> None:
        """Raise `InputError` unless there is a file for each pattern."""
        missing = [pattern for pattern in self.files if not any(folder.glob(pattern))]
        if missing:
            remedy = f"get them from {self.repository}"
            raise InputError("folder", str(folder), f"a folder with {', '.join(missing)}", remedy)


_LEFT_OUT = "Texts, prompts and replies."
_VERDICT = "A verdict is the probability that the first shown wins: 1, 0, or 0.5 for a tie."
_UNREAD = "What could not be read is a row with a status and without a value."
_ANALYZER = "recorded/position_bias_analyzer"
_SUMMEVAL_FILE = "summeval/annotations_1200.jsonl.gz"

SOURCES = (
    Source(
        "llmbar",
        "LLMBar and its processed FairEval, MT-Bench and LLMEval² pairs (Zeng et al. 2024, arXiv 2310.07641)",
        "github.com/princeton-nlp/LLMBar",
        "MIT",
        "Copyright (c) 2023 Princeton Natural Language Processing",
        True,
        ("recorded/llmbar/llmbar_LLMBar+Processed.tar.xz",),
        f"{_LEFT_OUT} What judges wrote before their last round: metrics, references, first rounds.",
        f"{_VERDICT} It is the last round's `winner`; where outputs were scored alone, the scores, 0 to 9. `human_gap` "
        f"is the gold label, 1 where the first shown is the better one. {_UNREAD}",
    ),
    Source(
        "mt_bench",
        "Pairs of MT-Bench in both orders, and repetitions of nine judges (Shi et al. 2024, arXiv 2406.07791)",
        "github.com/Slimshilin/Position-Bias-Analyzer",
        "MIT",
        "Copyright (c) 2024 Slimshilin",
        True,
        files=(f"{_ANALYZER}/MTBench_position_bias*.jsonl.gz", f"{_ANALYZER}/MTBench_repetition*.jsonl.gz"),
        left_out=f"{_LEFT_OUT} Six judgments that say that the call failed.",
        how_read=f"{_VERDICT} It is what stands in double brackets. {_UNREAD} Lengths are known of the repetitions.",
    ),
    Source(
        "devbench",
        "Pairs of DevBench in both orders, and repetitions of nine judges (Shi et al. 2024, arXiv 2406.07791)",
        "github.com/Slimshilin/Position-Bias-Analyzer",
        "MIT",
        "Copyright (c) 2024 Slimshilin",
        True,
        files=(f"{_ANALYZER}/DevBench_position_bias.jsonl.gz", f"{_ANALYZER}/DevBench_repetition.jsonl.gz"),
        left_out=f"{_LEFT_OUT} The judged texts were not published, so that lengths are not known.",
        how_read=f'{_VERDICT} It is what stands after "Choice:"; no ties were allowed.',
    ),
    Source(
        "null_model",
        "One constant answer to all questions of AlpacaEval 2 (Zheng et al. 2024, arXiv 2410.07137)",
        "github.com/sail-sg/Cheating-LLM-Benchmarks",
        "MIT",
        "Copyright (c) 2024 Sea AI Lab",
        True,
        ("recorded/null_model/*_annotations.json.gz",),
        _LEFT_OUT,
        "The value is the probability of the first shown, from the log-probabilities of both labels; the order shown "
        "is the one with which the saved preference agrees.",
    ),
    Source(
        "summeval_experts",
        "The three experts' ratings of 100 articles × 12 systems of SummEval (Fabbri et al. 2021, arXiv 2007.12626)",
        "github.com/Yale-LILY/SummEval",
        "MIT",
        "Copyright (c) 2021 Alex Fabbri, Wojciech Kryściński, Bryan McCann, Caiming Xiong, Richard Socher, "
        "and Dragomir Radev",
        True,
        (_SUMMEVAL_FILE,),
        f"{_LEFT_OUT} The ratings of five crowd workers, and four of the sixteen systems, which the file lacks.",
        "Each expert is a judge; `human` is the mean of the other two. Experts are told apart by their position in the "
        "record: one name need not be one person.",
    ),
    Source(
        "topical_chat_means",
        "Mean ratings of 60 dialogues × 6 responses of TopicalChat (Mehri & Eskenazi 2020, arXiv 2005.00456)",
        "github.com/maszhongming/UniEval",
        "MIT",
        "Copyright (c) 2022 Ming Zhong",
        True,
        ("topical_chat/topical_chat.json.gz",),
        f"{_LEFT_OUT} Single ratings were not published.",
        "The mean of three annotators is one judge.",
    ),
    Source(
        "pandalm",
        "PandaLM's test set with three annotators and two judges (Wang et al. 2024, arXiv 2306.05087)",
        "github.com/WeOpenML/PandaLM",
        "Apache-2.0",
        "Copyright 2023 Yidong Wang, Zhuohao Yu",
        True,
        ("recorded/pandalm/*testset-v1.json.gz",),
        _LEFT_OUT,
        f"{_VERDICT} `human_gap` is the mean preference of the annotators, each of whom is a judge too, then with that "
        f"of the other two. Each pair was shown in one order. {_UNREAD}",
    ),
    Source(
        "prometheus",
        "GPT-4's scores of the Vicuna set, three a response (Kim et al. 2024, arXiv 2310.08491)",
        "github.com/prometheus-eval/prometheus-eval",
        "Apache-2.0",
        "Copyright the authors of prometheus-eval",
        True,
        ("recorded/prometheus/vicuna_eval.json.gz",),
        f"{_LEFT_OUT} The rubrics, one an instruction.",
        "The score on the rubric of 1 to 5 that stands with each instruction.",
    ),
    Source(
        "summeval_judges",
        "Scores of SummEval by GPT-4-0314, GPT-3.5 and Llama-2 (Shen et al. 2023, arXiv 2305.13091)",
        "github.com/DAMO-NLP-SG/LLM_summeval",
        "",
        "",
        False,
        ("recorded/summeval_judges/judge_scores.jsonl.gz", _SUMMEVAL_FILE),
        "Modes that are superseded; rows that stand twice.",
        f"The final score in the reply, a choice of A (worst) to E (best), or stars. {_UNREAD}",
    ),
    Source(
        "summeval_pairs",
        "Pairs of SummEval in both orders by GPT-3.5 (Shen et al. 2023, arXiv 2305.13091)",
        "github.com/DAMO-NLP-SG/LLM_summeval",
        "",
        "",
        False,
        ("recorded/summeval_judges/h2h_gpt35_both_orders.jsonl.gz", _SUMMEVAL_FILE),
        "",
        f"{_VERDICT} It is the letter of the reply. {_UNREAD}",
    ),
    Source(
        "topical_chat_judges",
        "GPT-3.5 on TopicalChat, 20 samples an item, seven modes (Chiang & Lee 2023, arXiv 2310.05657)",
        "github.com/d223302/A-Closer-Look-To-LLM-Evaluation",
        "",
        "",
        False,
        ("recorded/closer_look_topical_chat/gpt3.5_*.json.gz",),
        "",
        f"The rating in each sample. {_UNREAD}",
    ),
    Source(
        "alpaca_eval",
        "AlpacaEval's judges on text_davinci_001 (Dubois et al. 2024, arXiv 2404.04475)",
        "github.com/tatsu-lab/alpaca_eval",
        "CC-BY-NC-4.0",
        "Copyright 2023 Yann Dubois and Xuechen Li and Rohan Taori and Tianyi Zhang and Ishaan Gulrajani",
        False,
        ("recorded/alpaca_eval/*_annotations.json.gz",),
        "",
        "The saved preference; the order shown is known where log-probabilities stand beside it.",
    ),
    Source(
        "self_recognition",
        "GPT-4, GPT-3.5 and Llama-2 on their own summaries of XSum and others' (Panickssery et al. 2024, "
        "arXiv 2404.13076)",
        "github.com/ArjunPanickssery/self_recognition",
        "",
        "",
        False,
        tuple(f"recorded/self_recognition/{kind}_*.json.gz" for kind in ("pairs", "label", "scores", "summaries")),
        "Llama-2's means under wrong and random names, of which it is not told for which text they are.",
        "The probability of the label where it was saved, the label otherwise; expected scores of the distributions.",
    ),
)


def find_source(name: str) -> Source:
    """Return the source of that name.

    Raises
    ------
    InputError
        If there is none; the message has the names that are close.

    Examples
    --------
    >>> find_source("mt_bench").licence
    'MIT'
    """
    by_name = {source.name: source for source in SOURCES}
    if name not in by_name:
        raise unknown("source", name, list(by_name))
    return by_name[name]


def build_tool(name: str) -> ModuleType:
    """Import a module of ``tools/atlas``, which builds the atlas and is in the repository alone.

    Raises
    ------
    InputError
        If biaslab was not installed from a checkout of the repository.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / "tools" / "atlas").is_dir():
        remedy = "clone it, and install it with pip install --editable"
        raise InputError("biaslab", str(root), "a checkout of the repository, which has a folder tools", remedy)
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return import_module(f"tools.atlas.{name}")
