"""Text to (value, status): every output format in one place. Unreadable text gets a status, never a guess.

Examples
--------
>>> from biaslab.core.scales import find_scale
>>> parse_choice("My answer: [[A]]", ("Summary A", "Summary B"))
(0, 'ok')
>>> parse_score("The plot is hard to follow. Score: 2/5", find_scale("1-5"))
(2.0, 'ok')
"""

from biaslab.prompts.parsing.choice import parse_choice
from biaslab.prompts.parsing.scores import parse_score, parse_scores
from biaslab.prompts.parsing.thoughts import split_thought

__all__ = ["parse_choice", "parse_score", "parse_scores", "split_thought"]
