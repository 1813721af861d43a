"""Draw tokens from next-token distributions, with separate random numbers for each row."""

from __future__ import annotations

from collections.abc import Sequence

import torch

_BLOCK = 256  # probabilities are summed in blocks, so that only the block with the drawn token needs a cumulative sum


def draw(logits: torch.Tensor, temperatures: Sequence[float], uniforms: Sequence[float]) -> list[int]:
    """Return a token per row: the most likely at temperature 0, else a sample by inverting the distribution.

    Parameters
    ----------
    logits : torch.Tensor, shape (rows, vocabulary)
        Unnormalised scores of any float type, on any device.
    temperatures : sequence of float
        One per row; 0 is greedy.
    uniforms : sequence of float
        One number in [0, 1) per row; unused if the temperature is 0.

    Examples
    --------
    >>> draw(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), [0, 1.0], [0.0, 0.1])
    [1, 0]
    """
    tokens: list[int] = logits.argmax(-1).tolist()
    rows = [row for row, temperature in enumerate(temperatures) if temperature > 0]
    if rows:
        scaled = torch.tensor([temperatures[row] for row in rows], device=logits.device)[:, None]
        sampled = _invert(logits[rows].float() / scaled, [uniforms[row] for row in rows])
        for row, token in zip(rows, sampled, strict=True):
            tokens[row] = token
    return tokens


def _invert(logits: torch.Tensor, uniforms: Sequence[float]) -> list[int]:
    """Return the first token of each row at which the cumulative probability exceeds the row's number.

    Block sums are computed on the device of the logits; cumulative sums on the CPU, in float64, where they are
    deterministic.
    """
    size = logits.shape[-1]
    weights = torch.nn.functional.pad(logits.softmax(-1), (0, -size % _BLOCK)).reshape(len(logits), -1, _BLOCK)
    upto = weights.sum(-1).to("cpu", torch.float64).cumsum(-1)
    drawn = torch.tensor(uniforms, dtype=torch.float64)[:, None] * upto[:, -1:]
    block = torch.searchsorted(upto, drawn, right=True).clamp_(max=upto.shape[-1] - 1)
    before = torch.nn.functional.pad(upto, (1, 0)).gather(-1, block)
    rows = torch.arange(len(weights), device=weights.device)
    within = weights[rows, block[:, 0].to(weights.device)].to("cpu", torch.float64).cumsum(-1)
    within *= (upto.gather(-1, block) - before) / within[:, -1:]  # makes both sums of the block equal
    token = torch.searchsorted(within, drawn - before, right=True).clamp_(max=_BLOCK - 1)
    chosen: list[int] = (block * _BLOCK + token).clamp_(max=size - 1)[:, 0].tolist()
    return chosen
