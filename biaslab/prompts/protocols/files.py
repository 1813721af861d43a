"""Load a `Protocol` from a file in one of the common formats for judge prompts.

A format is a function that takes the file's path and content and returns arguments of `Protocol.from_template`, or
None if the file has another format.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from biaslab.core.checks import unknown
from biaslab.core.errors import InputError
from biaslab.prompts.protocols import alpaca_eval
from biaslab.prompts.protocols.building import read_text
from biaslab.prompts.protocols.pattern_readers import Matches
from biaslab.prompts.protocols.readers import FirstOf
from biaslab.prompts.protocols.text_formats import GRADES, RESULT, TEXT_FORMATS

Arguments = dict[str, Any]


class Source(NamedTuple):
    """A file of protocols: path, content, and the name of the wanted one."""

    path: Path
    document: Mapping[str, Any]
    name: str | None


_ROLES = {"system": "system", "developer": "system", "user": "user", "human": "user", "assistant": "assistant"}
_CODE = {"parse", "reader"}
_WAYS = {"pattern", "json"} | _CODE  # to read a reply, of which there is one


def arguments_of(path: Path, name: str | None, changes: Mapping[str, Any], allowed: Collection[str]) -> Arguments:
    """Return the arguments of `Protocol.from_template` from a file, with some of them replaced.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    name : str or None
        Name of the protocol, if the file contains several.
    changes : mapping
        Arguments that replace those of the file.
    allowed : collection of str
        Names of all arguments.

    Raises
    ------
    InputError
        As in `Protocol.from_file`.
    """
    for key in changes:
        if key not in allowed:
            raise unknown("argument", key, sorted(allowed))
    if path.is_dir():  # AlpacaEval's annotators are folders
        path = next((file for file in (path / "configs.yaml", path / "config.yaml") if file.is_file()), path)
    arguments = _arguments(path, read_text(path), name)
    strange = [key for key in arguments if key not in allowed]
    if strange:
        raise unknown(f"key of {path.name}", strange[0], sorted(allowed))
    replaced = _WAYS if _WAYS & set(changes) else {"reader"} if {"verdicts", "scale"} & set(changes) else set()
    arguments = {key: value for key, value in arguments.items() if key not in replaced}
    values = {**arguments.get("values", {}), **changes.get("values", {})}
    return {"name": path.stem} | arguments | dict(changes) | {"values": values}


def _arguments(path: Path, text: str, name: str | None) -> Arguments:
    if path.suffix == ".toml":
        return _toml(path, text)
    if path.suffix == ".jsonl":
        return _fast_chat(path, text, name)
    if path.suffix in (".yaml", ".yml", ".json"):
        return _structured(path, text, name)
    return _of_text(text, text)


def _of_text(template: Any, text: str) -> Arguments:
    """Return the format of replies that a prompt itself describes."""
    formats = (of_text(text) for of_text in TEXT_FORMATS)
    return {"template": template} | next((arguments for arguments in formats if arguments is not None), {})


def _structured(path: Path, text: str, name: str | None) -> Arguments:
    try:
        document = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise InputError("path", str(path), f"a {path.suffix[1:].upper()} file ({error})") from error
    if isinstance(document, list) or (isinstance(document, Mapping) and set(document) == {"messages"}):
        messages = _as_messages(document["messages"] if isinstance(document, Mapping) else document)
        return _of_text(messages, messages if isinstance(messages, str) else "\n".join(text for _, text in messages))
    if isinstance(document, Mapping):
        for of_document in _DOCUMENTS:
            if (arguments := of_document(Source(path, document, name))) is not None:
                return arguments
    known = "AlpacaEval, Arena-Hard, OpenAI evals, Inspect, Prometheus 2, or a list of messages"
    raise InputError("path", str(path), f"a file of {known}", "or Protocol.from_template with the prompt itself")


def _as_messages(prompt: Any) -> Any:
    """Return messages with role and content as pairs; a text is returned unchanged.

    Raises
    ------
    InputError
        If a message is neither.
    """
    if not isinstance(prompt, list):
        return str(prompt)
    if not all(isinstance(each, Mapping) and isinstance(each.get("content"), str) for each in prompt):
        raise InputError("template", str(prompt)[:80], "messages, each with a role and a content that is a text")
    roles = [_ROLES.get(str(each.get("role", "user"))) for each in prompt]
    if None in roles:
        raise InputError("role", prompt[roles.index(None)].get("role"), f"one of {', '.join(_ROLES)}")
    return [(role, each["content"]) for role, each in zip(roles, prompt, strict=True)]


def _toml(path: Path, text: str) -> Arguments:
    """Read biaslab's own format: the arguments of `Protocol.from_template`; `template_file` names a file next to it."""
    try:
        arguments = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError("path", str(path), f"a TOML file ({error})") from error
    if "template_file" in arguments:
        arguments["template"] = path.parent / arguments.pop("template_file")
    for key in _CODE & set(arguments):
        remedy = "make the Protocol in Python, and name it as python:module:object"
        raise InputError(key, arguments[key], "an argument in Python: a file names no code", remedy)
    if "template" not in arguments:
        raise InputError("template", None, f"a template or template_file in {path.name}")
    if isinstance(arguments.get("scale"), list):
        arguments["scale"] = tuple(arguments["scale"])
    return arguments


