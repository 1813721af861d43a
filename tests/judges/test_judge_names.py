"""Judges behind servers by name: options in an address, and tables of a file that everything shares."""

import inspect
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError
from biaslab.judges import available
from biaslab.judges.api import FIELDS, OPTIONS, ApiJudge, make_judge, split_address

URL = "http://localhost:8000/v1"


@pytest.fixture(autouse=True)
def _work_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(text, folder="."):
    Path(folder, "biaslab.toml").write_text(text, encoding="utf-8")


def test_every_keyword_of_the_judge_is_an_option_and_none_other():
    known = inspect.signature(ApiJudge).parameters
    assert set(OPTIONS) == set(known) - {"model", "base_url"}
    assert not set(FIELDS) & set(OPTIONS)


def test_options_of_an_address_are_those_of_the_class():
    name = f"api:qwen3@{URL}?prefill=vllm&temperature=0&top_p=0.9&timeout=20&max_concurrency=4&patience.reach=2"
    judge = bl.load_judge(f"{name}&prices.input=0.15&limits.dollars=5&parameters.guided_regex=[1-5]")
    fields = {"temperature": 0, "top_p": 0.9, "guided_regex": "[1-5]"}
    same = ApiJudge("qwen3", URL, prefill="vllm", parameters=fields)
    assert judge.id == same.id
    assert same.wire.prefill == {"continue_final_message": True, "add_generation_prompt": False}
    assert (judge.timeout, judge.patience.reach, judge.patience.retries) == (20, 2, 6)
    assert (judge.prices, judge.limits) == ({"input": 0.15}, {"dollars": 5})
    assert bl.load_judge("api:gpt-4o-mini?top_logprobs=5&temperature=none").wire.parameters == {"temperature": None}
    assert bl.load_judge(f"sampled:5:{name}").judge.id.startswith("api:qwen3@localhost:8000/v1:{")
    assert bl.load_judge(f"api:qwen3@{URL}").id == ApiJudge("qwen3", URL).id


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("prefil=vllm", "option is 'prefil'.*did you mean prefill"),
        ("prefill=vlm", "prefill is 'vlm', allowed: one of vllm, llama.cpp"),
        ("temprature=0", "did you mean temperature"),
        ("max_concurrency=many", "max_concurrency is 'many', allowed: a whole number"),
        ("max_concurrency=2.5", "a whole number"),
        ("max_concurrency=0", "max_concurrency is 0, allowed: a whole number of at least 1"),
        ("timeout=-1", "timeout is -1, allowed: seconds above 0"),
        ("timeout=NaN", "timeout is nan, allowed: seconds above 0"),
        ("patience.reech=2", "patience is 'reech'.*did you mean reach"),
        ("patience=2", r"patience is '\*\*\*', allowed: a dictionary"),
        ("patience.reach=-1", "patience.reach is -1, allowed: a number of at least 0"),
        ("limits.dollars=much", "limits is {'dollars': 'much'}, allowed: a dictionary from a text to a number"),
        ("likelihood=eco", "likelihood is 'eco', allowed: one of echo, prompt_logprobs"),
        ("", "name=value"),
        ("temperature", "name=value"),
        ("temperature=0&top_p", "name=value"),
        ("api_key=sk-abcdefghijklmnop", "the name of an environment variable"),
        ("key=sk-abcdefghijklmnop", "option is 'key'.*did you mean api_key"),
        ("sk-abcdefghijklmnop", "name=value"),
    ],
)
def test_wrong_options_say_what_is_allowed_and_never_show_a_key(said, words):
    with pytest.raises(InputError, match=words) as caught:
        bl.load_judge(f"api:qwen3@{URL}?{said}")
    assert "abcdefghijklmnop" not in str(caught.value)


@given(st.dictionaries(st.sampled_from(FIELDS), st.floats(0, 2) | st.integers(0, 9), max_size=4))
def test_numbers_survive_the_way_through_an_address(fields):
    name = "&".join(f"{option}={value}" for option, value in fields.items())
    made = make_judge(*split_address(f"m@{URL}?{name}" if name else f"m@{URL}"))
    assert made.wire.parameters == fields


@pytest.mark.parametrize(
    "bare", ["127.0.0.1:8941/v1", "localhost/v1", "localhost:8000/v1", "gpu2:8000/v1", "[::1]:8000/v1", "localhost"]
)
def test_address_without_scheme_is_a_server(bare):
    assert split_address(f"fake@{bare}?temperature=0")[:2] == ("fake", f"http://{bare}")


