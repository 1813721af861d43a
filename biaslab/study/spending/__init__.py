"""Cost of a study: counted before it is run, and limited while it runs."""

from biaslab.study.spending.budget import Budget
from biaslab.study.spending.cost import Cost, count_cost, measure, price

__all__ = ["Budget", "Cost", "count_cost", "measure", "price"]