def _alpaca_eval(source: Source) -> Arguments | None:
    """AlpacaEval (Dubois et al. 2024): an annotator's configuration and its template."""
    configs = alpaca_eval.configs_in(source.document)
    return alpaca_eval.of_config(source.path, *_one(source.path, configs, source.name)) if configs else None


def _arena_hard(source: Source) -> Arguments | None:
    """Arena-Hard (Li et al. 2024): five graded verdicts, of which the last counts."""
    document = source.document
    if "prompt_template" not in document or not {"regex_patterns", "regex_pattern"} & set(document):
        return None
    template, patterns = document["prompt_template"], document.get("regex_patterns") or document.get("regex_pattern")
    if isinstance(template, list):  # the format until 2024
        template = "\n".join(map(str, template))
    bench = source.name or document.get("bench_name", source.path.stem)
    prompts_file = source.path.parent / "system_prompts.json"
    systems = json.loads(read_text(prompts_file)) if prompts_file.is_file() else {}
    arguments = {
        "name": bench,
        "template": template,
        "system": document.get("system_prompt") or systems.get(bench, {}).get("system_prompt", ""),
        "verdicts": GRADES,
        "pattern": [f"(?i){each}" for each in ([patterns] if isinstance(patterns, str) else patterns or ())],
        "temperature": float(document.get("temperature") or 0),
        "max_tokens": int(document.get("max_tokens") or 4096),
    }  # the authors upper-case the text; of their original single pattern, all matches had to agree
    return arguments | ({} if "regex_patterns" in document else {"choose": "only"})


def _open_ai(source: Source) -> Arguments | None:
    """OpenAI evals: a model-graded classification; a file may hold several by name."""
    named = {name: each for name, each in source.document.items() if isinstance(each, Mapping) and "prompt" in each}
    name, document = _one(source.path, named, source.name) if named else (source.path.stem, source.document)
    if not {"prompt", "choice_strings"} <= set(document):
        return None
    strings, scores = document["choice_strings"], document.get("choice_scores")
    arguments: Arguments = {"name": name, "template": _as_messages(document["prompt"])}
    if strings == "from_n":
        each = (document.get("completion_sample_templates") or {}).get("completion", "{i}. {output}\n")
        shown = each.replace("{i}", "{{ candidate.number }}").replace("{output}", "{{ candidate.text }}")
        template = re.sub(r"\{(\w+)\}", r"{{ \1 }}", str(document["prompt"]))
        loop = f"{{% for candidate in candidates %}}{shown}{{% endfor %}}"
        template = template.replace("{{ completion }}", loop)
        return arguments | {"template": template, "form": "list", "names": "{n}", "syntax": "jinja2"}
    choices = list(map(str, strings))
    if scores == "from_strings":
        scores = {choice: float(choice) for choice in choices}
    alone = "|".join(re.escape(choice) for choice in sorted(choices, key=len, reverse=True))
    arguments["pattern"] = [rf"^[^\w\n]*({alone})[^\w\n]*$", rf"\A\W*({alone})\b"]
    arguments["choose"] = "last" if str(document.get("eval_type", "")).startswith("cot_") else "first"
    arguments["form"] = "pair" if re.search(r"\{completion_?2\}", str(document["prompt"])) else "score"
    return arguments | ({"verdicts": {str(key): float(value) for key, value in scores.items()}} if scores else {})


