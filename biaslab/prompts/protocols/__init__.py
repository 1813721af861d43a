"""How judges are asked and how their replies are read: prompts and parsers, biaslab's own and everybody else's."""

from biaslab.prompts.protocols.protocol import Protocol

__all__ = ["Protocol"]
