"""The Ray cluster that replicas run on: that of ``RAY_ADDRESS``, or a local one of this process."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.core.errors import BiaslabError, JudgeError, UnreachableError

if TYPE_CHECKING:
    import psutil

#: What to do if replicas or their cluster are lost.
AGAIN = "run again; replies are stored if a store was given; see Ray's logs for the cause"
_REACH = 5.0  # seconds in which a cluster must accept a connection
_STARTS = 4  # attempts to start a cluster; its first node gives its agent 15 seconds, which a busy machine may exceed
_SETTINGS = b"\4"  # first frame of an HTTP/2 connection, in both directions (RFC 9113, 3.4)
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + _SETTINGS + bytes(5)
_QUIET = {"log_to_driver": False, "logging_level": logging.ERROR}
_OWN = {"RAY_USAGE_STATS_ENABLED": "0"}  # our own cluster sends no usage statistics
_started = {"node": ""}  # identifies the cluster that this process started
_users: weakref.WeakSet[Any] = weakref.WeakSet()


def join(user: object) -> None:
    """Join a cluster, unless this process already belongs to one.

    Parameters
    ----------
    user : object
        The object that uses it, until `leave`.

    Raises
    ------
    UnreachableError
        If no cluster responds at ``RAY_ADDRESS`` within seconds.
    JudgeError
        If a local one cannot be started.
    """
    import ray

    address = os.environ.get("RAY_ADDRESS", "")
    if not ray.is_initialized():
        if address in ("", "local"):
            _start()
            _started["node"] = _node()
        else:
            _connect(address)
    _users.add(user)


def leave(user: object) -> None:
    """Stop the cluster if this process started it and nothing else uses it."""
    import ray

    _users.discard(user)
    if not _users and is_ours():
        ray.shutdown()


def is_ours() -> bool:
    """Return whether this process started the cluster that it belongs to."""
    import ray

    return ray.is_initialized() and _started["node"] == _node()


def _node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def total(resource: str) -> float:
    """Return the cluster's total of a resource, ``"CPU"`` or ``"GPU"``."""
    import ray

    return float(ray.cluster_resources().get(resource, 0))


def outcomes(references: Sequence[Any], seconds: float) -> list[Any]:
    """Return, in order, the results of the calls that finish in time.

    Raises
    ------
    Exception
        Whatever a call raised, unchanged.
    """
    import ray

    done, _ = ray.wait(list(references), num_returns=len(references), timeout=seconds)
    with as_raised():
        return [ray.get(each) for each in references if each in done]


@contextmanager
def as_raised() -> Iterator[None]:
    """Raise errors of a replica without Ray's wrapper, and Ray's own errors as a `JudgeError`."""
    import ray

    try:
        yield
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise cause from (None if isinstance(cause, BiaslabError) else error)
    except ray.exceptions.RayError as error:
        words = str(error).strip().partition("\n")[0]
        raise JudgeError(f"Ray lost a replica ({words.rstrip('.')}); {AGAIN}") from error


def _start() -> None:
    """Start a local cluster without a dashboard."""
    import psutil
    import ray

    busy = "a busy machine may exceed Ray's time limit; run again"
    refused = _refused(lambda why: JudgeError(f"no Ray cluster could be started on this machine ({why}); {busy}"))
    with _environment(_OWN), refused, _own_signals():
        for left in reversed(range(_STARTS)):
            before = set(psutil.Process().children(recursive=True))
            try:
                ray.init(address="local", include_dashboard=False, **_QUIET)
                return
            except (ValueError, TypeError):  # of a setting
                raise
            except Exception:
                if not left:
                    raise
                ray.shutdown()
                _end(set(psutil.Process().children(recursive=True)) - before)


def _end(processes: Iterable[psutil.Process]) -> None:
    """End those of some processes that Ray has started and left running."""
    import psutil
    import ray

    ended, home = [], str(Path(ray.__file__).parent)
    for process in processes:
        with suppress(psutil.Error):
            if any(home in part or part.startswith("ray::") for part in process.cmdline()):
                process.kill()
                ended.append(process)
    psutil.wait_procs(ended, timeout=_REACH)


def _connect(address: str) -> None:
    """Join the cluster at an address."""
    import ray

    shared = "if the cluster or this process uses Ray's token authentication, set RAY_AUTH_MODE=token for both"
    remedy = f"start it (ray start --head), correct RAY_ADDRESS, or unset it for a local cluster; {shared}"
    with _refused(lambda why: UnreachableError(f"could not join a Ray cluster at {address} ({why}); {remedy}")):
        host, _, port = address.rpartition("://")[2].rpartition(":")
        if host and port.isdecimal():
            _knock(host.strip("[]"), int(port))
        with _own_signals():
            ray.init(address=address, **_QUIET)


def _knock(host: str, port: int) -> None:
    """Raise an `OSError` unless Ray's gRPC server answers within seconds; Ray itself would try for minutes."""
    with socket.create_connection((host, port), timeout=_REACH) as line, line.makefile("rb") as answers:
        if os.environ.get("RAY_USE_TLS", "0") == "0":
            line.sendall(_PREFACE)
            if answers.read(9)[3:4] != _SETTINGS:
                raise ConnectionError("what listens there is not Ray")


@contextmanager
def _refused(explain: Callable[[str], JudgeError]) -> Iterator[None]:
    """Raise Ray's errors as the one returned by `explain`, which gets the first line of the message."""
    try:
        yield
    except Exception as error:  # Ray also raises plain exceptions
        raise explain(str(error).strip().partition("\n")[0] or type(error).__name__) from error


@contextmanager
def _own_signals() -> Iterator[None]:
    """Preserve the SIGTERM handler: Ray would end the process at once, losing replies in flight."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Set environment variables, unless already set, within this context."""
    added = {name: value for name, value in settings.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
