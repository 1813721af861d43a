"""Gender: the same is said of a man and of a woman."""

import re

from biaslab.prompts.edits._swapping import swapper
from biaslab.prompts.edits.base import edit

_SOURCE = "Chen et al. 2024, Humans or LLMs as the Judge?, §3 (gender); Zhao et al. 2018, WinoBias (gender swapping)"
_words = swapper("""he/she himself/herself man/woman men/women boy/girl boys/girls male/female males/females mr/ms
father/mother fathers/mothers son/daughter sons/daughters brother/sister brothers/sisters husband/wife husbands/wives
uncle/aunt nephew/niece king/queen prince/princess gentleman/lady gentlemen/ladies actor/actress waiter/waitress
grandfather/grandmother policeman/policewoman spokesman/spokeswoman businessman/businesswoman""")
_FREE = """a about after again all an and are as at away back because before but by during for from had has he her hers
him his home if in into is it like next of off on or out over said she so than that the them then there they this to
today tomorrow too twice under until up was we were what when where which while who why will with without yesterday"""
_OWNS = rf"\s+(?!(?:{'|'.join(_FREE.split())})\b)\w"  # a word follows that can be owned
_PRONOUN = re.compile(rf"\b(?:(his|her)(?={_OWNS})|(his|hers)|(him|her))\b", re.IGNORECASE)


@edit(source=_SOURCE)
def gender_swapped(text: str) -> str:
    """Swap words for men and women; where a source names the persons, it changes what is said of them, too."""
    return _PRONOUN.sub(_other, _words(text))


def _other(found: re.Match[str]) -> str:
    pair = (("his", "her"), ("his", "hers"), ("him", "her"))[found.lastindex - 1 if found.lastindex else 0]
    other = pair[found[0].lower() == pair[0]]
    return other.upper() if found[0].isupper() else other.capitalize() if found[0][0].isupper() else other