@pytest.mark.parametrize("model", ["claude-sonnet@20240620", "org/model@main", "qwen3:8b", "gemini@002:latest"])
def test_model_name_with_at_sign_is_no_address(model):
    assert split_address(model) == (model, None, {})


FILE = """
[judges.mini]
model = "gpt-4o-mini"
api_key = "MY_LAB_KEY"
top_logprobs = 5
prices = { input = 0.15, cached = 0.075, output = 0.6 }
limits = { dollars = 5 }

[judges.local]
model = "qwen3"
address = "http://localhost:8000/v1"
prefill = "vllm"
temperature = 0
patience = { reach = 2, retries = 1 }

[judges.text]
model = "qwen3"
address = "http://localhost:8000/v1"
samples = 3

[judges.planted]
judge = "simulated:position=1"
"""


def test_biaslab_toml_names_judges(capsys, tmp_path, monkeypatch):
    write(FILE)
    Path("notebooks").mkdir()
    monkeypatch.chdir("notebooks")  # where a notebook runs: the file is looked for upwards
    mini, local, text = (bl.load_judge(name) for name in ("mini", "local", "text"))
    assert (mini.prices["output"], mini.limits) == (0.6, {"dollars": 5})
    assert local.id == bl.load_judge(f"api:qwen3@{URL}?prefill=vllm&temperature=0").id
    assert (local.patience.reach, local.patience.retries) == (2, 1)
    assert text.id == bl.load_judge(f"sampled:3:api:qwen3@{URL}").id
    assert bl.load_judge("sampled:5:local").judge.id == local.id
    words = ["probe", "position", "--judge", "planted", "--attribute", "coherence", "--contexts", "2"]
    assert main([*words, "--store", str(tmp_path / "s")]) == 0
    assert "position of simulated:graded (constructed):position=1" in capsys.readouterr().out
    listed = available()
    assert listed["mini"] == "gpt-4o-mini at OpenAI, in biaslab.toml"
    assert listed["planted"] == "simulated:position=1, in biaslab.toml"


def test_the_key_of_a_file_is_the_name_of_a_variable(monkeypatch):
    write(FILE)
    monkeypatch.setenv("MY_LAB_KEY", "sk-abcdefghijklmnop")
    assert "abcdefghijklmnop" not in repr(vars(bl.load_judge("mini")))
    write('[judges.mini]\nmodel = "m"\napi_key = "sk-abcdefghijklmnop"')
    with pytest.raises(InputError, match="set the key in the environment") as caught:
        bl.load_judge("mini")
    assert "abcdefghijklmnop" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[judges.a", "TOML"),
        ("[judge.a]\nmodel = 'm'", "is 'judge'.*did you mean judges"),
        ("judges = 3", "a table such as"),
        ("[judges]\na = 3", "a table such as"),
        ("[judges.'api:a']\nmodel = 'm'", "letters, digits"),
        ("[judges.simulated]\nmodel = 'm'", "letters, digits"),
        ("[judges.a]", "either model or judge"),
        ("[judges.a]\nmodel = 'm'\njudge = 'n'", "either model or judge"),
        ("[judges.a]\nmodel = 3", "judges.a.model is 3, allowed: a quoted string"),
        ("[judges.a]\nmodel = 'm'\nadress = 'http://x'", "judges.a is 'adress'.*did you mean address"),
        ("[judges.a]\nmodel = 'm'\ntop_logprobs = 'x'", "judges.a.top_logprobs is 'x', allowed: a whole number"),
        ("[judges.a]\nmodel = 'm'\nprices = 3", "judges.a.prices is 3, allowed: a dictionary"),
        ("[judges.a]\nmodel = 'm'\nsamples = 0", "judges.a.samples is 0, allowed: a whole number"),
        ("[judges.a]\nmodel = 'm'\naddress = 'localhost'", "http://"),
        ("[judges.a]\njudge = 'simulated'\nprefill = 'vllm'", "only judge and samples"),
        ("[judges.a]\njudge = 'sampled:3:a'", "not itself named in this file"),
    ],
)
def test_a_wrong_file_says_where_and_what(text, words):
    write(text)
    with pytest.raises(InputError, match=words):
        bl.load_judge("a", bl.load_dataset("graded", limit=1))


@pytest.mark.parametrize("option", ["api_key", "parameters", "prefill", "patience"])
@pytest.mark.parametrize("value", [["sk-abcdefghijklmnop"], 123456789])
def test_error_never_quotes_an_option_that_may_hold_a_key(option, value):
    with pytest.raises(InputError) as caught:
        make_judge("m", "http://127.0.0.1:9/v1", {option: value})
    assert not any(secret in str(caught.value) for secret in ("sk-", "123456789"))
