"""Define the basic types: requests, replies, trials, and the protocols of judges and probes.

Examples
--------
>>> from biaslab.core import Choice, request_key
>>> request = Choice("Which is better, A or B?", labels=("A", "B"))
>>> request.messages
(Message(role='user', content='Which is better, A or B?'),)
>>> request_key(request, judge_id="some judge")[:12]
'af4ca9f8ceea'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
