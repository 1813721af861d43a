"""Decompress data as a stream, up to a limit: 4 kB of bzip2 can contain 6 GB of zeros."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import os
from collections.abc import Callable
from typing import IO, Any

from biaslab.core.errors import InputError

#: Environment variable that raises the limit (in GB).
LIMIT = "BIASLAB_UNPACKED_GB"
_GB = 10**9
_MOST = 2 * _GB
_SURE = 256 * 10**6  # any file may decompress to this size
_RATIO = 500  # logs compress to a hundredth at best, bombs to a thousandth or less
_PART = 2**20
_PACKED: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}


class Allowance:
    """Limit the decompressed size of one file.

    Parameters
    ----------
    name : str
        File name, for the message.
    size : int
        Compressed size in bytes. The limit is 500 times that or 256 MB, whichever is larger, but at most 2 GB, unless
        the environment variable ``BIASLAB_UNPACKED_GB`` is set.

    Examples
    --------
    >>> import gzip
    >>> Allowance("log.gz", 100).unpacked(gzip.compress(b"a line"))
    b'a line'
    """

    def __init__(self, name: str, size: int) -> None:
        allowed = _limit_in_environment()
        self._name = name
        self._whole = self._left = min(_MOST, max(_SURE, _RATIO * size)) if allowed is None else allowed

    def unpacked(self, data: bytes) -> bytes:
        """Return decompressed data, also from nested compression.

        Raises
        ------
        InputError
            If the result is larger than allowed; the message says how to raise the limit.
        OSError, EOFError, zlib.error, lzma.LZMAError
            If the data are damaged.
        """
        while opened := next((how for magic, how in _PACKED.items() if data.startswith(magic)), None):
            data = self.read(opened(io.BytesIO(data)))
        return data

    def read(self, stream: IO[bytes] | io.BufferedIOBase) -> bytes:
        """Read a stream to its end, raising like `unpacked`."""
        whole = io.BytesIO()
        while chunk := stream.read(_PART):
            self.take(len(chunk))
            whole.write(chunk)
        return whole.getvalue()

    def take(self, size: int) -> None:
        """Count decompressed bytes, raising like `unpacked`."""
        self._left -= size
        if self._left < 0:
            allowed = f"a file of at most {self._whole / _GB:.3g} GB when decompressed"
            raise InputError("path", self._name, allowed, f"if you trust it, set {LIMIT} to a larger size in GB")


def _limit_in_environment() -> int | None:
    """Return the size limit set in the environment, in bytes."""
    setting = os.environ.get(LIMIT, "").strip()
    try:
        gigabytes = float(setting) if setting else math.nan
    except ValueError:
        gigabytes = -1.0
    if gigabytes <= 0 or math.isinf(gigabytes):
        raise InputError(LIMIT, setting, "a number of GB above 0")
    return None if math.isnan(gigabytes) else int(gigabytes * _GB)
