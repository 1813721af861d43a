"""An OpenAI-compatible server on loopback that plays every fault by a script, and counts what it was asked and paid.

Run as a program it is the server of a benchmark: ``python fault_server.py PORT LATENCY`` in a process of its own.
"""

import asyncio
import contextlib
import hashlib
import json
import math
import sys
import threading
from collections import Counter

from aiohttp import web

FINGERPRINT = "fp_one"
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
# Answers that are no HTTP, sent as they are before the connection is closed.
BROKEN = {
    "status line": b"HTTP/1.1 abc OK\r\n\r\n{}",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "two lengths": _OK + b"Content-Length: 2\r\nContent-Length: 20\r\n\r\n{}",
    "long header": _OK + b"X-Long: " + b"x" * 20_000 + b"\r\nContent-Length: 2\r\n\r\n{}",
    "header without colon": _OK + b"no colon here\r\nContent-Length: 2\r\n\r\n{}",
    "chunk size": _OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "short chunk": _OK + b"Transfer-Encoding: chunked\r\n\r\n20\r\n{}",
    "no gzip": _OK + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
}
# Tokens with probabilities that are no distribution, or hide most of one.
SHOWN = {
    "mass of 2": [("Summary A", 0.99), ("Summary B", 0.98), ("The", 0.03)],
    "mass of 20": [("Summary A", 1.0), *[("Summary B", 0.95)] * 20],
    "a token twice": [("Summary A", 0.4), ("Summary B", 0.2), ("Summary A", 0.4)],
    "one token": [("Summary A", 0.6)],
    "one label alone": [("Summary A", 0.5), ("Summary A ", 0.2)],
}


