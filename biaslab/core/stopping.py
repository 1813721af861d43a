"""End a run on a signal without losing paid replies: start nothing new, store what arrives, then end.

Ctrl-C (SIGINT), pre-emption (SIGTERM) and a closed terminal (SIGHUP) are handled alike if requests are in flight: the
run waits ``BIASLAB_GRACE`` seconds for their replies (25 by default, less than the 30 after which clusters kill a
process). A second signal ends it at once, unless it follows within a second: programs such as ``uv run`` pass on the
Ctrl-C that the terminal has already sent.
"""

from __future__ import annotations

import builtins
import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from biaslab.core.checks import read
from biaslab.core.errors import InputError

#: Environment variable: grace period after a signal, in seconds.
GRACE = "BIASLAB_GRACE"
_SECONDS = 25.0
_REPEATED = 1.0  # seconds within which a further signal is the same one
#: Signals that are handled, unless the caller has set a handler of its own.
_DEFAULTS: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    **({signal.SIGHUP: signal.SIG_DFL} if hasattr(signal, "SIGHUP") else {}),
}


class Stopped(SystemExit):
    """The process received SIGTERM or SIGHUP; its exit code is 128 plus the signal number."""


class StoppableRun:
    """A run with requests in flight; made by `handling_signals`.

    Attributes
    ----------
    is_inside : bool
        Whether the run's own code is executing: then it raises and cleans up itself. Otherwise (a suspended generator,
        which its caller may never resume) the handler lets go for it.
    """

    def __init__(self, let_go: Callable[[], None]) -> None:
        self.let_go, self.is_inside = let_go, True


class _SignalHandling:
    """Runs of this process that handle signals, and the signal received."""

    def __init__(self) -> None:
        self.runs: list[StoppableRun] = []
        self.before: dict[int, Any] = {}
        self.received: int | None = None
        self.deadline = self.since = math.inf
        self.draining = self.dropped = 0
        self.waits = False

    def handle(self, number: int, _: FrameType | None) -> None:
        """Stop and raise; on the second signal end at once."""
        if self.received is not None:
            if time.monotonic() - self.since < _REPEATED:
                return
            self._end_now(number)
        self.received, self.since = number, time.monotonic()
        self.deadline = self.since + grace()
        if self.draining:  # arriving replies are being stored already
            self.waits = True
            return
        for run in reversed(self.runs):
            if not run.is_inside:
                run.let_go()
        raise _raised(number)

    def _end_now(self, number: int) -> None:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def install(self) -> None:
        """Handle signals that have no other handler."""
        self.dropped = 0
        for number, default in _DEFAULTS.items():
            if signal.getsignal(number) == default:
                self.before[number] = signal.signal(number, self.handle)

    def forget(self) -> None:
        """Treat the next signal as the first."""
        self.received, self.deadline, self.waits = None, math.inf, False

    def restore(self) -> None:
        """Restore the signal handlers; a notebook's kernel, which ignores `SystemExit`, gets the signal again."""
        for number, handler in self.before.items():
            if signal.getsignal(number) == self.handle:
                signal.signal(number, handler)
        self.before.clear()
        received = self.received
        self.forget()
        if received not in (None, signal.SIGINT) and hasattr(builtins, "__IPYTHON__"):
            os.kill(os.getpid(), received or 0)


_SIGNALS = _SignalHandling()


@contextlib.contextmanager
def handling_signals(let_go: Callable[[], None]) -> Iterator[StoppableRun]:
    """Handle signals within this context; no effect outside the main thread.

    Parameters
    ----------
    let_go : callable
        Starts nothing new and stores arriving replies; may be called several times.
    """
    run = StoppableRun(let_go)
    if threading.current_thread() is not threading.main_thread():
        yield run
        return
    if not _SIGNALS.runs:
        _SIGNALS.install()
    if not _SIGNALS.draining:
        _SIGNALS.forget()  # a signal to an earlier run that is still referenced is not this run's first
    _SIGNALS.runs.append(run)
    try:
        yield run
    except SystemExit as error:
        number = _SIGNALS.received
        if isinstance(error, Stopped) or number is None:
            raise
        raise _raised(number) from error  # while Ray waits, it turns our signal into an exit with status 1
    finally:
        _SIGNALS.runs.remove(run)
        if not _SIGNALS.runs and threading.current_thread() is threading.main_thread():
            _SIGNALS.restore()


@contextlib.contextmanager
def draining() -> Iterator[None]:
    """Defer the first signal until arriving replies are stored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _SIGNALS.draining += 1
    try:
        yield
    finally:
        _SIGNALS.draining -= 1
        if _SIGNALS.waits and not _SIGNALS.draining and _SIGNALS.received is not None:
            _SIGNALS.waits = False
            raise _raised(_SIGNALS.received)


def seconds_left() -> float:
    """Return the remaining grace period after a signal in seconds; infinite without a signal."""
    return max(_SIGNALS.deadline - time.monotonic(), 0.0)


def note_dropped(count: int) -> None:
    """Record requests in flight that a run dropped after a signal, because a second one came or its time was over."""
    if _SIGNALS.received is not None:
        _SIGNALS.dropped += count


def dropped() -> int:
    """Return how many requests in flight the last stopped run dropped."""
    return _SIGNALS.dropped


def grace() -> float:
    """Return the grace period after a signal, in seconds.

    Raises
    ------
    InputError
        If ``BIASLAB_GRACE`` is not a non-negative number.
    """
    setting = os.environ.get(GRACE, "").strip()
    seconds: float = read(GRACE, setting, float) if setting else _SECONDS
    if seconds < 0:
        raise InputError(GRACE, setting, "a number of seconds, such as 25")
    return seconds


def _raised(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else Stopped(128 + number)
