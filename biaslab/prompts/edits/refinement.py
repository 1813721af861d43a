"""Refinement: a text that is said to be a better version of itself."""

from biaslab.prompts.edits.base import constant

_SOURCE = "Ye et al. 2024, Justice or Prejudice? (CALM), Table 1 (refinement-aware bias)"

refinement = constant("refinement", "revised version", "Say that it was revised.", _SOURCE)
