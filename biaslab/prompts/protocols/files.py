"""Load a `Protocol` from a file in one of the common formats for judge prompts.

A format is a function that takes the file's path and content and returns arguments of `Protocol.from_template`, or
None if the file has another format.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from biaslab.core.checks import unknown
from biaslab.core.errors import InputError
from biaslab.core.files import declared
from biaslab.prompts.protocols.readers import FirstOf, FreeScore, JsonPath, Matches, Pattern, VerdictValues, Whole
from biaslab.prompts.protocols.slots import read_text

TemplateArguments = dict[str, Any]
GRADES = {"A>>B": 1.0, "A>B": 0.75, "A=B": 0.5, "B>A": 0.25, "B>>A": 0.0}
GRADES |= {"B<<A": 1.0, "B<A": 0.75, "B=A": 0.5, "A<B": 0.25, "A<<B": 0.0}
_MARK = re.compile(r"\[\[\s*([^\[\]\n]{1,12}?)\s*\]\]")
_SPAN = re.compile(r"\(?\b(\d+) ?(?:-|–|~|to) ?(\d+)\b")


def _known_prompts() -> list[TemplateArguments]:
    return list(declared("biaslab.prompts.protocols", "known_prompts.toml")["prompt"])


def _known(text: str) -> TemplateArguments | None:
    """Return the arguments for a known prompt, from ``known_prompts.toml``."""
    for known in _known_prompts():
        matches = [re.search(pattern, text) for pattern in known["like"]]
        if all(matches):
            return _arguments(known, text, matches[0])
    return None


def _arguments(known: TemplateArguments, text: str = "", match: re.Match[str] | None = None) -> TemplateArguments:
    """Return the arguments of a known prompt, with the scale that its text states."""
    arguments = {name: value for name, value in known.items() if name not in ("name", "like", "begins")}
    if match is not None and match.groups():
        return arguments | {"scale": "{}-{}".format(*match.groups())}
    if known.get("scale") != "stated":
        return arguments | {name: tuple(known[name]) for name in ("scale",) if name in known}
    low, high = _scale_of(text)
    if "begins" not in known:
        return arguments | {"scale": (low, high)}
    scale = f"{low}-{high}"
    return arguments | {"scale": scale, "reader": FirstOf((Pattern((known["begins"],)), FreeScore(scale)))}


def _marks(text: str) -> TemplateArguments | None:
    """MT-Bench's verdicts in double brackets (Zheng et al. 2023), Arena-Hard's, and similar prompts."""
    marks = dict.fromkeys(_MARK.findall(text))
    if {"A>B", "B>A"} <= set(marks) <= set(GRADES):
        meant = {mark: GRADES[mark] for mark in marks}
        ends = {0.75: 1.0, 0.25: 0.0} if "A>>B" not in meant else {}
        graded = {mark: ends.get(value, value) for mark, value in meant.items()}
        return {"verdicts": graded, "pattern": r"\[\[\s*([AB<>=]+)\s*\]\]"}
    letters = {"A": 1.0, "B": 0.0, "1": 1.0, "2": 0.0, "C": 0.5, "Tie": 0.5, "tie": 0.5, "T": 0.5}
    pair = next(({*ends} for ends in (("A", "B"), ("1", "2")) if {*ends} <= set(marks)), None)
    if pair is None or not set(marks) - pair <= {"C", "Tie", "tie", "T"}:
        return None
    return {"verdicts": {f"[[{mark}]]": letters[mark] for mark in marks}}


def _scale_of(text: str) -> tuple[int, int]:
    match = _SPAN.search(text)
    if match is None:
        raise InputError.plain("scale is not stated in the text, expected: one such as (1-5); pass scale='1-5'")
    return int(match[1]), int(match[2])


_LIMITS = ("max_tokens", "max_tokens_to_sample", "max_new_tokens", "max_length", "max_completion_tokens")
_HUMAN = re.compile(r"\A\s*Human:\s*|\s*Assistant:\s*\Z")
_RANKS: VerdictValues = (("1", 1.0), ("2", 0.0))
_KNOWN = "regex_parser, ranking_parser, lmsys_parser, logprob_parser, json_parser, or pipeline_meta_parser of these"
_NUMBER = r"(-?\d+(?:\.\d*)?)"


def _alpaca_arguments(path: Path, name: str, config: Mapping[str, Any]) -> TemplateArguments:
    """Return the arguments of `Protocol.from_template` for an annotator (Dubois et al. 2024).

    Parameters
    ----------
    path : pathlib.Path
        The file; templates are next to it, or next to its folder.
    name : str
        Name of the annotator.
    config : mapping
        Its entry in the file.

    Raises
    ------
    InputError
        If its template is missing or shows several pairs, or its parser is unknown.

    Notes
    -----
    A completion is parsed exactly as AlpacaEval parses it: if its parser returns null, there is no verdict.
    """
    template = _HUMAN.sub("", read_text(_template_of(path, str(config["prompt_template"]))))
    asked = config.get("completions_kwargs") or {}
    if (batch := int(config.get("batch_size") or 1)) > 1:
        allowed = "1: a request shows one pair, and this prompt several"
        raise InputError(f"{name}.batch_size", batch, allowed, "name a configuration with a prompt for one pair")
    limit = next((asked[key] for key in _LIMITS if asked.get(key) is not None), 1024)
    arguments = {"name": name, "template": template, "max_tokens": int(limit)}
    arguments["temperature"] = float(asked.get("temperature") or 0)
    parser = config.get("fn_completion_parser") or "regex_parser"
    return arguments | _parser(str(parser), config.get("completion_parser_kwargs") or {})


def _template_of(path: Path, relative: str) -> Path:
    places = (path.parent.parent / relative, path.parent / relative, path.parent / Path(relative).name)
    template = next((place for place in places if place.is_file()), None)
    if template is None:
        raise InputError("prompt_template", relative, f"a file in {path.parent}", "copy it there")
    return template


def _parser(parser: str, options: Mapping[str, Any]) -> TemplateArguments:
    if parser == "regex_parser":
        matched = _required(options, "outputs_to_match").items()
        values = tuple((str(pattern), _first(place)) for place, pattern in matched)
        return {"reader": Matches(values), "choose": "single"}
    if parser == "lmsys_parser":
        return {"pattern": rf"\A{_NUMBER}[ ,]{_NUMBER}(?:\n|\Z)", "writes": "{} {}", "choose": "first"}
    if parser == "logprob_parser":
        return _by_probability(options)
    steps = _required(options, "parsers_to_kwargs") if parser == "pipeline_meta_parser" else {parser: options}
    names = list(steps)
    if names == ["ranking_parser"]:
        return _document(_rank_of(steps["ranking_parser"]), "python", _RANKS)
    key = (steps.get("json_parser") or {}).get("annotation_key")
    if names == ["json_parser", "ranking_parser"]:
        return _document(f"{key or ''}{_rank_of(steps['ranking_parser'])}", "json", _RANKS)
    if names in (["json_parser"], ["json_parser", "replace_parser"]) and key:
        replaced = (steps.get("replace_parser") or {}).get("replacer") or {1: 1, 2: 2}
        return _document(str(key), "json", tuple((str(reply), _first(place)) for reply, place in replaced.items()))
    shown = " and ".join(names) or parser
    raise InputError("fn_completion_parser", shown, f"one of {_KNOWN}", "give pattern, json or parse")


def _by_probability(options: Mapping[str, Any]) -> TemplateArguments:
    """Use the token of the best output: its probability if it is the first token, else the last one in the text."""
    first, tokens = str(_required(options, "numerator_token")), _required(options, "denominator_tokens")
    verdicts = {str(token): float(str(token) == first) for token in tokens}
    if options.get("log_prob_index", "batch") in ("batch", 0):
        return {"verdicts": verdicts, "answer": "label", "binarize": bool(options.get("is_binarize", True))}
    last = tuple((rf"(?<!\w){re.escape(token)}\s*\Z", value) for token, value in verdicts.items())
    return {"reader": Matches(last), "choose": "single"}


def _required(options: Mapping[str, Any], name: str) -> Any:
    if name not in options:
        raise InputError("completion_parser_kwargs", ", ".join(map(str, options)) or None, f"options with {name}")
    return options[name]


def _document(path: str, written: str, verdicts: VerdictValues) -> TemplateArguments:
    return {"reader": Whole(JsonPath(path, verdicts), written), "choose": "single"}


def _rank_of(options: Mapping[str, Any] | None) -> str:
    return f"[model={(options or {}).get('model_1_name', 'model_1')}].rank"


def _first(preference: Any) -> float:
    """Return the probability that the output shown first wins: 1 is the first, 2 the second, 0 and 1.5 a draw."""
    try:
        number = float(preference)
    except (TypeError, ValueError):
        number = -1.0
    if number == 0:
        return 0.5
    if not 1 <= number <= 2:
        raise InputError("preference", preference, "1 for the first output, 2 for the second, 0 or 1.5 for a draw")
    return 2.0 - number


class ProtocolFile(NamedTuple):
    """A file of protocols: path, content, and the name of the wanted one."""

    path: Path
    document: Mapping[str, Any]
    name: str | None


_ROLES = {"system": "system", "developer": "system", "user": "user", "human": "user", "assistant": "assistant"}
_CODE = {"parse", "reader"}
_WAYS = {"pattern", "json"} | _CODE  # to read a reply, of which there is one


def arguments_of(
    path: Path, name: str | None, changes: Mapping[str, Any], allowed: Collection[str]
) -> TemplateArguments:
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
    text = read_text(path)
    if path.suffix == ".toml":
        arguments = _toml(path, text)
    elif path.suffix == ".jsonl":
        arguments = _fast_chat(path, text, name)
    elif path.suffix in (".yaml", ".yml", ".json"):
        arguments = _structured(path, text, name)
    else:
        arguments = _of_text(text, text)
    strange = [key for key in arguments if key not in allowed]
    if strange:
        raise unknown(f"key of {path.name}", strange[0], sorted(allowed))
    replaced = _WAYS if _WAYS & set(changes) else {"reader"} if {"verdicts", "scale"} & set(changes) else set()
    arguments = {key: value for key, value in arguments.items() if key not in replaced}
    values = {**arguments.get("values", {}), **changes.get("values", {})}
    return {"name": path.stem} | arguments | dict(changes) | {"values": values}


def _of_text(template: Any, text: str) -> TemplateArguments:
    """Return the format of replies that a prompt itself describes."""
    return {"template": template, **(_known(text) or _marks(text) or {})}


def _structured(path: Path, text: str, name: str | None) -> TemplateArguments:
    try:
        document = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError) as error:
        raise InputError("path", str(path), f"a {path.suffix[1:].upper()} file ({error})") from error
    if isinstance(document, list) or (isinstance(document, Mapping) and set(document) == {"messages"}):
        messages = _as_messages(document["messages"] if isinstance(document, Mapping) else document)
        return _of_text(messages, messages if isinstance(messages, str) else "\n".join(text for _, text in messages))
    if isinstance(document, Mapping):
        for of_document in _DOCUMENTS:
            if (arguments := of_document(ProtocolFile(path, document, name))) is not None:
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


def _toml(path: Path, text: str) -> TemplateArguments:
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
        raise InputError.plain(f"template is missing, expected: a template or template_file in {path.name}")
    if isinstance(arguments.get("scale"), list):
        arguments["scale"] = tuple(arguments["scale"])
    return arguments


def _alpaca_eval(source: ProtocolFile) -> TemplateArguments | None:
    """AlpacaEval (Dubois et al. 2024): an annotator's configuration and its template."""
    entries = source.document.items()
    configs = {key: each for key, each in entries if isinstance(each, Mapping) and "prompt_template" in each}
    return _alpaca_arguments(source.path, *_one(source.path, configs, source.name)) if configs else None


