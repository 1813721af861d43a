"""Start a server with faults: ``python -m biaslab.testing --fault "mass of 2" --every 4``."""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import zlib

from biaslab.core.errors import BiaslabError
from biaslab.testing import FAULTS, FaultServer


def main(arguments: list[str] | None = None) -> int:
    """Serve until it is interrupted; with ``--list`` print the kinds of faults instead."""
    parser = argparse.ArgumentParser("python -m biaslab.testing", description=__doc__)
    parser.add_argument("--port", type=int, default=8765, help="where to listen on 127.0.0.1; 0 takes any free port")
    parser.add_argument("--fault", default="", help="a name of --list; none for good answers alone")
    parser.add_argument("--every", type=int, default=1, help="play it to one in N prompts, chosen by their text")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--list", action="store_true", help="print the kinds of faults and what biaslab makes of them")
    options = parser.parse_args(arguments)
    say = sys.stdout.write
    if options.list:
        for name, kind in FAULTS.items():
            say(f"{name:22} {kind.about}; text: {kind.text}; distribution: {kind.distribution}\n")
        return 0
    try:
        server = FaultServer(options.fault, options.latency, port=options.port)
        always, every = server.script, max(options.every, 1)
        server.script = lambda text, attempt: "" if zlib.crc32(text.encode()) % every else always(text, attempt)
        with server, contextlib.suppress(KeyboardInterrupt):
            say(f"{server.url}\n")
            sys.stdout.flush()
            threading.Event().wait()
    except BiaslabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
