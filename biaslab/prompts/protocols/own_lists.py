"""biaslab's own prompts for lists of candidates: the best one, or a ranking."""

from __future__ import annotations

from functools import cache

from biaslab.prompts.protocols.protocol import Protocol

_TEXTS = """{% if context.strip() %}{{ context }}

{% endif %}{% for candidate in candidates %}{{ candidate.name }} {{ candidate.text }}

{% endfor %}"""
_BEST = "Which {{ noun }} is best in {{ attribute }}? {{ definition }}\n\nAnswer with its number in brackets only."
_RANKING = """Rank all {{ k }} by {{ attribute }}, the best first. {{ definition }}

Answer with the numbers only, in the form [] > [] > []."""


@cache
def list_protocol(ranks: bool = False, label: bool = True) -> Protocol:
    """Return biaslab's own protocol for lists.

    Parameters
    ----------
    ranks : bool
        Ask for a ranking instead of the best candidate.
    label : bool
        Ask for the probability of each candidate's number, if the best is requested.

    Examples
    --------
    >>> list_protocol().list_labels(3), list_protocol(ranks=True).write_list((2, 1, 3))
    (('[1]', '[2]', '[3]'), '[2] > [1] > [3]')
    """
    return Protocol.from_template(
        _TEXTS + (_RANKING if ranks else _BEST),
        "list",
        replies="order" if ranks else "best",
        answer="label" if label and not ranks else "text",
        syntax="jinja2",
        max_tokens=128 if ranks else 16,
        name="list_ranking" if ranks else "list_best",
    )
