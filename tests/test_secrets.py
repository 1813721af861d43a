"""Keys and passwords planted in many places, which no file, error, name or list of processes may show."""

import base64
import contextlib
import html
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path
from urllib.parse import quote, unquote

import nbformat
import pytest
from aiohttp import web

import biaslab as bl
from biaslab.core.errors import BiaslabError, InputError
from biaslab.core.secrets import in_environment, mask, require_none_in_command, require_public_path
from biaslab.figures.regenerate import regenerate
from biaslab.judges.api import Patience
from biaslab.testing import FaultServer

SENTINEL = 'Zq7/x+We"k~9vT2'
SHORT = "Zq7x"
ESCAPED = "".join(f"\\u{ord(sign):04x}" for sign in SENTINEL)
QUOTINGS = {
    "json": json.dumps(SENTINEL)[1:-1],
    "escaped slashes": json.dumps(SENTINEL)[1:-1].replace("/", "\\/"),
    "code points": ESCAPED,
    "json in json": json.dumps(json.dumps(SENTINEL))[1:-1],
    "url": quote(SENTINEL, safe=""),
    "lower-case url": quote(SENTINEL, safe="").replace("%2F", "%2f"),
    "base64": base64.b64encode(f"me:{SENTINEL}".encode()).decode(),
    "html": html.escape(SENTINEL),
}
PATIENCE = Patience(retries=0, minutes=0.01, first_wait=0.001)


class Echoing(FaultServer):
    """A server that repeats a text, as it is, in the JSON of its replies or errors."""

    def __init__(self, raw, status=200):
        super().__init__()
        self.raw, self.status = raw, status

    async def play(self, fault, request, body, text):
        document = self.document(body, text)
        if self.status == 200:
            document["choices"][0]["message"]["content"] = "A good \\n@@"
        else:
            document = {"error": {"message": "bad key @@"}}
        written = json.dumps(document).replace("@@", self.raw)
        return web.Response(text=written, status=self.status, content_type="application/json")


def shown(text):
    """Return a text as it is, and with its quotings removed."""
    plain = text.replace("\\/", "/")
    with contextlib.suppress(UnicodeDecodeError):
        plain += plain.encode("latin-1", "backslashreplace").decode("unicode_escape")
    return text + plain + unquote(plain) + html.unescape(plain)


def left_in(folder, *texts):
    """Return all that a run wrote and said."""
    files = [file.read_bytes().decode("utf-8", "replace") for file in folder.rglob("*") if file.is_file()]
    return shown("\n".join([*files, *texts]))


def asked(judge, folder):
    """Return the texts and errors of a judge that is asked through a store."""
    said = [judge.id, repr(judge)]
    with bl.Store(folder / "store.sqlite") as store:
        try:
            said += [repr(reply) for _, reply in store.wrap(judge).ask([bl.Completion("Say A")])]
        except BiaslabError as error:
            said += traceback.format_exception(error)
    judge.close()
    return said


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("quoting", QUOTINGS)
def test_echoed_key_is_masked_in_every_quoting(quoting, status, tmp_path, monkeypatch):
    monkeypatch.setenv("BIASLAB_API_KEY", SENTINEL)
    with Echoing(QUOTINGS[quoting], status) as server:
        address = server.url
        if quoting == "base64":
            address = address.replace("://", f"://me:{quote(SENTINEL, safe='')}@")
        said = asked(bl.ApiJudge("judge", address, patience=PATIENCE), tmp_path)
    left = left_in(tmp_path, *said)
    assert "***" in left
    assert "k~9vT2" not in left
    assert base64.b64encode(f"me:{SENTINEL}".encode()).decode() not in left


@pytest.mark.parametrize("login", ["me:{}", "{}"])
@pytest.mark.parametrize("secret", [SHORT, "Zq7xW9k"])
def test_short_password_in_address_is_masked(login, secret, tmp_path):
    with Echoing(secret) as server:
        address = server.url.replace("://", f"://{login.format(secret)}@")
        left = left_in(tmp_path, *asked(bl.ApiJudge("judge", address, patience=PATIENCE), tmp_path))
    assert "***" in left
    assert secret not in left


def test_words_of_a_reply_are_not_masked():
    assert mask("Basic understanding; a Zq7xy and a test", frozenset({SHORT, "test", "a"})) == (
        "Basic understanding; a Zq7xy and a test"
    )


