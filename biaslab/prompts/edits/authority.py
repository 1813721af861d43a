"""Authority: a claim seems better founded where somebody is cited, or somebody of rank makes it."""

from biaslab.prompts.edits.base import constant, edit

_SOURCE = "Ye et al. 2024, Justice or Prejudice? (CALM), Table 1; Chen et al. 2024, Humans or LLMs as the Judge?"


@edit(source=_SOURCE)
def authority(text: str) -> str:
    """Cite an invented article that says nothing of the matter."""
    return f"{text.rstrip()} (Cf. Hartmann & Okafor, 2019, Annals of Applied Inquiry 14, 203–217.)"


@edit(source=_SOURCE)
def authority_address(text: str) -> str:
    """Cite an invented page of the web that says nothing of the matter."""
    return f"{text.rstrip()} (See www.annals-of-applied-inquiry.example/14/203.)"


title = constant("authority_title", "by Professor Ingrid Hartmann, PhD", "Name an author with titles.", _SOURCE)
