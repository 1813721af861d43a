"""Control the number of requests in flight, up to what the server can handle.

The number grows by one per reply until the server shows that it is overloaded, then by one per round trip, and is
halved if the server says so or no longer answers in time: additive increase, multiplicative decrease (Chiu and Jain
1989), with TCP's slow start (Jacobson 1988). If half as many more requests in flight do not increase throughput,
measured by Little's law as the number in flight over the latency, it returns to its earlier value.
"""

from __future__ import annotations

_FIRST_STEP = 32
_STEP, _GAIN = 1.5, 1.1  # 1.5 times the requests in flight must raise throughput at least 1.1 times


class Pace:
    """The number of requests that may be in flight, and the moment until which none is sent.

    Parameters
    ----------
    most : int
        Upper limit.

    Attributes
    ----------
    limit : float
        Number of requests that may be in flight; 1 until the first reply.
    until : float
        Nothing is sent before this time of the event loop's clock.

    Examples
    --------
    >>> pace = Pace(64)
    >>> pace.replied(sent=0.0, now=0.2)
    >>> pace.limit
    32.0
    >>> pace.refused(sent=0.1, now=0.3, wait=2.0)
    >>> pace.limit, pace.until
    (16.0, 2.3)
    """

    def __init__(self, most: int) -> None:
        self.most, self.limit, self.until = most, 1.0, 0.0
        self._doubling, self._first = True, True
        self._changed = 0.0  # when the limit was last cut: earlier requests say nothing about the new limit
        self._count, self._seconds, self._began, self._begin_limit = 0, 0.0, 0.0, 1.0
        self._rate, self._rate_limit = 0.0, 0.0  # throughput (replies per second) at a smaller limit, and that limit

    def replied(self, sent: float, now: float) -> None:
        """Record a reply and its duration."""
        if self._first:
            self._first, self.limit = False, float(min(_FIRST_STEP, self.most))
            self._restart(now)
            return
        if self.limit < self.most:
            self.limit = min(self.limit + (1 if self._doubling else 1 / self.limit), float(self.most))
        if sent >= self._began:
            self._count, self._seconds = self._count + 1, self._seconds + now - sent
        if self._count >= max(self.limit, 8):
            self._judge(now)

    def refused(self, sent: float, now: float, wait: float | None = None) -> None:
        """Slow down because the server is overloaded; wait as long as it asks."""
        if wait is not None:
            self.until = max(self.until, now + wait)
        if sent >= self._changed:
            self._cut(self.limit / 2, now)

    def pause(self, now: float, wait: float) -> None:
        """Pause for a number of seconds because a rate limit is exhausted."""
        self.until = max(self.until, now + wait)

    def _judge(self, now: float) -> None:
        """Compare the throughput of a round with that of an earlier one, when clearly fewer were in flight."""
        rate = (self._begin_limit + self.limit) / 2 * self._count / max(self._seconds, 1e-9)
        before, limit = self._rate, self._begin_limit
        if before and limit >= _STEP * self._rate_limit and rate < _GAIN * before:
            self._cut(self._rate_limit, now)
            return
        if not before or not self._rate_limit <= limit < _STEP * self._rate_limit:
            self._rate, self._rate_limit = rate, limit
        self._restart(now)

    def _cut(self, limit: float, now: float) -> None:
        self.limit = max(1.0, limit)
        self._doubling, self._changed, self._rate = False, now, 0.0
        self._restart(now)

    def _restart(self, now: float) -> None:
        self._count, self._seconds, self._began, self._begin_limit = 0, 0.0, now, self.limit
