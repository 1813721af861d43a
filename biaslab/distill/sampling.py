"""Sample several texts per source from a generation model, by one of four strategies (Wang et al. 2023)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError, JudgeError, MissingDataWarning, warn
from biaslab.core.progress import progress_bar
from biaslab.core.schema import Dataset
from biaslab.distill.candidates import Output, Truncation, sample, search
from biaslab.distill.policy import Ids, Policy, load_policy
from biaslab.judges.batches import halving

Strategy = Literal["top-k", "top-p", "beam", "diverse-beam"]


def collect_samples(
    model: str | Policy,
    sources: Dataset | pd.DataFrame,
    strategy: Strategy = "top-k",
    n: int = 4,
    *,
    prompt: str | None = None,
    k: int = 50,
    p: float = 0.9,
    temperature: float = 1.0,
    beams: int | None = None,
    groups: int | None = None,
    diversity: float = 0.5,
    max_tokens: int = 64,
    seed: int = 0,
    batch_rows: int = 32,
    device: str | None = None,
    progress: bool = True,
) -> Dataset:
    r"""Generate several texts for each source, as candidates of a data set.

    Parameters
    ----------
    model : str or Policy
        ``"smollm2-135m"`` (embedded), a folder, a ``.gguf`` file or a hub identifier, causal or encoder–decoder; or a
        loaded policy.
    sources : Dataset or pandas.DataFrame
        Its contexts are the sources; a frame needs ``context_id, context`` and optionally ``reference``.
    strategy : {"top-k", "top-p", "beam", "diverse-beam"}
        Table 6 of the paper: sample from the k most likely tokens (Fan et al. 2018), from the most likely tokens with
        total probability p (Holtzman et al. 2020; p = 1 is unrestricted sampling), beam search, or beam search in
        groups that avoid one another's tokens (Vijayakumar et al. 2018).
    n : int
        Number of texts per source (Appendix 3).
    prompt : str, optional
        The request, with ``{source}`` for the source; by default the source alone, or the policy's own prompt.
    k, p, temperature
        Parameters of the sampling strategies.
    beams : int, optional
        Number of beams; by default ``n``. The n best are used.
    groups : int, optional
        Number of groups for diverse beams; by default each beam is its own group.
    diversity : float
        Penalty in nats for a token used by an earlier group; above 0.
    max_tokens : int
        Maximum length of a text. Longer ones are truncated, and counted in the provenance.
    seed : int
        Random seed. Text i of a source depends only on the model, the settings, the seed, the source and i, not on
        ``n``, the batch or the other sources (except for rounding, which batching may change).
    batch_rows : int
        Maximum number of texts generated at once.
    device : str, optional
        By default CUDA, else MPS, else the CPU.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Dataset
        Candidates of the systems ``"top-k-1"``, ``"top-k-2"``, …, in that order, with the reference of their source
        and no human scores. Attributes, scale and noun are those of ``sources``. The provenance records model,
        strategy, settings, prompt and seed. Texts may be equal; blank ones are dropped.

    Raises
    ------
    InputError
        If a value is out of range or a column is missing.
    ModelLoadError
        If the model does not exist.
    PromptTooLongError
        Before generation, if a source does not fit the context window.

    Warns
    -----
    MissingDataWarning
        If a source has no text because the model generated only blank ones.

    Notes
    -----
    transformers 5 runs diverse beam search only with code from its hub; here it is biaslab's own (`search`), and so is
    plain beam search, which is tested against that of transformers.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> prompt = "Summarise this text in one sentence.\n\n{source}"
    >>> samples = collect_samples("smollm2-135m", data, "top-k", 4, prompt=prompt)  # doctest: +SKIP
    """
    settings = _settings(strategy, n, k, p, temperature, beams, groups, diversity)
    for name, value in (("n", n), ("max_tokens", max_tokens), ("batch_rows", batch_rows)):
        if value < 1:
            raise InputError(name, value, "a whole number of at least 1")
    contexts = source_frame(sources)
    policy = load_policy(model, prompt, device=device)
    prompts = [policy.read(text, max_tokens) for text in contexts["context"]]
    rows = []
    with progress_bar(total=len(contexts) * n, desc=f"{strategy} samples", unit="text", disable=not progress) as bar:
        for index, outputs in _write(policy, contexts, prompts, settings, n, max_tokens, seed, batch_rows):
            rows += [(index, number, policy.decode(o.ids), o.stopped) for number, o in enumerate(outputs, start=1)]
            bar.update(n)
    described = ", ".join(f"{name} {value:g}" for name, value in settings.items() if name != "strategy")
    how = f"{policy.name}, {strategy} ({described}), {n} texts a source, at most {max_tokens} tokens, seed {seed}"
    return _dataset(sources, contexts, sorted(rows), strategy, f"Written by {how}, prompt {policy.prompt!r}")


def source_frame(sources: Dataset | pd.DataFrame) -> pd.DataFrame:
    """Return one row per source: ``context_id, context, reference``.

    Raises
    ------
    InputError
        If a column is missing, a source is blank or there are no sources.
    """
    frame = sources.candidates if isinstance(sources, Dataset) else sources
    missing = [name for name in ("context_id", "context") if name not in frame]
    if missing:
        raise InputError("sources", f"without {', '.join(missing)}", "a Dataset, or a frame with context_id, context")
    frame = frame.assign(reference=frame.get("reference", ""))
    frame = frame[["context_id", "context", "reference"]].drop_duplicates("context_id").reset_index(drop=True)
    blank = frame["context"].str.strip() == ""
    if blank.any() or frame.empty:
        problem = f"context {frame.loc[blank, 'context_id'].iloc[0]!r} is blank" if len(frame) else "empty"
        raise InputError("sources", problem, "a text for each source")
    return frame


def random_numbers(rows: int, steps: int, *parts: object) -> Floats:
    """Return reproducible numbers in [0, 1), shape (rows, steps); adding rows does not change the first ones."""
    seed = int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:16], "big")
    return np.random.default_rng(seed).random((rows, steps))


def in_batches(prompts: Sequence[Ids], rows: int, most: int) -> Iterator[list[int]]:
    """Yield batches of prompts of similar length, by index, with at most ``most`` outputs, ``rows`` of each prompt."""
    order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), i))
    size = max(1, most // rows)
    for start in range(0, len(order), size):
        yield order[start : start + size]


def _settings(
    strategy: str, n: int, k: int, p: float, temperature: float, beams: int | None, groups: int | None, diversity: float
) -> dict[str, Any]:
    """Return the settings of the strategy, validated."""
    require_one_of("strategy", strategy, get_args(Strategy))
    if strategy in ("top-k", "top-p"):
        if not 0 < temperature < float("inf"):
            raise InputError("temperature", temperature, "a number above 0", "top-k with k=1 is greedy")
        if strategy == "top-k" and k < 1:
            raise InputError("k", k, "a whole number of at least 1")
        if strategy == "top-p" and not 0 < p <= 1:
            raise InputError("p", p, "a number above 0, at most 1")
        own = {"k": k} if strategy == "top-k" else {"p": p}
        return {"strategy": strategy, **own, "temperature": temperature}
    beams = n if beams is None else beams
    if beams < n:
        raise InputError("beams", beams, f"at least n, {n}")
    if strategy == "beam":
        return {"strategy": strategy, "beams": beams}
    groups = beams if groups is None else groups
    if groups < 1 or beams % groups:
        raise InputError("groups", groups, f"a divisor of the {beams} beams")
    if not 0 < diversity < float("inf"):
        raise InputError("diversity", diversity, "a number above 0", "choose the strategy beam")
    return {"strategy": strategy, "beams": beams, "groups": groups, "diversity": diversity}


def _write(
    policy: Policy,
    contexts: pd.DataFrame,
    prompts: Sequence[Ids],
    settings: Mapping[str, Any],
    n: int,
    max_tokens: int,
    seed: int,
    batch_rows: int,
) -> Iterator[tuple[int, list[Output]]]:
    """Yield the index of a source and its outputs, batch by batch."""
    ids = contexts["context_id"].tolist()

    def run(batch: Sequence[int]) -> list[list[Output]]:
        read = [prompts[i] for i in batch]
        if "beams" in settings:
            groups, diversity = settings.get("groups", 1), settings.get("diversity", 0.0)
            return [outputs[:n] for outputs in search(policy, read, settings["beams"], max_tokens, groups, diversity)]
        uniforms = np.array([random_numbers(n, max_tokens, seed, ids[i], prompts[i]) for i in batch])
        truncation = Truncation(settings.get("k", 0), settings.get("p", 1.0), settings["temperature"])
        return sample(policy, read, uniforms, truncation)

    for batch in in_batches(prompts, settings.get("beams", n), batch_rows):
        while batch:
            done = halving(run, batch, lambda: None, batch[0])
            yield from zip(batch, done, strict=False)
            batch = batch[len(done) :]


def _dataset(
    sources: Dataset | pd.DataFrame,
    contexts: pd.DataFrame,
    rows: Sequence[tuple[int, int, str, bool]],
    strategy: str,
    how: str,
) -> Dataset:
    """Create the data set, and report truncated and missing texts."""
    written = pd.DataFrame(rows, columns=["source", "number", "text", "stopped"])
    blank = written["text"] == ""
    kept = written[~blank]
    lost = sorted(set(range(len(contexts))) - set(kept["source"]))
    if kept.empty:
        raise JudgeError(f"all {len(written)} texts are blank; change the prompt or raise max_tokens")
    if lost:
        names = ", ".join(contexts["context_id"].iloc[lost[:5]])
        warn(f"{len(lost)} sources have only blank texts: {names}", MissingDataWarning)
    frame = contexts.iloc[kept["source"]].reset_index(drop=True)
    systems = [f"{strategy}-{number}" for number in kept["number"]]
    frame = frame.assign(candidate_id=systems, system=systems, text=kept["text"].to_numpy())
    cut = int((~written["stopped"]).sum())
    facts = f"{how}; {cut} of {len(written)} texts cut, {int(blank.sum())} blank ones left out."
    human = pd.DataFrame(columns=["context_id", "candidate_id", "attribute", "annotator", "score"])
    if isinstance(sources, Dataset):
        about = (dict(sources.attributes), sources.scale, sources.noun, f"{facts} Sources: {sources.provenance}")
        return Dataset(f"{strategy} samples of {sources.name}", frame, human, *about)
    return Dataset(f"{strategy} samples", frame, human, {}, provenance=facts)
