"""GPTScore: the likelihood of a candidate given source and instruction (Fu et al. 2023, arXiv 2302.04166)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from biaslab import prompts
from biaslab.core import About, Likelihood, Reply, Status, Trial
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import items


@dataclass(frozen=True)
class GPTScore:
    """Score a candidate by its mean log-probability per token, given the source and an instruction.

    Parameters
    ----------
    attributes : sequence of str, optional
        Attributes that the instruction asks for; by default all of the data set.

    Notes
    -----
    No chat template is applied: the judge reads source and instruction as plain text, continued by the candidate. The
    score is in nats per token of the judge's tokenizer, at most 0: compare candidates under one judge, never scores of
    different judges.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(GPTScore(attributes=["fluency"]), bl.SimulatedJudge(data), data, progress=False)
    >>> bool((trials["value"] < 0).all())
    True
    """

    attributes: Sequence[str] | None = None

    name: ClassVar[str] = "gpt_score"

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the likelihood of each candidate under the instruction of each attribute."""
        attributes = dataset.require_attributes(self.attributes)
        for item in items(dataset):
            for attribute in attributes:
                described = prompts.describe(dataset, attribute)
                instruction = prompts.render(
                    "gpt_score",
                    context=item.context,
                    noun=dataset.noun,
                    attribute=attribute,
                    definition=described["definition"],
                )
                own, source = (item.candidate_id,), bool(item.context.strip())
                about = About(item.context_id, own, (item.text,), (attribute,), source)
                yield Trial(
                    Likelihood(item.text, f"{instruction}\n", about),
                    item.context_id,
                    attribute,
                    item.candidate_id,
                    condition={"human": item.human[attribute]},
                )

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:  # noqa: ARG002 - as every scorer is asked
        """Return the mean log-probability of the candidate's tokens, and the status."""
        value = math.fsum(reply.logprobs) / len(reply.logprobs) if reply.logprobs else math.nan
        return (value, "ok") if math.isfinite(value) else (math.nan, "refused")
