"""Estimate a judge's biases from recorded judgements."""

from biaslab.logs.audit.run import audit

__all__ = ["audit"]
