"""Load a `Protocol` from a file in one of the formats in which judge prompts are kept.

A format is one function: it takes the file's path and content and returns arguments of `Protocol.from_template`, or
None where the file is of another format.
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
from biaslab.prompts.protocols.building import read_text
from biaslab.prompts.protocols.json_reader import JsonPath
from biaslab.prompts.protocols.pattern_readers import Matches
from biaslab.prompts.protocols.readers import FirstOf
from biaslab.prompts.protocols.text_formats import TEXT_FORMATS

Arguments = dict[str, Any]


class Source(NamedTuple):
    """File of protocols: path, content, and the name of the wanted one."""

    path: Path
    document: Mapping[str, Any]
    name: str | None


_WAYS = {"pattern", "json", "parse", "reader"}  # to read a reply, of which there is one


def arguments_of(path: Path, name: str | None, changes: Mapping[str, Any], allowed: Collection[str]) -> Arguments:
    """Return the arguments of `Protocol.from_template` that a file holds, with some of them replaced.

    Parameters
    ----------
    path : pathlib.Path
        The file.
    name : str or None
        Which protocol, where it holds several.
    changes : mapping
        Arguments that replace those of the file.
    allowed : collection of str
        Names of all arguments.

    Raises
    ------
    InputError
        As `Protocol.from_file` does.
    """
    for key in changes:
        if key not in allowed:
            raise unknown("argument", key, sorted(allowed))
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
    for of_text in TEXT_FORMATS:
        if (arguments := of_text(text)) is not None:
            return {"template": text} | arguments
    return {"template": text}


def _structured(path: Path, text: str, name: str | None) -> Arguments:
    try:
        document = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise InputError("path", str(path), f"a {path.suffix[1:].upper()} file ({error})") from error
    if isinstance(document, Mapping):
        for of_document in _DOCUMENTS:
            if (arguments := of_document(Source(path, document, name))) is not None:
                return arguments
    known = "AlpacaEval, Arena-Hard, OpenAI evals, Inspect, Prometheus 2"
    raise InputError("path", str(path), f"a file of {known}", "or Protocol.from_template with the prompt itself")


def _toml(path: Path, text: str) -> Arguments:
    """Read biaslab's own format: the arguments of `Protocol.from_template`; `template_file` names a file beside it."""
    try:
        arguments = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError("path", str(path), f"a TOML file ({error})") from error
    if "template_file" in arguments:
        arguments["template"] = path.parent / arguments.pop("template_file")
    if "template" not in arguments:
        raise InputError("template", None, f"a template or template_file in {path.name}")
    if isinstance(arguments.get("scale"), list):
        arguments["scale"] = tuple(arguments["scale"])
    return arguments


def _alpaca_eval(source: Source) -> Arguments | None:
    """AlpacaEval (Dubois et al. 2024): an annotator's configuration and its template."""
    configs = {
        key: each for key, each in source.document.items() if isinstance(each, Mapping) and "prompt_template" in each
    }
    if not configs:
        return None
    chosen, config = _one(source.path, configs, source.name)
    relative = Path(config["prompt_template"])
    places = [source.path.parent.parent / relative, source.path.parent / relative, source.path.parent / relative.name]
    template = next((place for place in places if place.is_file()), None)
    if template is None:
        raise InputError("prompt_template", str(relative), f"a file beside {source.path.parent}", "copy it there")
    asked = config.get("completions_kwargs", {})
    human = re.compile(r"\A\s*Human:\s*|\s*Assistant:\s*\Z")
    return {
        "name": chosen,
        "template": human.sub("", read_text(template)),
        "max_tokens": int(asked.get("max_tokens", asked.get("max_tokens_to_sample", 1024))),
        "temperature": float(asked.get("temperature", 0)),
    } | _alpaca_eval_parser(
        config.get("fn_completion_parser", "regex_parser"), config.get("completion_parser_kwargs", {})
    )


def _alpaca_eval_parser(parser: str, options: Mapping[str, Any]) -> Arguments:
    if parser == "pipeline_meta_parser":
        steps = options["parsers_to_kwargs"]
        key, ranking = steps["json_parser"]["annotation_key"], steps.get("ranking_parser", {})
        return _ranking(key, ranking.get("model_1_name", "model_1"))
    if parser == "ranking_parser":
        return _ranking("", options.get("model_1_name", "model_1"))
    if parser == "regex_parser":
        values = tuple((pattern, 2.0 - float(place)) for place, pattern in options["outputs_to_match"].items())
        return {"reader": Matches(values), "choose": "single"}
    if parser == "logprob_parser":
        first = options["numerator_token"]
        verdicts = {token: float(token == first) for token in options["denominator_tokens"]}
        return {"verdicts": verdicts, "answer": "label", "binarize": bool(options.get("is_binarize", False))}
    known = "regex_parser, ranking_parser, logprob_parser, or pipeline_meta_parser with json_parser"
    raise InputError("fn_completion_parser", parser, f"one of {known}", "give pattern, json or parse")


