"""Random numbers that hang on a seed and a key alone: the bits of a SHA-256 digest, cheaper than a generator each."""

from __future__ import annotations

import struct
from hashlib import sha256
from statistics import NormalDist

_UNPACK = struct.Struct(">4Q").unpack
#: Turns a uniform number into a standard normal one.
normal = NormalDist().inv_cdf


def digest_of(*parts: object) -> bytes:
    """Return 32 bytes that stand for some strings and numbers; different parts, different bytes."""
    return sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()


def uniforms(seed: int, key: bytes, detail: object = "") -> tuple[float, ...]:
    """Return four independent numbers, uniform on the open interval from 0 to 1.

    Examples
    --------
    >>> first, again = uniforms(0, digest_of("a prompt")), uniforms(0, digest_of("a prompt"))
    >>> first == again != uniforms(1, digest_of("a prompt"))
    True
    """
    bits = _UNPACK(sha256(f"{seed}:{detail}:".encode() + key).digest())
    # 52 bits and a half keep every number exact and off 0 and 1, where the normal quantile is infinite
    return tuple(((whole >> 12) + 0.5) * 2**-52 for whole in bits)
