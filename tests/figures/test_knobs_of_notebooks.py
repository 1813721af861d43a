"""Every field of a probe can be set from outside its notebook, or stands here with the reason why not."""

import ast
import json
from dataclasses import fields

import pytest

from biaslab.core.parameters import types_of
from biaslab.figures import list_notebooks
from biaslab.probes import available

NOTEBOOKS = {path.stem: path for path in list_notebooks()}
#: Fields of a probe that its notebook does not take from outside, with the reason.
LEFT_OUT = {
    "anchoring": {"protocol": "it has prompts of its own, with several attributes in one"},
    "template": {"protocol": "it compares several: `protocols`"},
    "familiarity": {
        "log_perplexity": "read by `likelihood_judge`, or by the judge itself",
    },
    "comparative": {
        "decoding": "all of them are shown side by side",
        "debiasing": "all remedies are shown side by side",
    },
    "budget": {
        "strategy": "all pairs are asked once; `strategies` are drawn from them",
        "budget": "`budgets` are drawn from all pairs",
        "rounds": "nothing is asked adaptively: all pairs are asked once",
        "folds": "remedies are fitted on all other contexts",
    },
}
#: The probe of a notebook that is not called after it.
OF = {"budget": "comparative"}
#: How a notebook calls a field otherwise.
CALLED = {"resampling": "seed", "budget": "n_comparisons"}


def code_of(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def given_by(name):
    """Return what a notebook gives its probe: in the call that says most, and by name in ``replace(probe, …)``."""
    wanted = f"bl.probes.{available()[OF.get(name, name)].__name__}"
    calls = [node for node in ast.walk(ast.parse(code_of(NOTEBOOKS[name]))) if isinstance(node, ast.Call)]
    made = [call for call in calls if ast.unparse(call.func) in (wanted, f"{wanted}.from_parameters")]
    made = max(made, key=lambda call: (ast.unparse(call.func) != wanted, len(call.keywords)))
    keywords, own = made.keywords, types_of(NOTEBOOKS[name])
    if ast.unparse(made.func) == wanted:
        later = [keyword for call in calls if ast.unparse(call.func) == "replace" for keyword in call.keywords]
        keywords = [*(each for each in later if ast.unparse(each.value) in {*own, "resampling"}), *keywords]
        return {keyword.arg: ast.unparse(keyword.value) for keyword in keywords}
    assert [ast.unparse(each) for each in made.args] == ["globals()"]
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in keywords}
    return {each: each for each in own} | {"resampling": "seed"} | given


@pytest.mark.parametrize("name", sorted((set(available()) | set(OF)) & set(NOTEBOOKS)))
def test_every_field_is_a_parameter_or_left_out_with_a_reason(name):
    given = given_by(name)
    known, left = types_of(NOTEBOOKS[name]), LEFT_OUT.get(name, {})
    for field in fields(available()[OF.get(name, name)]):
        if field.name in left:
            assert field.name not in given, f"{name}: {field.name} is given, and left out"
            continue
        own = CALLED.get(field.name, field.name)
        assert own in known, f"{name} has no parameter {own}; add it, or say in LEFT_OUT why not"
        if field.name != "likelihood_judge":  # it is put into the probe once it has read
            names = {node.id for node in ast.walk(ast.parse(given.get(field.name, ""))) if isinstance(node, ast.Name)}
            assert names & ({own} | {"resampling", "chosen", "bl"}), f"{name}: {field.name} is not taken from {own}"


@pytest.mark.parametrize("name", sorted(LEFT_OUT))
def test_omitted_names_are_fields(name):
    assert set(LEFT_OUT[name]) <= {field.name for field in fields(available()[OF.get(name, name)])}


@pytest.mark.parametrize("name", sorted(set(NOTEBOOKS) & set(available())))
def test_default_none_has_a_numeric_type(name):
    """So that `-p n_candidates=2` is read as a number."""
    kinds = types_of(NOTEBOOKS[name])
    for own in ("n_candidates", "n_forced", "n_orders", "reliability", "n_pairs", "n_comparisons"):
        if own in kinds:
            assert "str" not in str(kinds[own]), own
