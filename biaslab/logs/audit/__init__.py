"""What judgements that somebody already has tell of their judge."""

from biaslab.logs.audit.run import audit

__all__ = ["audit"]
