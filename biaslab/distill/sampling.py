"""Sample several texts per source from a generation model, by one of four strategies (Wang et al. 2023)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import torch

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError, JudgeError, MissingDataWarning, warn
from biaslab.core.output import progress_bar
from biaslab.core.schema import Dataset
from biaslab.distill.policy import EncodedPrompts, Ids, Policy, load_policy
from biaslab.judges.batches import halving

SamplingStrategy = Literal["top-k", "top-p", "beam", "diverse-beam"]


def collect_samples(
    model: str | Policy,
    sources: Dataset | pd.DataFrame,
    strategy: SamplingStrategy = "top-k",
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
        raise InputError.plain(f"sources lack the columns {', '.join(missing)}; a Dataset has them")
    frame = frame.assign(reference=frame.get("reference", ""))
    frame = frame[["context_id", "context", "reference"]].drop_duplicates("context_id").reset_index(drop=True)
    blank = frame["context"].str.strip() == ""
    if blank.any() or frame.empty:
        problem = f"source {frame.loc[blank, 'context_id'].iloc[0]!r} is blank" if len(frame) else "sources is empty"
        raise InputError.plain(problem)
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
    require_one_of("strategy", strategy, get_args(SamplingStrategy))
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


class Output(NamedTuple):
    """Generated text: token ids, including the end token if there is one."""

    ids: Ids
    stopped: bool


class Truncation(NamedTuple):
    """Truncation of the sampling distribution over tokens.

    Parameters
    ----------
    k : int
        Sample only from the k most likely tokens (Fan et al. 2018); 0 for all.
    p : float
        Sample only from the smallest set of most likely tokens with this total probability (Holtzman et al. 2020); 1
        for all.
    temperature : float
        Softmax temperature, applied before truncation.
    """

    k: int = 0
    p: float = 1.0
    temperature: float = 1.0

    def draw(self, logits: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
        """Return one token per row by inverting its cumulative distribution.

        Parameters
        ----------
        logits : torch.Tensor, shape (rows, vocabulary)
        uniforms : torch.Tensor, shape (rows,)
            Numbers in [0, 1).

        Returns
        -------
        torch.Tensor, shape (rows,)
        """
        logits = logits.to(device="cpu", dtype=torch.float64) / self.temperature
        ids = None
        if self.k:
            logits, ids = logits.topk(min(self.k, logits.shape[-1]))
        elif self.p < 1:
            logits, ids = logits.sort(descending=True, stable=True)
        weights = logits.softmax(-1)
        cumulative = weights.cumsum(-1)
        if self.p < 1:
            weights = weights.masked_fill(cumulative - weights >= self.p, 0.0)
            cumulative = weights.cumsum(-1)
        drawn = torch.searchsorted(cumulative, uniforms[:, None] * cumulative[:, -1:], right=True)
        # remaining mass from rounding goes to the last possible token
        last = (weights > 0).cumsum(-1).argmax(-1, keepdim=True)
        tokens = torch.minimum(drawn, last)
        return (tokens if ids is None else ids.gather(-1, tokens))[:, 0]


@torch.inference_mode()
def sample(policy: Policy, prompts: Sequence[Ids], uniforms: Floats, truncation: Truncation) -> list[list[Output]]:
    """Sample outputs; each row has its own random numbers, so results do not depend on the batch.

    Parameters
    ----------
    policy : Policy
        The model that generates.
    prompts : sequence of tuple of int
        Token ids; each prompt is read once.
    uniforms : numpy.ndarray, shape (prompts, n, steps)
        Numbers in [0, 1), one per token; the number of steps is the maximum length.
    truncation : Truncation
        Truncation of the sampling distribution.

    Returns
    -------
    list of list of Output
        For each prompt, n outputs.
    """
    reading = EncodedPrompts(policy, prompts)
    terminators = torch.tensor(policy.terminators)
    n = uniforms.shape[1]
    numbers = torch.from_numpy(uniforms).flatten(0, 1)
    alive = torch.arange(len(numbers))
    parents = alive // n
    logits = reading.logits[parents.to(reading.logits.device)]
    written: list[list[int]] = [[] for _ in numbers]
    for step in range(numbers.shape[1]):
        tokens = truncation.draw(logits, numbers[alive, step])
        for row, token in zip(alive.tolist(), tokens.tolist(), strict=True):
            written[row].append(token)
        going = ~torch.isin(tokens, terminators)
        alive, parents = alive[going], parents[going] if step == 0 else going.nonzero()[:, 0]
        if not len(alive) or step == numbers.shape[1] - 1:
            break
        device = logits.device
        logits = reading.feed(tokens[going, None].to(device), parents.to(device))[:, -1]
    outputs = [Output(tuple(ids), ids[-1] in policy.terminators) for ids in written]
    return [outputs[start : start + n] for start in range(0, len(outputs), n)]


@torch.inference_mode()
def search(
    policy: Policy, prompts: Sequence[Ids], beams: int, max_tokens: int, groups: int = 1, diversity: float = 0.0
) -> list[list[Output]]:
    """Beam search, in groups that avoid one another's tokens (diverse beam search, Vijayakumar et al. 2018).

    Beams are ranked by the sum of their log-probabilities; finished ones by that sum divided by their length,
    including the terminator. At each step, group g ranks its continuations by the sum minus ``diversity`` for each
    beam of an earlier group that has the same token (or terminator) at that step (Hamming diversity, their §4). The
    penalty affects only the ranking, not the sum. There is no early stopping: the search ends when no beam can still
    win.

    Parameters
    ----------
    policy : Policy
        The model that generates.
    prompts : sequence of tuple of int
        Token ids.
    beams : int
        Total over all groups; a multiple of ``groups``.
    max_tokens : int
        Maximum length, including the terminator.
    groups : int
        Number of groups; 1 is ordinary beam search.
    diversity : float
        Penalty in nats for each equal token.

    Returns
    -------
    list of list of Output
        For each prompt, ``beams`` outputs: the best of each group, then the second best of each, and so on.
    """
    width = beams // groups
    hunts = [[_Group(width, max_tokens, policy.terminators) for _ in range(groups)] for _ in prompts]
    reading = EncodedPrompts(policy, prompts)
    every = torch.arange(len(prompts) * beams, device=reading.logits.device)
    scores = reading.logits.float().log_softmax(-1)[every // beams].view(len(prompts), groups, width, -1)
    for step in range(1, max_tokens + 1):
        parents, tokens = [], []
        for number, hunt in enumerate(hunts):
            used = torch.zeros(scores.shape[-1], device=scores.device)
            for index, group in enumerate(hunt):
                group.advance(scores[number, index], diversity * used)
                start = number * beams + index * width
                parents += [start + beam for beam in group.parents]
                tokens += [row[-1] for row in group.rows]
                for token in group.written:
                    used[token] += 1
        if step == max_tokens or all(group.is_done for hunt in hunts for group in hunt):
            break
        old = torch.tensor(parents, device=every.device)
        fed = torch.tensor(tokens, device=every.device)[:, None]
        logits = reading.feed(fed, old // beams if step == 1 else old)[:, -1]
        scores = logits.float().log_softmax(-1).view(scores.shape)
    turns = [zip_longest(*(group.best() for group in hunt)) for hunt in hunts]
    return [[output for turn in every for output in turn if output] for every in turns]


class _Group:
    """Beams of one group: active and finished ones."""

    def __init__(self, width: int, max_tokens: int, terminators: Ids) -> None:
        self.width, self.max_tokens, self.terminators = width, max_tokens, terminators
        self.rows: list[Ids] = [()] * width
        self.sums = torch.tensor([0.0] + [-torch.inf] * (width - 1))
        self.parents = list(range(width))
        self.ended: list[tuple[float, Output]] = []
        self.written: list[int] = []

    def advance(self, scores: torch.Tensor, penalty: torch.Tensor) -> None:
        """Take one step: scores of shape (beams, vocabulary) in nats, penalty of shape (vocabulary,)."""
        totals = self.sums.to(scores.device)[:, None] + scores
        top = (totals - penalty).flatten().topk(min(totals.numel(), self.width * (1 + len(self.terminators))))
        kept: list[tuple[int, Ids, float]] = []
        self.written = []
        for rank, place in enumerate(top.indices.tolist()):
            beam, token = divmod(place, scores.shape[-1])
            row, total = (*self.rows[beam], token), float(totals[beam, token])
            if token in self.terminators:
                if rank < self.width:
                    self.ended.append((total / len(row), Output(row, True)))
                    self.written.append(token)
            elif len(kept) < self.width:
                kept.append((beam, row, total))
        while len(kept) < self.width:  # a vocabulary smaller than the number of beams
            kept.append((kept[-1][0], kept[-1][1], -torch.inf) if kept else (0, (*self.rows[0], 0), -torch.inf))
        self.written += [row[-1] for _, row, _ in kept]
        self.parents, self.rows = [k[0] for k in kept], [k[1] for k in kept]
        self.sums = torch.tensor([k[2] for k in kept])
        self.ended = sorted(self.ended, key=lambda pair: -pair[0])[: self.width]

    @property
    def is_done(self) -> bool:
        """Whether no active beam can still become one of the best."""
        reachable = float(self.sums.max()) / self.max_tokens
        return len(self.ended) == self.width and reachable <= self.ended[-1][0]

    def best(self) -> list[Output]:
        """Return the best beams, finished or truncated at the maximum length, best first."""
        sums = [(row, total) for row, total in zip(self.rows, self.sums.tolist(), strict=True) if total > -torch.inf]
        cut = [(total / len(row), Output(row, False)) for row, total in sums if len(row) == self.max_tokens]
        return [output for _, output in sorted([*self.ended, *cut], key=lambda pair: -pair[0])[: self.width]]
