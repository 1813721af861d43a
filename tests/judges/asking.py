"""Judges that ask a server in several ways, and a run of one of them: KIND ADDRESS STORE COUNT."""

import contextlib
import functools
import http.client
import json
import os
import signal
import sys

import biaslab as bl
from biaslab.core import Choice, Completion
from biaslab.judges import ray_judge
from biaslab.judges.api import ApiJudge
from biaslab.judges.repetition import MeanOverThoughts, Sampled


class Thinker(ApiJudge):
    thought_tokens = 8


def plain():
    return ApiJudge("judge", os.environ["JUDGE_URL"], max_concurrency=16)


def thinker():
    return Thinker("judge", os.environ["JUDGE_URL"], max_concurrency=16)


def made(kind, url):
    api = functools.partial(ApiJudge, base_url=url, max_concurrency=32)
    if kind == "plain":
        return api("judge")
    if kind == "sampled":
        return Sampled(api("judge"), 10)
    if kind == "thoughts":
        return MeanOverThoughts(Thinker("judge", url, max_concurrency=32), 4)
    if kind == "replicas sampled":
        return Sampled(ray_judge.RayJudge(plain, 2), 10)
    if kind == "replicas thoughts":
        return MeanOverThoughts(ray_judge.RayJudge(thinker, 2), 4)
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


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    kind, url, path, count = sys.argv[1:]
    ray_judge._SECONDS = 1800.0
    os.environ["JUDGE_URL"] = url
    judge = made(kind, url)
    with bl.Store(path) as store:
        for _ in store.wrap(judge).ask(asked(kind, int(count))):
            pass
