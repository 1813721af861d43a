"""The server of `biaslab.testing`, which here answers every prompt of a probe in the form that it wants."""

import hashlib
import json
import re

from biaslab.testing import FaultServer


class AnsweringServer(FaultServer):
    """A server that answers in the form that a prompt wants, with what depends on prompt and seed alone."""

    def __init__(self, *options, completions=True, **named):
        super().__init__(*options, **named)
        self.completions = completions

    async def play(self, fault, request, body, text):
        if "prompt" in body and not self.completions:
            fault = "404"
        return await super().play(fault, request, body, text)

    def document(self, body, text):
        document = super().document(body, text)
        if "messages" in body and not (body.get("logprobs") and self.probabilities):
            document["choices"][0]["message"]["content"] = written(text, hashed(f"{text} {body.get('seed')}") % 2)
        return document

    def likeliest(self, text):
        if "Summary A" in text:
            return super().likeliest(text)
        if "number in brackets" in text:
            first = hashed(text) % 3
            return {f"[{first + 1}]": 0.5, f"[{(first + 1) % 3 + 1}]": 0.3, "The": 0.17}
        first = 1 + hashed(text) % 4
        return {str(first): 0.5, str(first + 1): 0.3, "The": 0.17}


def hashed(text):
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


def written(prompt, noise):
    """Answer a prompt in its form (a summary, a place, lines of scores, JSON, a score), moved by noise of 0 or 1."""
    if "Summary A" in prompt:
        return f"Summary {'AB'[(hashed(prompt) % 3 + noise) // 2]}"
    if "number in brackets" in prompt:
        return f"[{1 + (hashed(prompt) + noise) % 3}]"
    most = int((re.findall(r"from 1 \(worst\) to (\d+)", prompt) or ["5"])[-1])
    score = 1 + hashed(prompt) % (most - 1) + noise
    form = prompt.rpartition(":\n")[2]
    if form.startswith("{"):
        return json.dumps({name: score if name == "score" else "It is so." for name in re.findall(r'"(\w+)": ', form)})
    filled = re.sub(r"<(score|number)>", lambda place: str((score + place.start()) % most + 1), form)
    filled = re.sub(r"<[^>]*reasons[^>]*>", "It is so.", filled)
    return filled if filled != form else str(score)