def _inspect(source: Source) -> Arguments | None:
    """Inspect's model-graded scorers: C, P and I are 1, ½ and 0."""
    if not {"template", "grade_pattern"} <= set(source.document):
        return None
    shown = {"criterion": "reference"} if "{criterion}" in source.document["template"] else {}
    return {
        "template": source.document["template"],
        "form": "score",
        "variables": shown,
        "values": {"instructions": source.document["instructions"]} if "instructions" in source.document else {},
        "verdicts": {"C": 1.0, "P": 0.5, "I": 0.0},
        "pattern": source.document["grade_pattern"],
        "choose": "first",  # as re.search
    }


def _prometheus(source: Source) -> Arguments | None:
    """Prometheus 2 (Kim et al. 2024): feedback, then ``[RESULT]`` and a number or a letter."""
    prompts = {
        key: text
        for key, text in source.document.items()
        if isinstance(text, str) and re.search(r"\{response(?:_[AB])?\}", text)
    }
    if not prompts:
        return None
    chosen, template = _one(source.path, prompts, source.name)
    pair = "{response_A}" in template
    system = next((text for key, text in source.document.items() if key.startswith("REL_" if pair else "ABS_")), "")
    return {"name": chosen, "template": template, "system": system} | RESULT["pair" if pair else "score"]


def _fast_chat(path: Path, text: str, name: str | None) -> Arguments:
    """FastChat's MT-Bench judges (Zheng et al. 2023): first ``[[A]]`` is searched, then ``[[B]]``, then a tie."""
    try:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        listed = {row["name"]: row for row in rows if row["prompt_template"]}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("path", str(path), f"lines of FastChat's judge prompts ({error!r})") from error
    chosen, row = _one(path, listed, name)
    arguments = {"name": chosen, "template": row["prompt_template"], "system": row.get("system_prompt", "")}
    if row.get("output_format") == "[[rating]]":
        patterns = [r"\[\[(\d+\.?\d*)\]\]", r"\[(\d+\.?\d*)\]"]
        return arguments | {"form": "score", "scale": (1, 10), "pattern": patterns, "choose": "first"}
    if row.get("output_format") == "[[rating_a,rating_b]]":
        number = r"(\d+\.?\d*)"
        return arguments | {
            "pattern": [rf"\[\[{number},\s?{number}\]\]", rf"\[{number},\s?{number}\]"],
            "choose": "first",
        }
    letters = {"A": 1.0, "B": 0.0, "C": 0.5}
    in_turn = tuple(Matches(((re.escape(f"[[{letter}]]"), value),)) for letter, value in letters.items())
    return arguments | {"reader": FirstOf(in_turn)}


def _one(path: Path, listed: Mapping[str, Any], name: str | None) -> tuple[str, Any]:
    """Return the entry with a name, or the only one."""
    if name is None and len(listed) == 1:
        return next(iter(listed.items()))
    if name is None or name not in listed:
        raise unknown("name", name, listed, f"{path.name} holds several" if len(listed) > 1 else "")
    return name, listed[name]


_DOCUMENTS: tuple[Callable[[Source], Arguments | None], ...] = (
    _alpaca_eval,
    _arena_hard,
    _open_ai,
    _inspect,
    _prometheus,
)
