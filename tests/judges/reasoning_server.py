"""The answering server of `answering_server.py` as a model that thinks first: about 300 tokens, no text below them."""

import json
import runpy
from pathlib import Path

from aiohttp import web

ANSWERING = runpy.run_path(str(Path(__file__).with_name("answering_server.py")))
AnsweringServer, hashed = ANSWERING["AnsweringServer"], ANSWERING["hashed"]
THOUGHT = "Summary A may be better, or rather Summary B: [[A]], [[B]], Score: 1, score: 5, 3 out of 5. "


class ReasoningServer(AnsweringServer):
    """A server that thinks before it answers.

    ``where`` says where the thought stands: in a field ("reasoning_content", "reasoning"), in "tags", or "inside",
    where the prompt opens the tag. ``refuses`` names what is refused: temperature (but 1), logprobs, seed, stop,
    system, max_tokens.
    """

    def __init__(
        self, where="reasoning_content", thought=300, refuses=("temperature", "logprobs"), counts=True, **options
    ):
        super().__init__(completions=False, **options)
        self.where, self.thought, self.refuses, self.counts = where, thought, refuses, counts

    async def play(self, fault, request, body, text):
        words = self.refusal(body)
        if not fault and words:
            return web.json_response({"error": {"message": words, "type": "invalid_request_error"}}, status=400)
        return await super().play(fault, request, body, text)

    def refusal(self, body):
        """The words of OpenAI's servers, and of a chat template without a role."""
        if "temperature" in self.refuses and body.get("temperature", 1) != 1:
            return (
                "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "
                "supported."
            )
        if "logprobs" in self.refuses and "logprobs" in body:
            return "Unsupported parameter: 'logprobs' is not supported with this model."
        if "seed" in self.refuses and "seed" in body:
            return "Unknown parameter: 'seed'."
        if "stop" in self.refuses and "stop" in body:
            return "Unsupported parameter: 'stop' is not supported with this model."
        if "system" in self.refuses and any(each["role"] == "system" for each in body.get("messages", ())):
            return "System role not supported"
        if "max_tokens" in self.refuses and "max_tokens" in body:
            return "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
        return ""

    def document(self, body, text):
        document = super().document(body, text)
        limit = next((body[name] for name in ("max_tokens", "max_completion_tokens") if name in body), 10**6)
        choice = document["choices"][0]
        choice.pop("logprobs", None)
        answer, needed = choice["message"]["content"], self.thought + hashed(text) % 50
        thought = (THOUGHT * (needed // 10 + 1))[: 4 * min(needed, limit)]
        length = -(-len(answer) // 4) + 1
        whole = needed + length <= limit
        choice["finish_reason"] = "stop" if whole else "length"
        said = answer if whole else answer[: max(0, 4 * (limit - needed))] if limit > needed else ""
        choice["message"] = self.message(thought, said, limit > needed)
        written = min(needed + length, limit)
        usage = {"prompt_tokens": len(text) // 4, "completion_tokens": written}
        if self.counts:
            usage["completion_tokens_details"] = {"reasoning_tokens": min(needed, limit)}
        document["usage"] = usage
        return document

    def message(self, thought, said, closed):
        message = {"role": "assistant"}
        if self.where in ("tags", "inside"):
            opens = "<think>\n" if self.where == "tags" else ""
            return message | {"content": f"{opens}{thought}" + (f"\n</think>\n\n{said}" if closed else "")}
        return message | {"content": said or None, self.where: thought}


def bodies_of(server):
    """The bodies of chat completions that a server got."""
    return [json.loads(json.dumps(body)) for body in server.bodies if "messages" in body]
