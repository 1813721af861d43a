"""Judges that ask a server in several ways, and a run of one of them: KIND ADDRESS STORE COUNT."""

import contextlib
import functools
import http.client
import json
import sys

import biaslab as bl
from biaslab.core import Choice, Completion
from biaslab.judges.api import ApiJudge
from biaslab.judges.repetition import MeanOverThoughts, Sampled


class Thinker(ApiJudge):
    thought_tokens = 8


def made(kind, url):
    api = functools.partial(ApiJudge, base_url=url, max_concurrency=32)
    if kind == "plain":
        return api("judge")
    if kind == "sampled":
        return Sampled(api("judge"), 10)
    if kind == "thoughts":
        return MeanOverThoughts(Thinker("judge", url, max_concurrency=32), 4)
    if kind == "panel":
        return bl.Panel([api("judge"), api("other")])
    if kind == "panel of sampled":
        return bl.Panel([Sampled(api("judge"), 4), Sampled(api("other"), 4)])

    def called(prompt):
        body = json.dumps({"model": "f", "messages": [{"content": prompt}]})
        with contextlib.closing(http.client.HTTPConnection(url.split("/")[2])) as link:
            link.request("POST", "/v1/chat/completions", body)
            return json.loads(link.getresponse().read())["choices"][0]["message"]["content"]

    return bl.FunctionJudge(called, concurrency=32)


def asked(kind, count):
    if kind == "function":
        return [Completion(f"Summary {n}?") for n in range(count)]
    return [Choice(f"Summary A or Summary B? {n}", ("Summary A", "Summary B")) for n in range(count)]


if __name__ == "__main__":
    kind, url, path, count = sys.argv[1:]
    with bl.Store(path) as store:
        for _ in store.wrap(made(kind, url)).ask(asked(kind, int(count))):
            pass
