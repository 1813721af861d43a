"""Send one request once: exact labels where the server can, otherwise its message, with more room for thoughts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from biaslab.core import Choice, Reply, Request, Usage, thinking_of
from biaslab.core.errors import JudgeError, ServerError, UnsupportedRequestError
from biaslab.judges.api import connection, faults
from biaslab.judges.api.endpoints import Endpoint, Endpoints
from biaslab.judges.api.exact_labels import Post
from biaslab.judges.api.reasoning import ThoughtsByBudget
from biaslab.judges.api.refusals import Refusals
from biaslab.judges.api.wire import Wire, check, declined

if TYPE_CHECKING:
    import openai


class Owner(connection.Owner, Protocol):
    """The judge that sends: as for a connection, and the faults it counts."""

    faults: Counter[str]


class Sender:
    """Sends the requests of one judge, and remembers what its server refuses.

    Parameters
    ----------
    wire : Wire
        How requests are written.
    endpoints : Endpoints
        The servers.
    fingerprint : str or None
        Fingerprint or model that every reply must report.

    Attributes
    ----------
    thoughts : ThoughtsByBudget
        Length of thoughts so far.
    refusals : Refusals
        Fields that the server rejects.
    proven : set of type
        Kinds that the server has answered: the first request of a kind is sent alone.
    """

    def __init__(self, wire: Wire, endpoints: Endpoints, fingerprint: str | None) -> None:
        self._wire, self._endpoints, self._fingerprint = wire, endpoints, fingerprint
        self.thoughts, self.refusals = ThoughtsByBudget(wire.thinking_at), Refusals()
        self.proven: set[type] = set()
        self._lacking: dict[tuple[type, bool], str] = {}  # kinds not answered, and why

    def check(self, request: Request) -> None:
        """Raise a `JudgeError` if a request cannot be sent, or its kind was refused before."""
        if _sort_of(request) in self._lacking:
            raise UnsupportedRequestError(self._lacking[_sort_of(request)], request)
        check(self._wire, request)

    async def attempt(self, client: openai.AsyncOpenAI, owner: Owner, request: Request, endpoint: Endpoint) -> Reply:
        """Send once; raise a `Fault` if a retry may help."""
        link = connection.Connection(client, endpoint, owner, request)
        post = partial(self.refusals.send, link)
        try:
            if len(self._endpoints.members) > 1 and not endpoint.is_asked:
                self._endpoints.note_models(endpoint, await link.models(), self._wire.model, request)
            exact = await endpoint.exact.ask(request, post) if isinstance(request, Choice) else None
            reply = await self._generated(request, post) if exact is None else exact
        except faults.Filtered:
            return declined(request, "content_filter")
        except UnsupportedRequestError as error:
            self._lacking[_sort_of(request)] = str(error)
            raise
        except JudgeError:
            raise
        except Exception as error:  # whatever a reply contains, it is just one bad reply
            fault = error if isinstance(error, faults.Fault) else faults.unreadable(error)
            fault.body = fault.body or link.body
            owner.faults[str(fault)] += 1
            raise fault from None
        if self._fingerprint is not None and self._fingerprint not in (reply.model or "").split():
            words = f"the server runs {reply.model or 'an unnamed model'}, not {self._fingerprint}"
            raise ServerError(f"{words}; request that model, or use another fingerprint", request)
        return reply

    async def _generated(self, request: Request, post: Post) -> Reply:
        """Send a request, with a larger thinking budget if the reply was cut off and this is allowed."""
        thoughts = self.thoughts.of(request)
        room, spent = thoughts.room, Usage()
        while True:
            path, body = self._wire.write(request, room)
            reply = thoughts.read(self._wire.read(request, await post(path, body), type(request) in self.proven))
            larger = thoughts.more_room(request, reply, room)
            spent += reply.usage
            if larger is None:
                break
            room = larger
        thoughts.note(request, reply, body.get(self._wire.token_field) or 0, room)
        return self.refusals.mark(request, replace(reply, usage=spent))


def _sort_of(request: Request) -> tuple[type, bool]:
    """Return the kind of a request, and whether it sets a thinking budget."""
    return type(request), thinking_of(request) is not None
