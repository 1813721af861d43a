"""Unpack tar and zip archives; recognise files that are no logs."""

from __future__ import annotations

import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator

from biaslab.core.files import Allowance

BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, NotImplementedError)
ZIP = b"PK\x03\x04"
SHEET = "save the sheet as CSV, or in Python: biaslab.audit(pandas.read_excel(FILE))"
_UNPACK = "unpack it and pass the folder"
_FOREIGN = {
    b"\xd0\xcf\x11\xe0": SHEET,
    b"7z\xbc\xaf\x27\x1c": _UNPACK,
    b"Rar!": _UNPACK,
    b"\x28\xb5\x2f\xfd": _UNPACK,
    b"SQLite format 3": "export it: a biaslab store with `biaslab store export`, another table as CSV",
    b"\x80\x04": "pickles are not opened because they can run code: in Python, biaslab.audit(pandas.read_pickle(FILE))",
    b"\x80\x05": "pickles are not opened because they can run code: in Python, biaslab.audit(pandas.read_pickle(FILE))",
    b"ARROW1": "in Python: biaslab.audit(pandas.read_feather(FILE))",
    b"%PDF": "give the log, not a report of it",
}


def members(data: bytes, allowance: Allowance) -> Iterator[tuple[str, bytes]] | None:
    """Return names and contents of the files in a tar or zip archive, sorted by name; None if it is not an archive.

    An Inspect log is a zip that counts as one file. The unpacked size of all files counts against the allowance.
    """
    if data[257:262] == b"ustar":
        return _of_tar(data, allowance)
    if not data.startswith(ZIP):
        return None
    if is_inspect(data):
        allowance.take(sum(member.file_size for member in zipfile.ZipFile(io.BytesIO(data)).infolist()))
        return None
    return _of_zip(data, allowance)


def foreign(data: bytes) -> str | None:
    """Return a remedy for a file that cannot be a log; None if it may be one."""
    return next((remedy for magic, remedy in _FOREIGN.items() if data.startswith(magic)), None)


def is_inspect(data: bytes) -> bool:
    """Return whether a zip is an Inspect log."""
    return bool({"header.json", "_journal/start.json"} & set(names_in(data)))


def names_in(data: bytes) -> list[str]:
    """Return the names of the files in a zip; none if it is not one."""
    try:
        return zipfile.ZipFile(io.BytesIO(data)).namelist()
    except (zipfile.BadZipFile, ValueError, OSError):
        return []


def _of_tar(data: bytes, allowance: Allowance) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in sorted((m for m in archive.getmembers() if m.isfile()), key=lambda m: m.name):
            stream = archive.extractfile(member)
            if stream is not None:
                yield member.name, allowance.unpacked(allowance.read(stream))


def _of_zip(data: bytes, allowance: Allowance) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in sorted((m for m in archive.infolist() if not m.is_dir()), key=lambda m: m.filename):
            try:
                with archive.open(member) as stream:
                    whole = allowance.read(stream)
                yield member.filename, allowance.unpacked(whole)
            except RuntimeError as error:  # raised by zipfile if a password is needed
                raise zipfile.BadZipFile(str(error)) from error
