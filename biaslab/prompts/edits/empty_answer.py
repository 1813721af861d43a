"""An empty answer: whatever a judge gives for it, it gives for nothing."""

from biaslab.prompts.edits.base import constant

_SOURCE = "Zhao et al. 2025, One Token to Fool LLM-as-a-Judge, Figure 1 (a blank)"

empty_answer = constant("empty_answer", "", "Leave nothing of the text.", _SOURCE, "text", "lowered")
