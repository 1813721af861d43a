"""Detect the encoding of a text file: UTF-8 by default, else by its first bytes, else the likeliest."""

from __future__ import annotations

import codecs
import json
import re
from typing import NamedTuple

from charset_normalizer import from_bytes

NO_TEXT = re.compile("[\udc80-\udcff]")
"""Matches the characters that stand for bytes which the encoding cannot decode."""

_BEYOND_ASCII = re.compile("[^\0-\x7f\udc80-\udcff]")
_UTF_8 = "utf-8"
#: Encodings that files are saved in today, the likeliest first where several read a file as well.
_KNOWN = (
    "cp1252",
    "cp1250",
    "cp1251",
    "cp932",
    "gb18030",
    "cp949",
    "big5",
    "euc_jp",
    "koi8_r",
    *(f"cp{number}" for number in range(1253, 1259)),
    "cp866",
    "mac_roman",
)
_ZEROS = 50  # one byte in so many is zero at least where characters have several bytes each
_CHAOS, _COHERENCE = 1.0, 5.0  # percent by which one reading may be worse than the best and pass for as good


class Decoded(NamedTuple):
    """A text, and the encoding that its bytes were read as."""

    text: str
    encoding: str


def decode(data: bytes) -> Decoded:
    r"""Return the text of a file.

    UTF-8, 16 and 32 are told by a byte order mark, or by the zeros in their first characters. What is not UTF-8 is read
    as the likeliest encoding that people save files in (charset-normalizer tells how well each fits). A file that is
    UTF-8 but for some bytes, or of no known encoding, is read as UTF-8 in which these bytes match `NO_TEXT`.

    Examples
    --------
    >>> decode("Café A, Café B: größer, naïve\n".encode("latin-1")).encoding
    'cp1252'
    >>> decode('{"judge": "j"}'.encode("utf-16-le"))
    Decoded(text='{"judge": "j"}', encoding='utf-16-le')
    """
    told = _unicode(data)
    text = data.decode(told, "surrogateescape" if told.startswith(_UTF_8) else "replace")
    damaged = len(NO_TEXT.findall(text))
    if damaged > max(1, len(_BEYOND_ASCII.findall(text))) and (likely := _likeliest(data)) is not None:
        return Decoded(data.decode(likely, "surrogateescape"), likely)
    return Decoded(text, told.removesuffix("-sig"))


def _unicode(data: bytes) -> str:
    """Return UTF-8, 16 or 32, by a byte order mark or the zeros beside ASCII; some zeros alone are damage."""
    told = json.detect_encoding(data)
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE))
    return told if marked or told.startswith(_UTF_8) or _ZEROS * data.count(0) > len(data) else _UTF_8


def _likeliest(data: bytes) -> str | None:
    """Return the first of the known encodings that reads the bytes as well as any; None if none reads them."""
    matches = list(from_bytes(data, cp_isolation=list(_KNOWN)))
    if not matches:
        return None
    clear = [m for m in matches if m.percent_chaos <= min(m.percent_chaos for m in matches) + _CHAOS]
    good = [m for m in clear if m.percent_coherence >= max(m.percent_coherence for m in clear) - _COHERENCE]
    names = {name for match in good for name in match.could_be_from_charset}
    return next((name for name in _KNOWN if name in names), None)
