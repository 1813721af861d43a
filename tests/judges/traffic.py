"""Real requests and answers: a server between a judge and a server that writes them down, and one that repeats them."""

import json
from collections import Counter, defaultdict

import aiohttp
from aiohttp import web

from biaslab.testing import FaultServer


class Passing(FaultServer):
    """A server that takes every path; ``seen`` are paths and bodies in the order in which they came."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def add_routes(self, router):
        router.add_route("*", "/{path:.*}", self.passed)

    async def passed(self, request):
        text = await request.text()
        body = json.loads(text) if text else None
        self.seen.append((request.path, body))
        status, answer = await self.answered(request.method, request.path, body)
        return web.json_response(answer, status=status)

    def paths(self):
        return Counter(path for path, _ in self.seen)


class Recorder(Passing):
    """Hands requests on to a real server, and keeps what came."""

    def __init__(self, upstream):
        super().__init__()
        self.upstream, self.kept = upstream.removesuffix("/v1"), []

    async def answered(self, method, path, body):
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.upstream + path, json=body) as found,
        ):
            answer = await found.json(content_type=None)
            status = found.status
        self.kept.append({"path": path, "body": body, "status": status, "answer": answer})
        return status, answer


class Replay(Passing):
    """Answers a request as the real server did; another request than was recorded is a 599.

    ``change(path, body, answer)`` may return another answer.
    """

    def __init__(self, kept, change=lambda path, body, answer: answer):
        super().__init__()
        self.change, self.known = change, defaultdict(list)
        for each in kept:
            self.known[self.key(each["path"], each["body"])].append((each["status"], each["answer"]))

    @staticmethod
    def key(path, body):
        return path, json.dumps(body, sort_keys=True)

    async def answered(self, method, path, body):
        found = self.known[self.key(path, body)]
        if not found:
            return 599, {"error": {"message": f"not recorded: {path}"}}
        status, answer = found.pop(0) if len(found) > 1 else found[0]
        return status, self.change(path, body, json.loads(json.dumps(answer)))