@pytest.mark.parametrize(
    "named",
    [
        {"parameters": {"api_key": SHORT}},
        {"parameters": {"extra_headers": {"X-Api-Key": SHORT}}},
        {"parameters": {"extra_headers": {"Authorization": f"Bearer {SHORT}"}}},
        {"parameters": {"extra_body": [{"access_token": SHORT}]}},
        {"parameters": {"callback": f"https://me:{SHORT}@elsewhere"}},
        {"parameters": {"note": f"sk-{SHORT}abcdefgh"}},
        {"prefill": {"password": SHORT}},
        {"base_url": f"http://h/v1?key={SHORT}"},
        {"base_url": f"http://h/v1#{SHORT}"},
        {"base_url": f"http://h/key/{SHORT}/v1"},
        {"base_url": f"http://h/sk-{SHORT}abcdefgh/v1"},
        {"base_url": f"http://h/{SHORT}aB3dE5gH7jK9mN1pQ3sT5/v1"},
        {"base_url": f"http://h/{SHORT}/v1", "variable": "OTHER_API_KEY"},
        {"base_url": f"ftp://me:{SHORT}@h/v1"},
    ],
    ids=str,
)
def test_secret_in_an_argument_is_refused_unseen(named, monkeypatch):
    monkeypatch.setenv(named.pop("variable", "UNUSED"), SHORT)
    with pytest.raises(InputError) as raised:
        bl.ApiJudge("judge", **{"base_url": "http://h/v1", **named})
    assert SHORT not in "".join(traceback.format_exception(raised.value))


def test_address_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("JUDGE_URL", f"http://me:{SHORT}@host:8000/v1")
    monkeypatch.setenv("SECOND_URL", "http://second/v1")
    for name in ("JUDGE_URL", "JUDGE_URL,http://second/v1", "JUDGE_URL,SECOND_URL", "JUDGE_URL?exact=false"):
        assert bl.load_judge(f"api:m@{name}").id.startswith("api:m@host:8000/v1")
    with pytest.raises(InputError, match="OTHER_URL"):
        bl.load_judge("api:m@OTHER_URL")


def test_ordinary_parameters_are_accepted():
    parameters = {
        "max_tokens": 4,
        "prompt_cache_key": "study",
        "eos_token": "</s>",
        "stop_token_ids": [1],
        "top_p": 1.0,
    }
    assert "prompt_cache_key" in bl.ApiJudge("m", "http://h/v1", parameters=parameters).id


def test_names_that_resemble_keys_are_accepted(monkeypatch):
    monkeypatch.setenv("OLLAMA_API_KEY", "ollama")
    require_none_in_command(["hf_datasets/log.jsonl", "local:hf_checkpoints/7b", "sk-learn-results.csv", "me@host.org"])
    for part in ("meta-llama/Meta-Llama-3-8B-Instruct", "Qwen2.5-72B-Instruct-GPTQ-Int4", "auth", "ollama"):
        require_public_path(f"/{part}/v1")
    for path in ("/auth/openai/v1", "/auth/open-webui/v1", "/auth/azure_openai/v1"):
        require_public_path(path)


@pytest.mark.parametrize("unit", ["\\", "u", "It\\u2019s 50% & more. ", "It is clear. "])
def test_megabyte_without_secrets_is_masked_fast(unit):
    text = (unit * 2**20)[: 2**20]
    start = time.thread_time()
    assert mask(text, frozenset({SENTINEL, SHORT})) == text
    assert time.thread_time() - start < 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    "word", [f"api:m@http://me:{SHORT}@127.0.0.1:9/v1", f"api:m@http://h/v1,api_key=sk-{SHORT}abcdefgh"]
)
def test_command_refuses_a_secret_with_the_remedy(word, tmp_path):
    command = [
        sys.executable,
        "-c",
        "import sys, biaslab.cli; sys.exit(biaslab.cli.main())",
        "probe",
        "position",
        "--judge",
        word,
        "--dataset",
        "graded",
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "environment variable" in ran.stderr
    assert SHORT not in left_in(tmp_path, ran.stdout, ran.stderr)


@pytest.mark.slow
def test_password_is_in_no_executed_notebook(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BIASLAB_URL_1", f"http://me:{SHORT}@host:8000/v1")  # what it would set, and keep
    notebook = nbformat.v4.new_notebook()
    cells = ['judge = "x"\nstore = "s.sqlite"\nout = "figures"', "import biaslab as bl\nprint(bl.load_judge(judge).id)"]
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    notebook.cells[0].metadata["tags"] = ["parameters"]
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    Path("notebooks").mkdir()
    nbformat.write(notebook, "notebooks/own.ipynb")
    regenerate(judge=f"api:m@http://me:{SHORT}@host:8000/v1", notebooks="notebooks", progress=False)
    left = left_in(tmp_path, *map(str, tmp_path.rglob("*")))
    assert "api:m@host:8000/v1" in left
    assert SHORT not in left


def test_password_moves_into_the_environment(monkeypatch):
    monkeypatch.setenv("BIASLAB_URL_1", "")
    name = in_environment(f"api:m@http://me:{SHORT}@host/v1,exact=false")
    assert name == "api:m@BIASLAB_URL_2,exact=false"
    assert os.environ.pop("BIASLAB_URL_2") == f"http://me:{SHORT}@host/v1"
