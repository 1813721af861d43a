"""Bandwagon: what most people are said to believe."""

from biaslab.prompts.edits.base import edit


@edit(source="Koo et al. 2023, CoBBLEr, §3; Ye et al. 2024, Justice or Prejudice? (CALM), Table 1", place="note")
def bandwagon(name: str) -> str:
    """Say that 90 % of readers think highly of it."""
    if name[:1].isupper():  # one of two, such as "Summary A"
        return f"90 % of readers believe that {name} is the better one."
    return f"90 % of readers believe that the {name} is excellent."
