"""Plan a study: power and cost before it is run."""

from biaslab.study.planning.pilot import simulated_pilot
from biaslab.study.planning.study import Plan, plan

__all__ = ["Plan", "plan", "simulated_pilot"]
