from . import distill as distill
from . import plots as plots
from . import probes as probes
from . import published as published
from . import ranking as ranking
from . import report as report
from . import scoring as scoring
from .audit import audit as audit
from .calibration import calibrate as calibrate
from .collect import collect as collect
from .core import (
    Choice as Choice,
)
from .core import (
    Completion as Completion,
)
from .core import (
    Judge as Judge,
)
from .core import (
    Likelihood as Likelihood,
)
from .core import (
    Message as Message,
)
from .core import (
    Probe as Probe,
)
from .core import (
    Reply as Reply,
)
from .core import (
    Trial as Trial,
)
from .core import (
    Usage as Usage,
)
from .datasets import Dataset as Dataset
from .datasets import load_dataset as load_dataset
from .errors import BiaslabError as BiaslabError
from .judgements import read_judgements as read_judgements
from .judges import load_judge as load_judge
from .judges.api import ApiJudge as ApiJudge
from .judges.local import LocalJudge as LocalJudge
from .judges.recorded import RecordedJudge as RecordedJudge
from .judges.sampled import Sampled as Sampled
from .judges.simulated import SimulatedJudge as SimulatedJudge
from .planning import Plan as Plan
from .planning import plan as plan
from .spending import Budget as Budget
from .stats.resampling import Resampling as Resampling
from .store import Store as Store
from .store.kept import kept as kept
