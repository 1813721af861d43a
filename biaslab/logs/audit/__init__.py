"""Estimate a judge's biases from recorded judgements, or list which can be estimated."""

from biaslab.logs.audit.doctor import Diagnosis, doctor
from biaslab.logs.audit.run import audit

__all__ = ["Diagnosis", "audit", "doctor"]
