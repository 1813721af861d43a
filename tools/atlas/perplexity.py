"""Log-perplexities of the judged texts by the embedded model, kept by the hash of the text.

A run goes on where an earlier one stopped: what is kept is not computed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from biaslab.atlas.contribution import READER as READER
from biaslab.atlas.judgements import FOLDER
from biaslab.atlas.sources import SOURCES, find_source
from biaslab.core import Judge, Likelihood, Reply
from biaslab.core.output import replacing
from biaslab.datasets._files import text_key
from tools.atlas.raw_texts import TEXTS

#: Where they are kept.
KEPT = FOLDER.parent / "log_perplexities.parquet"
#: Longer texts are cut to as many tokens.
LONGEST = 512
_DIGITS = 4
_TOGETHER = 32  # texts between two savings
_NAMES = ["text", "log_perplexity"]


class Reader(Judge, Protocol):
    """A judge that has a tokenizer."""

    def encode(self, request: Any) -> list[tuple[int, ...]]:
        """Return the token sequences of a request."""


def read_kept(file: Path = KEPT) -> pd.Series:
    """Return what is kept: hash of a text → log-perplexity, in nats a token, NaN for a text of one token."""
    if not file.is_file():
        return pd.Series(dtype=float, name=_NAMES[1], index=pd.Index([], name=_NAMES[0], dtype="str"))
    return pd.read_parquet(file).set_index(_NAMES[0])[_NAMES[1]].astype(float)


def log_perplexity(reply: Reply) -> float:
    """Return −mean log P(token | tokens before it), in nats a token; NaN where there is none."""
    return round(-float(np.mean(reply.logprobs)), _DIGITS) if reply.logprobs else math.nan


def cut(text: str, count: Callable[[str], int], longest: int = LONGEST) -> str:
    """Return the beginning of a text that has at most so many tokens.

    Examples
    --------
    >>> cut("a b c d", lambda text: len(text.split()), longest=2)
    'a b'
    """
    while (tokens := count(text)) > longest:
        text = text[: max(len(text) * longest // tokens - (tokens - longest < 2), 1)]
    return text


def texts_of(folder: Path, names: Sequence[str] | None = None) -> dict[str, str]:
    """Return every text of the carried sources once: hash → text, those of the source with the shortest ones first."""
    wanted = [find_source(name) for name in names] if names else [source for source in SOURCES if source.carried]
    parts = [
        {text_key(text): text for text in TEXTS[source.name](folder)["text"] if text.strip()}
        for source in wanted
        if source.name in TEXTS
    ]
    texts: dict[str, str] = {}
    for part in sorted(parts, key=lambda part: sum(map(len, part.values())) / max(len(part), 1)):
        texts |= part
    return texts


def complete(
    folder: Path, reader: Reader, file: Path = KEPT, names: Sequence[str] | None = None
) -> Iterator[tuple[int, int]]:
    """Compute what is not kept yet, and keep it from time to time.

    Parameters
    ----------
    folder : Path
        Of raw data.
    reader : Reader
        Answers `Likelihood`.
    file : Path
        Where it is kept.
    names : sequence of str, optional
        Of sources; all that are carried by default.

    Yields
    ------
    tuple of int
        How many texts are kept, and of how many.
    """
    texts = texts_of(folder, names)
    kept: dict[str, float] = dict(read_kept(file).items())  # type: ignore[arg-type]
    missing = [key for key in texts if key not in kept]
    for start in range(0, len(missing), _TOGETHER):
        keys = missing[start : start + _TOGETHER]
        asked = {key: Likelihood(cut(texts[key], lambda text: len(reader.encode(Likelihood(text))[0]))) for key in keys}
        perplexities = {request: log_perplexity(reply) for request, reply in reader.ask(dict.fromkeys(asked.values()))}
        kept |= {key: perplexities[request] for key, request in asked.items()}
        _keep(kept, file)
        yield sum(key in kept for key in texts), len(texts)


def _keep(kept: dict[str, float], file: Path) -> None:
    frame = pd.DataFrame(sorted(kept.items()), columns=_NAMES).astype({_NAMES[1]: "float32"})
    with replacing(file) as partial:
        frame.to_parquet(partial, index=False, compression="zstd")
