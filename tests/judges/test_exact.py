"""A label distribution is what samples of the same judge converge to."""

import numpy as np
import pytest
from scipy import stats

from biaslab.core import Choice, Completion


@pytest.mark.slow
def test_samples_converge_to_the_exact_label_distribution(embedded):
    """300 sampled answers of the embedded judge against one exact distribution over the scores 1 to 5."""
    prompt = "How fluent is the text 'The dog runs home.' from 1 to 5? Answer with one whole number."
    messages, labels = [("user", prompt), ("assistant", "Score: ")], ("1", "2", "3", "4", "5")
    [(_, reply)] = embedded.ask([Choice(messages, labels)])
    samples = [Completion(messages, 1.0, max_tokens=2, replicate=n) for n in range(300)]
    texts = [r.text for _, r in embedded.ask(samples)]
    seen = np.array([sum(t.startswith(n) and not t[1:2].isalnum() for t in texts) for n in labels])
    mass = np.exp(reply.logprobs)
    assert stats.binomtest(int(seen.sum()), 300, min(1.0, mass.sum())).pvalue > 0.001
    frequent = mass * 300 > 5
    p = mass[frequent] / mass[frequent].sum()
    assert stats.chisquare(seen[frequent], p * seen[frequent].sum()).pvalue > 0.001
