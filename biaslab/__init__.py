"""biaslab measures, corrects and plots the biases of LLM judges.

Everything public is listed in ``__init__.pyi`` and loaded when it is first used, so that ``import biaslab`` is quick
and brings in neither torch nor openai nor matplotlib.

Examples
--------
>>> import biaslab as bl
>>> data = bl.load_dataset("graded", limit=4)
>>> probe = bl.probes.Position(attributes=["coherence"], templates=[1])
>>> judge = bl.SimulatedJudge(data, position=1.0)
>>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False))
"""

import sys
from typing import Any

import lazy_loader

if __doc__ is None:
    raise ImportError(
        "biaslab reads its metrics and commands from docstrings: run Python without -OO (PYTHONOPTIMIZE=2)"
    )
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name != "__version__":
        try:
            return _load(name)
        except AttributeError as error:
            if name in __all__ or name.startswith("_"):
                raise
            from biaslab.core.checks import did_you_mean
            from biaslab.probes import names

            classes = [f"probes.{probe.title().replace('_', '')}" for probe in names()]
            hint = did_you_mean(name, [*__all__, *classes])
            raise AttributeError(f"module 'biaslab' has no attribute {name!r}; {hint}".rstrip("; ")) from error
    from importlib.metadata import version  # takes three times as long to import as the rest

    return version("biaslab")


if "ipykernel" in sys.modules:  # in a notebook, where a misspelt parameter of papermill must not run with the default
    from biaslab.core.project import check_injected

    check_injected()
