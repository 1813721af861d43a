"""The servers behind one judge: choose one per request, and skip those that do not respond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from biaslab.core import Request
from biaslab.core.errors import InputError, ServerError
from biaslab.judges.api.credentials import Address, Key
from biaslab.judges.api.exact_labels import ExactLabels
from biaslab.judges.api.faults import Fault
from biaslab.judges.api.pace import Pace

_FIRST_REST, _LONGEST_REST = 1.0, 60.0  # seconds for which an unreachable endpoint is skipped


class Endpoint:
    """One server: its address and key, the requests in flight there, and its state.

    Parameters
    ----------
    address : Address
        Its address.
    key : Key
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
    """

    def __init__(self, address: Address, key: Key, exact: ExactLabels, most: int) -> None:
        self.address, self.key, self.exact, self.pace = address, key, exact, Pace(most)
        self.in_flight, self.is_reached, self.is_asked = 0, False, False
        self.out_until, self._rest = 0.0, _FIRST_REST
        self.serves: str | None = None

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
    """The servers behind one judge, as one `biaslab.judges.api.pace.Pace`.

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
        if fault.busy:
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
    urls = base_url.split(",") if isinstance(base_url, str) else list(base_url)
    empty = [at for at, url in enumerate(urls, 1) if not isinstance(url, str) or not url.strip()]
    if empty or not urls:
        value = f"address {empty[0]} of {len(urls)} is empty" if len(urls) > 1 else ""
        allowed = "http(s)://host[:port]/path, several separated by commas"
        raise InputError("base_url", value, allowed, "remove empty addresses")
    addresses = [Address.of(url.strip()) for url in urls]
    for one, other in combinations(addresses, 2):
        if one.url == other.url:
            raise InputError("base_url", one.url, "different addresses", "list each server once")
    return addresses


def _models(document: object) -> Mapping[str, str]:
    """Return the names in a list of models, each with the last component of the path loaded under it."""
    rows = document.get("data") if isinstance(document, dict) else None
    named = [row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)] if rows else []
    return {row["id"]: str(row.get("root") or row["id"]).rstrip("/").rpartition("/")[2] for row in named}
