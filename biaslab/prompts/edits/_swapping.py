"""Words swapped for words, whole ones only, in the case in which they stand."""

import re
from collections.abc import Callable, Sequence

Style = Callable[[str], str]
STYLES: tuple[Style, ...] = (str, str.capitalize, str.upper)


def swapper(pairs: str, styles: Sequence[Style] = STYLES, back: bool = True) -> Callable[[str], str]:
    """Make a function that puts the other word of a pair for each; without ``back`` the second for the first only.

    Examples
    --------
    >>> swapper("king/queen man/woman")("The King of Man is a man, not a kingfisher.")
    'The Queen of Woman is a woman, not a kingfisher.'
    """
    given = [tuple(pair.split("/")) for pair in pairs.split()]
    table = {style(one): style(other) for one, other in given for style in styles}
    table |= {style(other): style(one) for one, other in given for style in styles} if back else {}
    words = "|".join(sorted(map(re.escape, table), key=len, reverse=True))
    found = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])")
    return lambda text: found.sub(lambda match: table[match[0]], text)
