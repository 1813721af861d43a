"""The package that the SDK speaks HTTP through."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2 as http
else:
    import openai

    if int(openai.__version__.partition(".")[0]) >= 3:
        import httpx2 as http
    else:
        import httpx as http

__all__ = ["http"]
