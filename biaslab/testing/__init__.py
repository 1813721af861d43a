"""A server with faults, for testing a judge or your own client.

Examples
--------
>>> import biaslab as bl
>>> from biaslab.testing import FaultServer
>>> with FaultServer(lambda text, attempt: "" if attempt else "reset") as server:
...     judge = bl.ApiJudge("judge", server.url)
...     [(_, reply)] = judge.ask([bl.Completion("How good is it?")])
...     judge.close()
>>> reply.text, judge.faults.total()
('answer 915cc5c1d480', 1)
"""

from biaslab.testing.fault_server import FaultServer, answer_of
from biaslab.testing.kinds import FAULTS, Kind

__all__ = ["FAULTS", "FaultServer", "Kind", "answer_of"]
