from . import plots as plots, probes as probes
from .collect import Budget as Budget, collect as collect
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
from .datasets import Dataset as Dataset, load_dataset as load_dataset
from .errors import BiaslabError as BiaslabError
from .judges import load_judge as load_judge
from .judges.local import LocalJudge as LocalJudge
from .judges.simulated import SimulatedJudge as SimulatedJudge
from .stats.resampling import Resampling as Resampling
from .store import Store as Store
