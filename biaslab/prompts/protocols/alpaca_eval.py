"""Read the configurations of AlpacaEval's annotators: a prompt with chat marks, and parsers of completions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from biaslab.core.errors import InputError
from biaslab.prompts.protocols.building import read_text
from biaslab.prompts.protocols.json_reader import JsonPath, Whole
from biaslab.prompts.protocols.pattern_readers import Matches
from biaslab.prompts.protocols.readers import Verdicts

Arguments = dict[str, Any]
_LIMITS = ("max_tokens", "max_tokens_to_sample", "max_new_tokens", "max_length", "max_completion_tokens")
_HUMAN = re.compile(r"\A\s*Human:\s*|\s*Assistant:\s*\Z")
_RANKS: Verdicts = (("1", 1.0), ("2", 0.0))
_KNOWN = "regex_parser, ranking_parser, lmsys_parser, logprob_parser, json_parser, or pipeline_meta_parser of these"
_NUMBER = r"(-?\d+(?:\.\d*)?)"


def configs_in(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the annotators in a configuration file, by name."""
    return {key: each for key, each in document.items() if isinstance(each, Mapping) and "prompt_template" in each}


def of_config(path: Path, name: str, config: Mapping[str, Any]) -> Arguments:
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
        raise InputError("prompt_template", relative, f"a file beside {path.parent}", "copy it there")
    return template


def _parser(parser: str, options: Mapping[str, Any]) -> Arguments:
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
        return _document(str(key), "json", tuple((str(said), _first(place)) for said, place in replaced.items()))
    shown = " and ".join(names) or parser
    raise InputError("fn_completion_parser", shown, f"one of {_KNOWN}", "give pattern, json or parse")


def _by_probability(options: Mapping[str, Any]) -> Arguments:
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


def _document(path: str, written: str, verdicts: Verdicts) -> Arguments:
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
