"""A server that sends one response too many on a connection that stays open."""

import asyncio
import itertools
import json
import threading


class SurplusServer:
    """Answers every prompt with itself, and sends a surplus response after every fourth one.

    Parameters
    ----------
    delay : float
        Seconds between a response and the surplus one.
    surplus : callable
        Takes a response and its number, and returns the surplus bytes.
    latency : float
        Seconds before each answer.
    """

    def __init__(self, delay=0.0, surplus=lambda response, number: response, latency=0.02):
        self.delay, self.surplus, self.latency = delay, surplus, latency
        self.sent, self.connections, self._numbers = 0, 0, itertools.count(1)

    def __enter__(self):
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    async def _serve(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        await self._over.wait()
        server.close()

    async def _talk(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split()[0])
                prompt = json.loads(await reader.readexactly(length))["messages"][-1]["content"]
                number = next(self._numbers)
                named = head.partition(b"x-request-id: ")[2].partition(b"\r\n")[0]
                await asyncio.sleep(self.latency)
                writer.write(response := response_of(f"said {prompt}", f"chatcmpl-{number:032}"))
                if number % 4 == 0:
                    self.sent += 1
                    if self.delay:
                        await asyncio.sleep(self.delay)
                    writer.write(self.surplus(response, number).replace(b"NAMED", named))
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()


def response_of(text, name):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = json.dumps({"id": name, "model": "m", "choices": [choice]}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def other_answer(response, number):
    """Return a response that nobody asked for, with an id of its own."""
    return response_of("said something else", f"chatcmpl-surplus-{number:032}")


def late_answer(response, number):
    """Return the same with the name of the request, which a proxy repeats."""
    return other_answer(response, number).replace(b"Content-Type", b"X-Request-Id: NAMED\r\nContent-Type")


def answer_of_vllm(response, number):
    """Return a response whose id has the name of the request."""
    return response_of("said something else", "chatcmpl-" + "0" * 40).replace(b"0" * 40, b"NAMED")
