"""Addresses and keys of servers: a key is read when needed, and never shown."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from biaslab.core.errors import InputError, ServerError

OPENAI = "https://api.openai.com/v1"
HIDDEN = "***"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHORT = 8  # shorter values, such as "EMPTY", are placeholders, and may be ordinary words of an answer
_SPECIAL = re.compile(r"\bsk-[\w-]{8,}")


@dataclass(frozen=True)
class Address:
    """The address of a server.

    Parameters
    ----------
    url : str
        The address to send to, without credentials.
    shown : str
        The address to display, also part of the judge's id: host, port and path.
    login : str or None
        ``Authorization`` header from credentials in the address.
    secrets : tuple of str
        Parts that must never be displayed.
    """

    url: str
    shown: str
    login: str | None = field(default=None, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, base_url: str | None) -> Address:
        """Parse an address.

        Raises
        ------
        InputError
            If it is not the address of a server; credentials in it are masked.
        """
        try:
            parts = urlsplit(base_url or OPENAI)
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            raise InputError("base_url", HIDDEN, "http(s)://host[:port]/path") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            shown = f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
            remedy = "remove the part after ? or #" if parts.query or parts.fragment else "use http://host:port/v1"
            raise InputError("base_url", shown, "a URL that starts with http:// or https://", remedy)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        shown = f"{host}{port}{parts.path.rstrip('/')}"
        url = f"{parts.scheme}://{shown}"
        if parts.username is None:
            return cls(url, shown)
        name, password = unquote(parts.username), unquote(parts.password or "")
        login = base64.b64encode(f"{name}:{password}".encode()).decode()
        return cls(url, shown, f"Basic {login}", (login, password or name))


class Key:
    """An API key from the environment or a callable; it has no repr, and can remove itself from text.

    Parameters
    ----------
    source : str, callable or None
        Name of an environment variable, or a function that returns the key. None: ``OPENAI_API_KEY`` for OpenAI
        itself, ``BIASLAB_API_KEY``, if set, for any other server, so that no key is sent to the wrong server.
    address : Address
        The server that the key is for.

    Raises
    ------
    InputError
        If the source is neither, for example the key itself, which is not displayed.
    """

    def __init__(self, source: str | Callable[[], str] | None, address: Address) -> None:
        allowed = "the name of an environment variable, or a function that returns the key"
        remedy = "set the key in the environment; do not write it into code or a notebook"
        if isinstance(source, str):
            is_name = source in os.environ or (source.isupper() and "_" in source)  # anything else may be a key
            if not _VARIABLE.fullmatch(source) or not is_name:
                raise InputError("api_key", HIDDEN, allowed, remedy)
        elif source is not None and not callable(source):
            raise InputError("api_key", HIDDEN, allowed, remedy)
        self._source, self._address = source, address
        self._secrets = set(address.secrets)
        self._header: str | None = address.login

    def __repr__(self) -> str:
        return f"Key({HIDDEN})"

    def __getstate__(self) -> object:
        raise TypeError("an API key cannot be pickled; create the judge in the process that needs it")

    def header(self, refresh: bool = False) -> str | None:
        """Return the ``Authorization`` header, or None if the server needs none; optionally reload the key.

        Raises
        ------
        ServerError
            If the key is missing; the message says where it was looked for.
        """
        if self._header is not None and not refresh:
            return self._header
        key = self._read()
        if key:
            self._secrets.add(key)
            self._header = f"Bearer {key}"
        return self._header

    def can_refresh(self) -> bool:
        """Return whether reloading may give another key."""
        return callable(self._source)

    def _read(self) -> str:
        if callable(self._source):
            try:
                key = self._source()
            except Exception as error:  # its message may contain the key
                raise ServerError(f"the function for the API key failed: {type(error).__name__}") from None
            if not isinstance(key, str) or not key.strip():
                raise ServerError("the function for the API key did not return a string; it must return the key")
            return key.strip()
        official = self._address.url == OPENAI
        name = self._source or ("OPENAI_API_KEY" if official else "BIASLAB_API_KEY")
        key = os.environ.get(name, "").strip()
        if not key and (self._source or official):
            raise ServerError(
                f"the environment variable {name} is not set; set it to the API key, or pass a function as api_key"
            )
        return key

    def hide(self, text: str) -> str:
        """Remove the key from a text."""
        for secret in self._secrets:
            if len(secret) >= _SHORT:
                text = text.replace(secret, HIDDEN)
        return _SPECIAL.sub(HIDDEN, text)

    def hide_in(self, body: bytes) -> bytes:
        """Remove the key from a response, in case a server echoes it."""
        for secret in self._secrets:
            if len(secret) >= _SHORT and (raw := secret.encode()) in body:
                body = body.replace(raw, HIDDEN.encode())
        return body