def _ranking(key: str, first: str) -> Arguments:
    return {"reader": JsonPath(f"{key}[model={first}].rank", (("1", 1.0), ("2", 0.0))), "choose": "single"}


def _arena_hard(source: Source) -> Arguments | None:
    """Arena-Hard (Li et al. 2024): five graded verdicts, of which the last counts."""
    if not {"regex_patterns", "prompt_template"} <= set(source.document):
        return None
    bench = source.name or source.document.get("bench_name", source.path.stem)
    prompts_file = source.path.parent / "system_prompts.json"
    systems = json.loads(read_text(prompts_file)) if prompts_file.is_file() else {}
    verdicts = {"A>>B": 1.0, "A>B": 0.75, "A=B": 0.5, "B>A": 0.25, "B>>A": 0.0}
    aliases = {"B<<A": 1.0, "B<A": 0.75, "B=A": 0.5, "A<B": 0.25, "A<<B": 0.0}
    return {
        "name": bench,
        "template": source.document["prompt_template"],
        "system": systems.get(bench, {}).get("system_prompt", ""),
        "verdicts": verdicts | aliases,
        "pattern": [
            f"(?i){pattern}" for pattern in source.document["regex_patterns"]
        ],  # the authors upper-case the text
        "temperature": float(source.document.get("temperature", 0)),
        "max_tokens": int(source.document.get("max_tokens", 4096)),
    }


def _open_ai(source: Source) -> Arguments | None:
    """OpenAI evals: a model-graded classification."""
    if not {"prompt", "choice_strings"} <= set(source.document):
        return None
    choices, scores = list(source.document["choice_strings"]), source.document.get("choice_scores")
    alone = "|".join(re.escape(choice) for choice in choices)
    patterns = [rf"^[^\w\n]*({alone})[^\w\n]*$", rf"\A\W*({alone})\b"]
    arguments = {"template": source.document["prompt"], "form": "score", "pattern": patterns}
    return arguments | ({"verdicts": {str(key): float(value) for key, value in scores.items()}} if scores else {})


def _inspect(source: Source) -> Arguments | None:
    """Inspect's model-graded scorers: C, P and I are 1, ½ and 0."""
    if not {"template", "grade_pattern"} <= set(source.document):
        return None
    return {
        "template": source.document["template"],
        "form": "score",
        "values": {"instructions": source.document["instructions"]} if "instructions" in source.document else {},
        "verdicts": {"C": 1.0, "P": 0.5, "I": 0.0},
        "pattern": source.document["grade_pattern"],
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
    how: Arguments = {"verdicts": {"A": 1.0, "B": 0.0}} if pair else {"form": "score", "scale": (1, 5)}
    return {"name": chosen, "template": template, "system": system, "pattern": _RESULT["AB" if pair else "1-5"]} | how


def _result(verdict: str) -> list[str]:
    """Patterns of a verdict after ``[RESULT]``, or behind "score" at the very end."""
    ends = r"(?![\w]|\.\d)"
    return [
        rf"(?i)\[result\]\s*(?:(?:score|result)\b\s*)?(?:of\b|:)?\s*[(\[]?({verdict}){ends}",
        rf"(?i)\b(?:score|result|response)\s*(?:of\b|:)?\s*[(\[]?({verdict}){ends}[)\]]?\W*\Z",
    ]


def _fast_chat(path: Path, text: str, name: str | None) -> Arguments:
    """FastChat's MT-Bench judges (Zheng et al. 2023): ``[[A]]`` is looked for first, then ``[[B]]``, then a tie."""
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
    letters = {"A": 1.0, "B": 0.0, "C": 0.5}
    in_turn = tuple(Matches(((re.escape(f"[[{letter}]]"), value),)) for letter, value in letters.items())
    return arguments | {"reader": FirstOf(in_turn)}


def _one(path: Path, listed: Mapping[str, Any], name: str | None) -> tuple[str, Any]:
    """Return the entry of a name, or the only one."""
    if name is None and len(listed) == 1:
        return next(iter(listed.items()))
    if name is None or name not in listed:
        raise unknown("name", name, listed, f"{path.name} holds several" if len(listed) > 1 else "")
    return name, listed[name]


_RESULT = {"AB": _result("[AB]"), "1-5": _result("[1-5]")}
_DOCUMENTS: tuple[Callable[[Source], Arguments | None], ...] = (
    _alpaca_eval,
    _arena_hard,
    _open_ai,
    _inspect,
    _prometheus,
)
