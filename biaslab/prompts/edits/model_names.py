"""Compassion fade: a well-known name instead of a letter alone."""

from biaslab.prompts.edits.base import constant

_SOURCE = "Koo et al. 2023, CoBBLEr, §3 (compassion fade); Ye et al. 2024, Justice or Prejudice? (CALM), Table 1"

known = constant("model_known", "by GPT-4", "Name a well-known strong model as the author.", _SOURCE)
small = constant("model_small", "by Vicuna-7B", "Name a small, older model as the author.", _SOURCE)
anonymous = constant("model_anonymous", "by an anonymous model", "Say that a model is not named.", _SOURCE)
