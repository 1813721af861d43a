"""Judges: whoever answers requests, behind one method."""

from __future__ import annotations

from biaslab.core import Judge
from biaslab.datasets.schema import Dataset
from biaslab.errors import InputError

_SIMULATED = ("quality", "position", "noise", "refusal", "seed")


def available() -> dict[str, str]:
    """Return the ways to name a judge on the command line and in notebooks, with what each means."""
    return {
        "smollm2-135m": "the embedded judge, SmolLM2-135M-Instruct: small, real, runs anywhere",
        "<folder>": "a model saved by transformers",
        "<file>.gguf": "a GGUF file",
        "<organisation>/<model>": "a model of the Hugging Face hub",
        "simulated[:name=value,…]": f"a judge with planted biases: {', '.join(_SIMULATED)}",
    }


def load_judge(name: str, dataset: Dataset | None = None) -> Judge:
    """Make a judge from its name, as the command line and the notebooks do.

    Parameters
    ----------
    name : str
        See `available`.
    dataset : Dataset, optional
        What a simulated judge takes its true scores from.

    Raises
    ------
    InputError
        If a planted value is unknown or not a number, or a simulated judge has no data set.
    ModelLoadError
        If there is no such model.

    Examples
    --------
    >>> import biaslab as bl
    >>> load_judge("simulated:position=0.5", bl.load_dataset("graded", limit=2)).position
    0.5
    """
    if name.split(":")[0] == "simulated":
        from biaslab.judges.simulated import SimulatedJudge

        if dataset is None:
            raise InputError("dataset", dataset, "the data set whose scores a simulated judge knows")
        return SimulatedJudge(dataset, **_planted(name.partition(":")[2]))  # type: ignore[arg-type]
    from biaslab.judges.local import LocalJudge

    return LocalJudge(name)


def _planted(text: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if key not in _SIMULATED or number != number:
            raise InputError("judge", part, f"name=number, the name one of {', '.join(_SIMULATED)}")
        values[key] = int(number) if key == "seed" else number
    return values
