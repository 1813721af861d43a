"""The navigation in a newcomer's order, though there is no list of pages: what is not named here stands behind."""

from typing import Any

from mkdocs.structure.nav import Section
from mkdocs.utils import nest_paths

FIRST = ("index.md", "install.md", "tutorial.md", "notebooks", "guides", "biases", "reference")
_SHOWN: list[Any] = []


def on_files(files: Any, config: Any) -> None:
    """Order the pages: those named here, then all others by name, the index of a folder before what is in it."""
    config.nav = nest_paths(sorted((file.src_uri for file in files.documentation_pages()), key=_place))


def on_nav(nav: Any, **_: Any) -> None:
    """Keep the navigation until pages have titles."""
    _SHOWN[:] = nav.items


def on_env(*_: Any, **__: Any) -> None:
    """Name each folder as its index page is."""
    name(_SHOWN)


def name(items: list[Any]) -> None:
    """Name the sections among some items, and those in them."""
    for section in items:
        if isinstance(section, Section):
            if section.children[0].is_page and section.children[0].is_index:
                section.title = section.children[0].title
            name(section.children)


def _place(uri: str) -> tuple[int, list[str]]:
    parts = uri.split("/")
    place = FIRST.index(parts[0]) if parts[0] in FIRST else len(FIRST)
    return place, ["" if part == "index.md" else part.removesuffix(".md") for part in parts]