class FaultServer:
    """Answers chat and plain completions after a script.

    ``script(text, attempt)`` names what happens to the attempt (from 0) at a prompt: "" for a good answer, else one of
    the faults in `play`. ``asked`` counts attempts by prompt, ``paid`` those that made the model work, ``open`` and
    ``most_open`` the requests in flight.
    """

    def __init__(self, script=lambda text, attempt: "", latency=0.0, probabilities=True):
        self.script, self.latency, self.probabilities = script, latency, probabilities
        self.asked, self.paid, self.order, self.bodies, self.headers = Counter(), Counter(), [], [], []
        self.open = self.most_open = 0
        self.loop, self.ready, self.port = None, threading.Event(), 0
        self.tokens = {"A": 0.7, " A": 0.05, "B": 0.2, "The": 0.04}
        self.files, self.batches = {}, {}
        self.extra = lambda text: {}  # headers of a good answer

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self):
        self.thread = threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True)
        self.thread.start()
        assert self.ready.wait(10)
        return self

    def __exit__(self, *raised):
        self.loop.call_soon_threadsafe(self.over.set)
        self.thread.join(10)

    async def serve(self, port=0):
        self.loop, self.over = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=2**30)
        self.add_routes(app.router)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]
        self.ready.set()
        await self.over.wait()
        await runner.cleanup()

    def add_routes(self, router):
        router.add_post("/v1/{kind:chat/completions|completions}", self.answer)
        router.add_post("/v1/files", self.upload)
        router.add_get("/v1/files/{id}/content", self.download)
        router.add_post("/v1/batches", self.batch)
        router.add_get("/v1/batches/{id}", self.batch_status)

    async def answer(self, request):
        body = await request.json()
        text = body["prompt"] if "prompt" in body else "\n".join(m["content"] for m in body["messages"])
        fault = self.script(text, self.asked[text])
        self.asked[text] += 1
        self.order.append(text)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            return await self.play(fault, request, body, text)
        finally:
            self.open -= 1

    async def play(self, fault, request, body, text):
        refused = {
            "429": (429, {"Retry-After": "0"}, "slow down"),
            "429 long": (429, {"Retry-After": "0.4"}, "slow down"),
            "429 plain": (429, {}, "slow down"),
            "429 for years": (429, {"Retry-After": "999999999"}, "slow down"),
            "429 for ever": (429, {"Retry-After": "inf"}, "slow down"),
            "429 nan": (429, {"Retry-After": "nan"}, "slow down"),
            "503": (503, {}, "overloaded"),
            "401": (401, {}, f"Incorrect API key provided: {request.headers.get('Authorization', '')}"),
            "403": (403, {}, "not yours"),
            "404": (404, {}, "The model `judge` does not exist"),
            "400": (400, {}, "no such field"),
            "too long": (400, {}, "This model's maximum context length is 10 tokens"),
            "quota": (429, {}, "You exceeded your current quota, insufficient_quota"),
            "filtered prompt": (400, {}, "blocked by our content management policy"),
            "no logprobs here": (422, {}, "Unexpected fields in the request: {'logprobs'}"),
            "500": (500, {}, "oh"),
        }
        if fault in refused:
            status, headers, message = refused[fault]
            return web.json_response({"error": {"message": message}}, status=status, headers=headers)
        if fault.startswith("redirect"):
            _, status, address = fault.split(" ")
            return web.Response(status=int(status), headers={"Location": address})
        if fault in ("drop", *BROKEN):
            request.transport.write(BROKEN.get(fault, b""))
            request.transport.close()
            return web.Response()
        self.paid[text] += 1
        if fault == "hang":
            await asyncio.sleep(60)
        document = self.document(body, text)
        if fault in ("truncated", "cut"):
            raw = json.dumps(document).encode()
            if fault == "cut":
                return web.Response(body=raw[: len(raw) // 2], content_type="application/json")
            response = web.StreamResponse(headers={"Content-Length": str(len(raw)), "Content-Type": "application/json"})
            await response.prepare(request)
            await response.write(raw[: len(raw) // 2])
            request.transport.close()
            return response
        if fault == "drip":
            response = web.StreamResponse()
            await response.prepare(request)
            with contextlib.suppress(ConnectionError):
                for _ in range(600):
                    await response.write(b" ")
                    await asyncio.sleep(0.02)
            return response
        texts = {"invalid": "{'no json'", "html": "<html>502</html>", "nothing": "", "null": "null", "list": "[]",
                 "deep": "[" * 200_000}  # fmt: skip
        if fault in texts:
            return web.Response(text=texts[fault], content_type="application/json")
        self.spoil(fault, document)
        return web.json_response(document, headers=self.extra(text))

    def spoil(self, fault, document):
        choice = document["choices"][0]
        fields = {
            "empty": {"choices": []},
            "changed": {"system_fingerprint": "fp_two"},
            "usage": {"usage": {"prompt_tokens": 2**63}},
        }
        if fault in fields:
            document |= fields[fault]
        elif fault == "error in 200":
            document.clear()
            document["error"] = {"message": "the engine died"}
        elif fault == "filter":
            choice |= {"finish_reason": "content_filter", "message": {"role": "assistant", "content": None}}
        elif fault == "refusal":
            choice["message"] = {"role": "assistant", "content": None, "refusal": "I will not."}
        elif fault == "no logprobs":
            choice["logprobs"] = None
        elif fault == "bad logprobs":
            choice["logprobs"] = {"content": [{"token": "A", "logprob": "high"}]}
        elif fault == "positive logprobs":
            choice["logprobs"]["content"][0]["top_logprobs"][0]["logprob"] = 3.0
        elif fault == "number":
            choice["message"]["content"] = 4
        elif fault in SHOWN:
            shown = [{"token": token, "logprob": math.log(p)} for token, p in SHOWN[fault]]
            choice["logprobs"] = {"content": [{**shown[0], "top_logprobs": shown}]}
        else:
            assert fault == "", fault

    def document(self, body, text):
        usage = {"prompt_tokens": len(text), "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}}
        common = {"model": body["model"], "system_fingerprint": FINGERPRINT, "usage": usage}
        if "prompt" in body:
            return common | {"choices": [self.likelihoods(body, text)]}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said(text)}}
        if body.get("logprobs") and self.probabilities:
            shown = [{"token": t, "logprob": math.log(p)} for t, p in self.likeliest(text).items()]
            choice["logprobs"] = {"content": [{**shown[0], "top_logprobs": shown}]}
        return common | {"choices": [choice]}

    def likeliest(self, text):
        """The first tokens of an answer; of a comparison of summaries, one that depends on the prompt."""
        if "Summary" not in text:
            return self.tokens
        first = 0.05 + 0.9 * int(hashlib.sha256(text.encode()).hexdigest()[:4], 16) / 2**16
        return {"Summary A": 0.95 * first, "Summary B": 0.95 * (1 - first), "The": 0.03}

    def likelihoods(self, body, text):
        tokens = text.replace(" ", "\0 ").split("\0")
        levels = [None] + [-float(len(token)) for token in tokens[1:]]
        if not self.probabilities:
            return {"text": "x", "logprobs": None}
        if "prompt_logprobs" in body:
            found = [None] + [
                {"7": {"logprob": p, "decoded_token": t}} for t, p in list(zip(tokens, levels, strict=True))[1:]
            ]
            return {"text": "x", "prompt_logprobs": found}
        return {"text": text, "logprobs": {"tokens": tokens, "token_logprobs": levels}}

    async def upload(self, request):
        form = await request.post()
        name = f"file-{len(self.files)}"
        self.files[name] = form["file"].file.read().decode()
        return web.json_response({"id": name, "object": "file", "purpose": "batch", "filename": "x", "bytes": 1,
                                  "created_at": 0, "status": "processed"})  # fmt: skip

    async def download(self, request):
        return web.Response(text=self.files[request.match_info["id"]])

    async def batch(self, request):
        body = await request.json()
        name = f"batch-{len(self.batches)}"
        lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
        results = [self.result(line) for line in lines]
        self.files[f"out-{name}"] = "\n".join(map(json.dumps, results))
        self.batches[name] = {
            "id": name, "object": "batch", "endpoint": body["endpoint"], "input_file_id": body["input_file_id"],
            "completion_window": "24h", "created_at": 0, "status": "completed", "output_file_id": f"out-{name}",
            "request_counts": {"total": len(lines), "completed": len(lines), "failed": 0},
        }  # fmt: skip
        return web.json_response(self.batches[name])

    def result(self, line):
        body = line["body"]
        text = "\n".join(m["content"] for m in body["messages"])
        self.paid[text] += 1
        response = {"status_code": 200, "request_id": "r", "body": self.document(body, text)}
        return {"id": f"r-{line['custom_id'][:8]}", "custom_id": line["custom_id"], "response": response, "error": None}

    async def batch_status(self, request):
        return web.json_response(self.batches[request.match_info["id"]])


def said(text):
    """What the server answers to a prompt: the same every time."""
    return "Summary A" if "Summary" in text else f"answer {hashlib.sha256(text.encode()).hexdigest()[:12]}"


if __name__ == "__main__":
    server = FaultServer(latency=float(sys.argv[2]))
    server.asked, server.paid = Counter(), Counter()
    asyncio.run(server.serve(int(sys.argv[1])))
