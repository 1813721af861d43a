"""The server of `biaslab.testing` for tests that run this file, and for a benchmark: PORT LATENCY as arguments."""

import sys

from biaslab.testing import FaultServer, answer_of as said
from biaslab.testing.__main__ import main

__all__ = ["FaultServer", "said"]

if __name__ == "__main__":
    main(["--port", sys.argv[1], "--latency", sys.argv[2]])
