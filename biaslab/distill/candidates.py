"""Generate texts by truncated sampling, or by beam search, plain or diverse."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import torch

from biaslab.core.arrays import Floats
from biaslab.distill.policy import Ids, Policy, Reading


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
    reading = Reading(policy, prompts)
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
    reading = Reading(policy, prompts)
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
        cut = [
            (total / len(row), Output(row, False))
            for row, total in zip(self.rows, self.sums.tolist(), strict=True)
            if total > -torch.inf and len(row) == self.max_tokens
        ]
        return [output for _, output in sorted([*self.ended, *cut], key=lambda pair: -pair[0])[: self.width]]
