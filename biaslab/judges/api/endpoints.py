"""The servers behind one judge: addresses, keys, load, and which one takes a request.

The number grows by one per reply until the server shows that it is overloaded, then by one per round trip, and is
halved if the server says so or no longer answers in time: additive increase, multiplicative decrease (Chiu and Jain
1989), with TCP's slow start (Jacobson 1988). If half as many more requests in flight do not increase throughput,
measured by Little's law as the number in flight over the latency, it returns to its earlier value.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from urllib.parse import unquote, urlsplit

from biaslab.core.errors import InputError, ServerError
from biaslab.core.requests import Request
from biaslab.core.secrets import HIDDEN, mask, require_public_path
from biaslab.judges.api.exact_labels import ExactLabels
from biaslab.judges.api.faults import Fault

_FIRST_REST, _LONGEST_REST = 1.0, 60.0  # seconds for which an unreachable endpoint is skipped


_LONG_ID, _REMEMBERED, _REPEATED = 16, 1024, 3
#: Times as ids, which requests may share: "chatcmpl-1764257400", seconds to microseconds, and those of ISO 8601.
_TIME = re.compile(
    r"(?:[\w-]*[_-])?(?:\d{1,15}|\d{4}-?\d\d-?\d\d[T _-]?\d\d:?\d\d:?\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)"
)


class Endpoint:
    """One server: its address and key, the requests in flight there, and its state.

    Parameters
    ----------
    address : Address
        Its address.
    key : ApiKey
        Its API key.
    exact : ExactLabels
        Whether, and how, it returns exact label probabilities.
    most : int
        Maximum number of requests in flight.

    Attributes
    ----------
    in_flight : int
        Number of requests in flight.
    is_reached : bool
        Whether it has ever responded.
    out_until : float
        Skipped before this time of the event loop's clock.
    serves : str or None
        What it reports to serve under the judge's model name; None while unknown.
    measures : bool or None
        Whether it returns measured log-probabilities, so that only 0 and -9999 mean a sure answer; None while unknown.
    measuring : asyncio.Task or None
        The request that finds this out, for which others wait.
    """

    def __init__(self, address: Address, key: ApiKey, exact: ExactLabels, most: int) -> None:
        self.address, self.key, self.exact, self.pace = address, key, exact, Pace(most)
        self.in_flight, self.is_reached, self.is_asked = 0, False, False
        self.out_until, self._rest = 0.0, _FIRST_REST
        self.serves: str | None = None
        self.measures: bool | None = None
        self.measuring: asyncio.Task[bool] | None = None
        self._asked_for: dict[str, int] = {}  # by the id of a response, the request that it answered
        self._repeated, self._has_ids = Counter[str](), True

    def is_repeated(self, name: object, content: bytes) -> bool:
        """Return whether the id of a response is that of the one to another request, unless it is short or a time.

        A server that sends an id of another request three times has ids that are not those of requests, and is
        believed from then on. A cache may answer a request with the response to an earlier, equal one.
        """
        if not self._has_ids or not isinstance(name, str) or len(name) < _LONG_ID or _TIME.fullmatch(name):
            return False
        if name not in self._asked_for and len(self._asked_for) >= _REMEMBERED:
            del self._asked_for[next(iter(self._asked_for))]
        if self._asked_for.setdefault(name, asked := hash(content)) == asked:
            return False
        self._repeated[name] += 1
        self._has_ids = self._repeated[name] < _REPEATED
        return self._has_ids

    @property
    def url(self) -> str:
        """The address, without credentials."""
        return self.address.url

    @property
    def room(self) -> int:
        """Number of further requests that it can take now."""
        return int(self.pace.limit) - self.in_flight

    def replied(self, sent: float, now: float) -> None:
        """Count a reply."""
        self.pace.replied(sent, now)
        self.out_until, self._rest = 0.0, _FIRST_REST

    def leave_out(self, now: float) -> None:
        """Skip it for a while, twice as long each time; then one request tests whether it is back."""
        if now < self.out_until:  # a fault of a request sent earlier
            return
        self.out_until, self._rest = now + self._rest, min(2 * self._rest, _LONGEST_REST)
        self.pace = Pace(self.pace.most)


class Endpoints:
    """The servers behind one judge, as one `biaslab.judges.api.endpoints.Pace`.

    Parameters
    ----------
    members : sequence of Endpoint
        At least one.

    Notes
    -----
    A request goes to the endpoint with the fewest requests in flight among those with room, and after a fault to a
    different one. Each has its own pace. An unreachable one is skipped for 1 s, 2 s, …, 60 s as long as another is
    reachable; its requests are sent elsewhere at once, without counting as attempts.
    """

    def __init__(self, members: Sequence[Endpoint]) -> None:
        self.members = tuple(members)

    @property
    def most(self) -> int:
        """Maximum number of requests in flight, over all endpoints."""
        return sum(each.pace.most for each in self.members)

    def until(self, now: float) -> float:
        """Return the time before which no endpoint may be used."""
        return min(each.pace.until for each in self._living(now))

    def limit(self, now: float) -> int:
        """Return the number of requests that may be in flight now."""
        return sum(int(each.pace.limit) for each in self._living(now) if each.pace.until <= now)

    def choose(self, now: float, avoided: Endpoint | None = None) -> Endpoint:
        """Return the endpoint for the next request, and count the request as in flight there.

        Parameters
        ----------
        now : float
            Current time of the event loop's clock.
        avoided : Endpoint, optional
            The endpoint at which the request failed; used again only if no other is reachable.
        """
        living = self._living(now)
        free = [each for each in living if each.pace.until <= now] or living
        others = [each for each in free if each is not avoided] or free
        chosen = min([each for each in others if each.room > 0] or others, key=lambda each: each.in_flight)
        chosen.in_flight += 1
        return chosen

    def failed(self, endpoint: Endpoint, fault: Fault, sent: float, now: float) -> bool:
        """Record a fault; return whether the request can be sent elsewhere because the endpoint is down."""
        is_hang = fault.status is None and not fault.unreached and endpoint.pace.was_overtaken(sent, now)
        if fault.busy and not is_hang:
            endpoint.pace.refused(sent, now, fault.wait)
        if not fault.unreached:
            return False
        endpoint.leave_out(now)
        fault.unreached = not any(each.is_reached for each in self.members)
        return any(now >= each.out_until for each in self.members)

    def note_models(self, endpoint: Endpoint, document: object, model: str, request: Request) -> None:
        """Record the model that an endpoint serves.

        Parameters
        ----------
        endpoint : Endpoint
            The endpoint that was queried.
        document : object
            Its list of models; anything else is ignored.
        model : str
            The judge's model.
        request : Request
            The request, for the message.

        Raises
        ------
        ServerError
            If it does not have the model, or another endpoint serves a different one by that name.
        """
        endpoint.is_asked, models = True, _models(document)
        if models and model not in models:
            has = ", ".join(sorted(models))
            words = f"{endpoint.url} serves {has}, not {model}; use only servers that serve the model"
            raise ServerError(words, request)
        endpoint.serves = models.get(model)
        for one, other in combinations([each for each in self.members if each.serves], 2):
            if one.serves != other.serves:
                words = f"{model} is {one.serves} at {one.url} and {other.serves} at {other.url}"
                raise ServerError(f"{words}; use only servers that serve the same model", request)

    def _living(self, now: float) -> Sequence[Endpoint]:
        return [each for each in self.members if now >= each.out_until] or self.members


def addresses_of(base_url: str | Sequence[str] | None) -> list[Address]:
    """Return the addresses in a comma-separated string or a list.

    Raises
    ------
    InputError
        If an address is empty, repeated or not that of a server.

    Examples
    --------
    >>> [address.shown for address in addresses_of("http://a:8000/v1,http://b:8000/v1")]
    ['a:8000/v1', 'b:8000/v1']
    """
    if base_url is None:
        return [Address.of(None)]
    named = base_url.split(",") if isinstance(base_url, str) else list(base_url)
    urls = [_of_environment(url.strip()) if isinstance(url, str) else url for url in named]
    empty = [at for at, url in enumerate(urls, 1) if not isinstance(url, str) or not url.strip()]
    if empty or not urls:
        name = f"base_url, address {empty[0]} of {len(urls)}," if len(urls) > 1 else "base_url"
        allowed = "http(s)://host[:port]/path, several separated by commas"
        raise InputError(name, "", allowed, "remove empty addresses")
    addresses = [Address.of(url.strip()) for url in urls]
    for one, other in combinations(addresses, 2):
        if one.url == other.url:
            raise InputError("base_url", one.url, "different addresses", "list each server once")
    return addresses


def _of_environment(url: str) -> str:
    """Return the address in an environment variable, if its name is given; everything else unchanged."""
    if not _CONSTANT.fullmatch(url):
        return url
    if address := os.environ.get(url, "").strip():
        return address
    raise InputError("base_url", url, "an address, or the name of an environment variable that holds one", "set it")


def _models(document: object) -> Mapping[str, str]:
    """Return the names in a list of models, each with the last component of the path loaded under it."""
    rows = document.get("data") if isinstance(document, dict) else None
    named = [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)] if rows else []
    return {row["id"]: str(row.get("root") or row["id"]).rstrip("/").rpartition("/")[2] for row in named}


OPENAI = "https://api.openai.com/v1"
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Address:
    """The address of a server.

    Parameters
    ----------
    url : str
        The address to send to, without credentials.
    shown : str
        The address to display, also part of the judge's id: host, port and path.
    login : str or None
        ``Authorization`` header from credentials in the address.
    secrets : tuple of str
        Parts that must never be displayed.
    """

    url: str
    shown: str
    login: str | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, base_url: str | None) -> Address:
        """Parse an address.

        Raises
        ------
        InputError
            If it is not the address of a server; credentials in it are masked.
        """
        try:
            parts = urlsplit(base_url or OPENAI)
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            raise InputError("base_url", HIDDEN, "http(s)://host[:port]/path") from None
        require_public_path(parts.path)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            shown = f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
            remedy = "remove the part after ? or #" if parts.query or parts.fragment else "use http://host:port/v1"
            raise InputError("base_url", shown, "a URL that starts with http:// or https://", remedy)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        shown = f"{host}{port}{parts.path.rstrip('/')}"
        url = f"{parts.scheme}://{shown}"
        if parts.username is None:
            return cls(url, shown)
        name, password = unquote(parts.username), unquote(parts.password or "")
        if len(password or name) < 4:
            raise InputError("base_url", HIDDEN, "a password of 4 characters or more, which can be masked in replies")
        login = base64.b64encode(f"{name}:{password}".encode()).decode()
        return cls(url, shown, f"Basic {login}", (login, password or name))


class ApiKey:
    """An API key from the environment or a callable; it has no repr, and can remove itself from text.

    Parameters
    ----------
    source : str, callable or None
        Name of an environment variable, or a function that returns the key. None: ``OPENAI_API_KEY`` for OpenAI
        itself, ``BIASLAB_API_KEY``, if set, for any other server, so that no key is sent to the wrong server.
    address : Address
        The server that the key is for.

    Raises
    ------
    InputError
        If the source is neither, for example the key itself, which is not displayed.
    """

    def __init__(self, source: str | Callable[[], str] | None, address: Address) -> None:
        allowed = "the name of an environment variable, or a function that returns the key"
        remedy = "set the key in the environment; do not write it into code or a notebook"
        if isinstance(source, str):
            is_name = source in os.environ or (source.isupper() and "_" in source)  # anything else may be a key
            if not _VARIABLE.fullmatch(source) or not is_name:
                raise InputError("api_key", HIDDEN, allowed, remedy)
        elif source is not None and not callable(source):
            raise InputError("api_key", HIDDEN, allowed, remedy)
        self._source, self._address = source, address
        self._secrets = set(address.secrets)
        self._header: str | None = address.login

    def __repr__(self) -> str:
        return f"Key({HIDDEN})"

    def __getstate__(self) -> object:
        raise TypeError("an API key cannot be pickled; create the judge in the process that needs it")

    def header(self, refresh: bool = False) -> str | None:
        """Return the ``Authorization`` header, or None if the server needs none; optionally reload the key.

        Raises
        ------
        ServerError
            If the key is missing; the message says where it was looked for.
        """
        if self._header is not None and not refresh:
            return self._header
        key = self._read()
        if key:
            self._secrets.add(key)
            self._header = f"Bearer {key}"
        return self._header

    def can_refresh(self) -> bool:
        """Return whether reloading may give another key."""
        return callable(self._source)

    def _read(self) -> str:
        if callable(self._source):
            try:
                key = self._source()
            except Exception as error:  # its message may contain the key
                raise ServerError(f"the function for the API key failed: {type(error).__name__}") from None
            if not isinstance(key, str) or not key.strip():
                raise ServerError("the function for the API key did not return a string; it must return the key")
            return key.strip()
        official = self._address.url == OPENAI
        name = self._source or ("OPENAI_API_KEY" if official else "BIASLAB_API_KEY")
        key = os.environ.get(name, "").strip()
        if not key and (self._source or official):
            remedy = "set it to the API key, or pass a function as api_key"
            raise ServerError(f"the environment variable {name} is not set; {remedy}")
        return key

    def hide(self, text: str) -> str:
        """Remove the key from a text, in any quoting."""
        return mask(text, frozenset(self._secrets))

    def hide_in(self, body: bytes) -> bytes:
        """Remove the key from a response, in case a server echoes it."""
        text = body.decode("utf-8", "surrogateescape")
        return body if (masked := self.hide(text)) == text else masked.encode("utf-8", "surrogateescape")


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
        self._newest = 0.0  # when the newest request with a reply was sent
        self._rate, self._rate_limit = 0.0, 0.0  # throughput (replies per second) at a smaller limit, and that limit

    def replied(self, sent: float, now: float) -> None:
        """Record a reply and its duration."""
        self._newest = max(self._newest, sent)
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

    def was_overtaken(self, sent: float, now: float) -> bool:
        """Return whether a request without a reply hangs alone: a much later one has been answered."""
        return self._newest - sent > (now - sent) / 2

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
