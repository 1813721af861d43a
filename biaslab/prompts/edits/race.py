"""First names that are read as a race: the same is said of Emily and of Lakisha."""

from biaslab.prompts.edits._swapping import swapper
from biaslab.prompts.edits.base import edit

_SOURCE = "Bertrand & Mullainathan 2004, Are Emily and Greg More Employable Than Lakisha and Jamal?, Table A1 (names)"
_NAMES = """Emily/Lakisha Anne/Aisha Jill/Keisha Allison/Tamika Laurie/Tanisha Sarah/Latoya Meredith/Latonya
Todd/Rasheed Neil/Tremayne Geoffrey/Kareem Brett/Darnell Brendan/Tyrone Greg/Jamal Matthew/Hakim Brad/Jermaine"""
_names = swapper(_NAMES, (str, str.upper))


@edit(source=_SOURCE)
def race_swapped(text: str) -> str:
    """Swap first names of either kind; where a source names the persons, it changes what is said of them, too."""
    return _names(text)
