from . import (
    atlas as atlas,
    datasets as datasets,
    distill as distill,
    judges as judges,
    logs as logs,
    probes as probes,
    prompts as prompts,
    report as report,
    stats as stats,
)
from .atlas import published as published
from .calibration import validate as validate, with_planted as with_planted
from .core import (
    Choice as Choice,
    Completion as Completion,
    Judge as Judge,
    Likelihood as Likelihood,
    Message as Message,
    ProbeInterface as ProbeInterface,
    Reply as Reply,
    Trial as Trial,
    Usage as Usage,
    errors as errors,
)
from .core.errors import BiaslabError as BiaslabError
from .core.project import enter_project as enter_project
from .correct import (
    compare as compare,
    correct as correct,
    joint as joint,
    mitigation as mitigation,
    replace as replace,
    robustness as robustness,
)
from .datasets import Dataset as Dataset, load_dataset as load_dataset
from .judges import load_judge as load_judge
from .judges.api import ApiJudge as ApiJudge
from .judges.function import FunctionJudge as FunctionJudge
from .judges.local import LocalJudge as LocalJudge
from .judges.panel import Panel as Panel
from .judges.ray_judge import RayJudge as RayJudge
from .judges.repetition import MeanOverThoughts as MeanOverThoughts, Sampled as Sampled
from .judges.reward import RewardJudge as RewardJudge
from .judges.simulated import SimulatedJudge as SimulatedJudge
from .logs.audit import audit as audit, doctor as doctor
from .logs.readers import read_judgements as read_judgements
from .logs.recorded import RecordedJudge as RecordedJudge
from .measures import ranking as ranking, scoring as scoring
from .prompts import edits as edits
from .prompts.protocols import Protocol as Protocol
from .report import plots as plots
from .report.evidence import CardPage as CardPage, LabelPage as LabelPage, label as label, show as show
from .report.preregistration import FrozenStudy as FrozenStudy, Hypothesis as Hypothesis, freeze as freeze
from .report.screening import Screen as Screen, plan_screen as plan_screen, screen as screen
from .stats.resample import Resampling as Resampling
from .stats.sequential import Until as Until
from .stats.synthesis import synthesis as synthesis
from .store import Store as Store
from .store.tables import cached as cached
from .study.collect import collect as collect
from .study.planning import Plan as Plan, plan as plan
from .study.spending import Budget as Budget