def _arena_hard(source: ProtocolFile) -> TemplateArguments | None:
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


def _open_ai(source: ProtocolFile) -> TemplateArguments | None:
    """OpenAI evals: a model-graded classification; a file may hold several by name."""
    named = {name: each for name, each in source.document.items() if isinstance(each, Mapping) and "prompt" in each}
    name, document = _one(source.path, named, source.name) if named else (source.path.stem, source.document)
    if not {"prompt", "choice_strings"} <= set(document):
        return None
    strings, scores = document["choice_strings"], document.get("choice_scores")
    arguments = {"name": name, "template": _as_messages(document["prompt"])}
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


def _inspect(source: ProtocolFile) -> TemplateArguments | None:
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


def _prometheus_file(source: ProtocolFile) -> TemplateArguments | None:
    """Prometheus 2 (Kim et al. 2024): feedback, then ``[RESULT]`` and a number or a letter."""
    slot = re.compile(r"\{response(?:_[AB])?\}")
    prompts = {key: text for key, text in source.document.items() if isinstance(text, str) and slot.search(text)}
    if not prompts:
        return None
    chosen, template = _one(source.path, prompts, source.name)
    pair = "{response_A}" in template
    system = next((text for key, text in source.document.items() if key.startswith("REL_" if pair else "ABS_")), "")
    known = next(each for each in _known_prompts() if each.get("name") == f"prometheus {'pair' if pair else 'score'}")
    return {"name": chosen, "template": template, "system": system} | _arguments(known)


def _fast_chat(path: Path, text: str, name: str | None) -> TemplateArguments:
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
        patterns = [rf"\[\[{number},\s?{number}\]\]", rf"\[{number},\s?{number}\]"]
        return arguments | {"pattern": patterns, "choose": "first"}
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


_DOCUMENTS = (_alpaca_eval, _arena_hard, _open_ai, _inspect, _prometheus_file)
