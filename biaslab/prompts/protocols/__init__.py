"""Define how judges are asked and how their replies are parsed: prompts and parsers of any origin."""

from biaslab.prompts.protocols.own_lists import list_protocol
from biaslab.prompts.protocols.protocol import Protocol

__all__ = ["Protocol", "list_protocol"]
