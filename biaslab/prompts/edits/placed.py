"""Where an edit puts its change: into the text, behind the candidate's name, or into a note before the question."""

from __future__ import annotations

from dataclasses import dataclass

from biaslab.core.checked import checked
from biaslab.prompts.edits.base import Edit


@checked
@dataclass(frozen=True)
class Placed:
    """A candidate as a prompt shows it.

    Parameters
    ----------
    text : str
        Its text.
    heading : str
        Words in brackets behind its name; none where it is empty.
    note : str
        A sentence before the question; none where it is empty.
    edit : str
        Name of the edit that made it so; empty where the candidate is as it was.
    """

    text: str
    heading: str = ""
    note: str = ""
    edit: str = ""


@checked
def placed(edit: Edit | None, text: str, name: str) -> Placed:
    """Return a candidate as it is shown with an edit, or without one.

    Parameters
    ----------
    edit : Edit, optional
        The change; none leaves the candidate as it is.
    text : str
        Its text.
    name : str
        What the prompt calls it: "Summary A", or "summary" where one is scored.

    Examples
    --------
    >>> from biaslab.prompts.edits import find_edit
    >>> placed(find_edit(str.upper), "Rain fell.", "Summary A").text
    'RAIN FELL.'
    >>> label = Edit("label", lambda text: "revised version", place="heading")
    >>> placed(label, "Rain fell.", "Summary A")
    Placed(text='Rain fell.', heading='revised version', note='', edit='label')
    """
    if edit is None:
        return Placed(text)
    if edit.place == "heading":
        return Placed(text, heading=edit(text), edit=edit.name)
    if edit.place == "note":
        return Placed(text, note=edit(name), edit=edit.name)
    return Placed(edit(text), edit=edit.name)


@checked
def changes(edit: Edit, text: str, name: str) -> bool:
    """Say whether a candidate looks different with an edit: some find nothing to change in a text.

    Examples
    --------
    >>> from biaslab.prompts.edits import find_edit
    >>> changes(find_edit(str.upper), "RAIN", "Summary A")
    False
    """
    shown = placed(edit, text, name)
    return shown.text != text or bool(shown.heading or shown.note)
