"""Detect the encoding of a text file: UTF-8, 16 or 32 by its first bytes, else the most likely common encoding."""

from __future__ import annotations

import codecs
import json
import re
from typing import NamedTuple

from charset_normalizer import from_bytes

NO_TEXT = re.compile("[\udc80-\udcff]")
"""Matches characters that stand for undecodable bytes."""

_BEYOND_ASCII = re.compile("[^\0-\x7f\udc80-\udcff]")
_UTF_8 = "utf-8"
#: Common encodings; the first wins if several fit equally well.
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
_ZEROS = 50  # UTF-16 and UTF-32 have at least one zero in this many bytes
_CHAOS, _COHERENCE = 1.0, 5.0  # a decoding counts as equal to the best if at most this many percent worse


class Decoded(NamedTuple):
    """A text, and the encoding from which it was decoded."""

    text: str
    encoding: str


def decode(data: bytes) -> Decoded:
    r"""Decode the text of a file.

    UTF-8, 16 and 32 are recognised by a byte order mark or by zeros in the first characters. Anything else is read in
    the most likely common encoding (scored by charset-normalizer). A file that is UTF-8 except for some bytes, or in no
    known encoding, is read as UTF-8; its undecodable bytes match `NO_TEXT`.

    Examples
    --------
    >>> decode("Café A, Café B: größer, naïve\n".encode("latin-1")).encoding
    'cp1252'
    >>> decode('{"judge": "j"}'.encode("utf-16-le"))
    Decoded(text='{"judge": "j"}', encoding='utf-16-le')
    """
    detected = _unicode(data)
    text = data.decode(detected, "surrogateescape" if detected.startswith(_UTF_8) else "replace")
    damaged = len(NO_TEXT.findall(text))
    if damaged > max(1, len(_BEYOND_ASCII.findall(text))) and (likely := _likeliest(data)) is not None:
        return Decoded(data.decode(likely, "surrogateescape"), likely)
    return Decoded(text, detected.removesuffix("-sig"))


def _unicode(data: bytes) -> str:
    """Return UTF-8, 16 or 32, by byte order mark or by the zeros next to ASCII; a few stray zeros are damage."""
    detected = json.detect_encoding(data)
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE))
    return detected if marked or detected.startswith(_UTF_8) or _ZEROS * data.count(0) > len(data) else _UTF_8


def _likeliest(data: bytes) -> str | None:
    """Return the first known encoding that decodes the bytes about as well as the best one, or None."""
    matches = list(from_bytes(data, cp_isolation=list(_KNOWN)))
    if not matches:
        return None
    clear = [m for m in matches if m.percent_chaos <= min(m.percent_chaos for m in matches) + _CHAOS]
    good = [m for m in clear if m.percent_coherence >= max(m.percent_coherence for m in clear) - _COHERENCE]
    names = {name for match in good for name in match.could_be_from_charset}
    return next((name for name in _KNOWN if name in names), None)
