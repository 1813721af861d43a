"""Text to (value, status): every output format in one place. Unreadable text gets a status, never a guess.

Examples
--------
>>> from biaslab.core.scales import find_scale
>>> parse_choice("My answer: [[A]]", ("Summary A", "Summary B"))
(0, 'ok')
>>> parse_score("The plot is hard to follow. Score: 2/5", find_scale("1-5"))
(2.0, 'ok')
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
