"""Identity: the stated author, and words, names and spellings of groups."""

import re
import zlib
from collections.abc import Callable, Sequence

from biaslab.prompts.edits.base import edit

_OWN = (
    "Panickssery et al. 2024, LLM Evaluators Recognize and Favor Their Own Generations (labels right, wrong, random); "
    "Germani & Spitale 2025, Source framing triggers systematic bias in large language models"
)
_LABELS = ("written by a human", "written by another AI model", "written by yourself")


@edit(source=_OWN, place="heading")
def source_random(text: str) -> str:
    """Draw one of the labels own, other and human; the same whenever the text is the same."""
    return _LABELS[zlib.crc32(text.encode("utf-8", "replace")) % len(_LABELS)]


Style = Callable[[str], str]
STYLES: tuple[Style, ...] = (str, str.capitalize, str.upper)


def swapper(pairs: str, styles: Sequence[Style] = STYLES, back: bool = True) -> Callable[[str], str]:
    """Return a function that replaces each word by its partner; without ``back``, only first words by second ones.

    Examples
    --------
    >>> swapper("king/queen man/woman")("The King of Man is a man, not a kingfisher.")
    'The Queen of Woman is a woman, not a kingfisher.'
    """
    couples = [tuple(pair.split("/")) for pair in pairs.split()]
    table = {style(one): style(other) for one, other in couples for style in styles}
    table |= {style(other): style(one) for one, other in couples for style in styles} if back else {}
    words = "|".join(sorted(map(re.escape, table), key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])")
    return lambda text: pattern.sub(lambda match: table[match[0]], text)


_GENDER = "Chen et al. 2024, Humans or LLMs as the Judge?, §3 (gender); Zhao et al. 2018, WinoBias (gender swapping)"
_words = swapper("""he/she himself/herself man/woman men/women boy/girl boys/girls male/female males/females mr/ms
father/mother fathers/mothers son/daughter sons/daughters brother/sister brothers/sisters husband/wife husbands/wives
uncle/aunt nephew/niece king/queen prince/princess gentleman/lady gentlemen/ladies actor/actress waiter/waitress
grandfather/grandmother policeman/policewoman spokesman/spokeswoman businessman/businesswoman""")
_FREE = """a about after again all an and are as at away back because before but by during for from had has he her hers
him his home if in into is it like next of off on or out over said she so than that the them then there they this to
today tomorrow too twice under until up was we were what when where which while who why will with without yesterday"""
_OWNS = rf"\s+(?!(?:{'|'.join(_FREE.split())})\b)\w"  # a word follows that can be owned
_PRONOUN = re.compile(rf"\b(?:(his|her)(?={_OWNS})|(his|hers)|(him|her))\b", re.IGNORECASE)


@edit(source=_GENDER)
def gender_swapped(text: str) -> str:
    """Swap words for men and women; where a source names the persons, it changes their words there, too."""
    return _PRONOUN.sub(_other, _words(text))


def _other(match: re.Match[str]) -> str:
    pair = (("his", "her"), ("his", "hers"), ("him", "her"))[match.lastindex - 1 if match.lastindex else 0]
    other = pair[match[0].lower() == pair[0]]
    return other.upper() if match[0].isupper() else other.capitalize() if match[0][0].isupper() else other


_RACE = "Bertrand & Mullainathan 2004, Are Emily and Greg More Employable Than Lakisha and Jamal?, Table A1 (names)"
_FIRST_NAMES = """Emily/Lakisha Anne/Aisha Jill/Keisha Allison/Tamika Laurie/Tanisha Sarah/Latoya Meredith/Latonya
Todd/Rasheed Neil/Tremayne Geoffrey/Kareem Brett/Darnell Brendan/Tyrone Greg/Jamal Matthew/Hakim Brad/Jermaine"""
_names = swapper(_FIRST_NAMES, (str, str.upper))


@edit(source=_RACE)
def race_swapped(text: str) -> str:
    """Swap first names of either kind; where a source names the persons, it changes their words there, too."""
    return _names(text)


_british = swapper(
    """color/colour colors/colours colored/coloured favor/favour favors/favours favorite/favourite honor/honour
honored/honoured labor/labour neighbor/neighbour neighbors/neighbours behavior/behaviour harbor/harbour rumor/rumour
center/centre centers/centres theater/theatre theaters/theatres liter/litre liters/litres organize/organise
organized/organised organizing/organising realize/realise realized/realised recognize/recognise recognized/recognised
analyze/analyse analyzed/analysed apologize/apologise apologized/apologised criticize/criticise criticized/criticised
defense/defence offense/offence traveled/travelled traveling/travelling canceled/cancelled gray/grey""",
    styles=(str,),
    back=False,
)


@edit(source="Fleisig et al. 2024, Linguistic Bias in ChatGPT (standard American and British English)")
def spelling_british(text: str) -> str:
    """Write British spellings for American ones; names, which have capitals, stay."""
    return _british(text)
