"""What judgements that somebody already has tell of their judge."""

from biaslab.audit.run import audit

__all__ = ["audit"]
