from . import (
    atlas as atlas,
    distill as distill,
    edits as edits,
    mitigation as mitigation,
    plots as plots,
    probes as probes,
    published as published,
    ranking as ranking,
    report as report,
    scoring as scoring,
)
from .audit import audit as audit
from .calibration import calibrate as calibrate
from .collect import collect as collect
from .core import (
    Choice as Choice,
    Completion as Completion,
    Judge as Judge,
    Likelihood as Likelihood,
    Message as Message,
    Probe as Probe,
    Reply as Reply,
    Trial as Trial,
    Usage as Usage,
)
from .correct import compare as compare, correct as correct
from .datasets import Dataset as Dataset, load_dataset as load_dataset
from .errors import BiaslabError as BiaslabError
from .evidence import Shown as Shown, show as show
from .judgements import read_judgements as read_judgements
from .judges import load_judge as load_judge
from .judges.api import ApiJudge as ApiJudge
from .judges.local import LocalJudge as LocalJudge
from .judges.panel_of_judges import Panel as Panel
from .judges.ray_judge import RayJudge as RayJudge
from .judges.recorded import RecordedJudge as RecordedJudge
from .judges.sampled import Sampled as Sampled
from .judges.simulated import SimulatedJudge as SimulatedJudge
from .planning import Plan as Plan, plan as plan
from .project import enter_project as enter_project
from .spending import Budget as Budget
from .stats.inference import Resampling as Resampling
from .store import Store as Store
from .store.kept import kept as kept
