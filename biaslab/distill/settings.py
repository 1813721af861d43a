"""Settings of an evaluator: validated when created, saved with the weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from biaslab.core.checks import is_whole, require_fields
from biaslab.core.errors import InputError

Texts = Sequence[str]
Inputs = Literal["reference-free", "reference-based", "output"]
Loss = Literal["regression", "classification"]
Pooling = Literal["cls", "mean", "last"]
ScorePoint = Literal["expected", "likeliest"]
#: Number of encoder-width vectors that each kind of input concatenates (Eqs. 8, 7 and Appendix 3).
BLOCKS: dict[str, int] = {"reference-free": 4, "reference-based": 6, "output": 1}


@dataclass(frozen=True)
class Settings:
    """Settings for building and training an evaluator.

    Parameters
    ----------
    encoder : str
        ``"minilm-l6"`` (embedded, all-MiniLM-L6-v2), the folder of a saved model, or a hub identifier, for example the
        paper's ``"roberta-base"`` or ``"xlm-roberta-base"``.
    inputs : {"reference-free", "reference-based", "output"}
        What the evaluator sees: output and source (Eq. 8), the reference too (Eq. 7), or the output alone, which is
        the paper's denoised variant for fluency.
    loss : {"regression", "classification"}
        Mean squared error on labels from 0 to 1, or cross-entropy over stars (Appendix 3). A label between two stars
        is split between them.
    trainable : int or "all"
        Number of trainable encoder layers, from the top: 0 (frozen: every text is encoded once, which takes seconds on
        a CPU), a number of layers, or all including the embeddings, as in the paper.
    layer : int, optional
        The layer whose output is used; layers above it are dropped. By default the last if all are trained, else three
        quarters of the way up, because the last layers of a similarity encoder lose information about how a text is
        written.
    pooling : {"cls", "mean", "last"}
        The first token, as in the paper; the mean of all; or the last token, the only one that has seen the whole text
        if the encoder is a causal model (``"smollm2-135m"``).
    hidden : tuple of int
        Sizes of the head's hidden layers, each followed by tanh and dropout, as in COMET.
    dropout : float
        Dropout in the head, 0 to below 1.
    stars : int
        Number of classes for classification.
    learning_rate, encoder_rate : float
        Learning rates of head and encoder (AdamW). The paper uses 1e-5 for all; a head on a frozen encoder needs more.
    weight_decay : float
        Weight decay of AdamW.
    batch_size, accumulate : int
        Examples per step, and number of parts in which their gradients are computed to save memory.
    epochs, patience : int, optional
        Maximum number of epochs, and of consecutive epochs without a better validation loss. By default 100 and 5 with
        a frozen encoder, else 10 (the paper's) and 3.
    validation : float
        Share of contexts held out for early stopping, 0 to below 1; with 0 the last epoch is used.
    seed : int
        Seed of the head's initial weights, the validation contexts, the order of the examples and dropout.
    score : {"expected", "likeliest"}
        For classification: the score is the expected star, or the most likely one, "a discrete score" as in Appendix
        3. Does not affect training.

    Raises
    ------
    InputError
        If a value has the wrong type or is out of range.

    Examples
    --------
    >>> Settings(trainable="all").most_epochs, Settings().most_epochs
    (10, 100)
    """

    encoder: str = "minilm-l6"
    inputs: Inputs = "reference-free"
    loss: Loss = "regression"
    trainable: int | Literal["all"] = 0
    layer: int | None = None
    pooling: Pooling = "cls"
    hidden: tuple[int, ...] = (64,)
    dropout: float = 0.1
    stars: int = 5
    learning_rate: float = 1e-3
    encoder_rate: float = 1e-5
    weight_decay: float = 0.01
    batch_size: int = 32
    accumulate: int = 1
    epochs: int | None = None
    patience: int | None = None
    validation: float = 0.15
    seed: int = 0
    score: ScorePoint = "expected"

    def __post_init__(self) -> None:
        if not isinstance(self.encoder, str) or not self.encoder:
            raise InputError("encoder", self.encoder, "a name, folder or hub identifier")
        if not isinstance(self.hidden, list | tuple) or any(not _whole(size, 1) for size in self.hidden):
            raise InputError("hidden", self.hidden, "sizes of layers, such as (64,)")
        object.__setattr__(self, "hidden", tuple(self.hidden))
        require_fields(self)
        if self.trainable != "all" and not _whole(self.trainable, 0):
            raise InputError("trainable", self.trainable, 'a number of layers, or "all"')
        for names, holds, expected in _RANGES:
            for name in names:
                if not holds(getattr(self, name)):
                    raise InputError(name, getattr(self, name), expected)

    @property
    def most_epochs(self) -> int:
        """Maximum number of epochs."""
        return self.epochs if self.epochs is not None else 10 if self.trainable else 100

    @property
    def most_waits(self) -> int:
        """Maximum number of epochs without a better validation loss."""
        return self.patience if self.patience is not None else 3 if self.trainable else 5

    def as_json(self) -> dict[str, Any]:
        """Return the settings for JSON."""
        return asdict(self) | {"hidden": list(self.hidden)}

    @classmethod
    def from_json(cls, values: object) -> Settings:
        """Return settings from their JSON form, validated.

        Raises
        ------
        InputError
            If one is missing, unknown, of the wrong type or out of range.
        """
        names = {f.name for f in fields(cls)}
        if not isinstance(values, dict) or set(values) != names:
            wrong = sorted(set(values) ^ names) if isinstance(values, dict) else values
            raise InputError("settings", wrong, f"the fields {', '.join(sorted(names))}")
        return cls(**values)


def _whole(value: object, least: int) -> bool:
    return is_whole(value, least, 1_000_000_000)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e308 < value < 1e308


_RANGES: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (("stars",), lambda value: _whole(value, 2), "a whole number from 2"),
    (("batch_size", "accumulate"), lambda value: _whole(value, 1), "a whole number from 1"),
    (("seed",), lambda value: _whole(value, 0), "a whole number from 0"),
    (("layer", "epochs", "patience"), lambda v: v is None or _whole(v, 1), "a whole number from 1, or None"),
    (("dropout", "validation"), lambda value: _number(value) and 0 <= value < 1, "a number from 0 to below 1"),
    (("learning_rate", "encoder_rate"), lambda value: _number(value) and value > 0, "a number above 0"),
    (("weight_decay",), lambda value: _number(value) and value >= 0, "0 or more"),
)
