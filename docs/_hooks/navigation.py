"""The navigation by what a reader has: ``guides/index.md`` is its only list, and each page stands there once.

Its headings are the tabs; an index page that it lists stands for its folder. The reference and the appendix come last.
The site's ``llms.txt`` lists all pages in this order, each with its first sentence, for programs that read the site.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.nav import Section
from mkdocs.utils import nest_paths

GUIDES = "guides/index.md"
LAST = ("reference", "appendix")
LISTED = re.compile(r"^\* \[[^]]+\]\(([\w./]+\.md)\)", re.M)
PROSE = re.compile(r"(?![#|!<>`]|\* |\*\w|:::|---)")
SENTENCE = re.compile(r".*?[.?!](?= [A-Z]|$)|.+", re.S)
_SHOWN: list[Any] = []


def on_files(files: Any, config: Any) -> None:
    """Order the pages as the guides are listed; it is an error to leave one out."""
    uris = sorted((file.src_uri for file in files.documentation_pages()), key=_place)
    text = files.get_file_from_path(GUIDES).content_string
    _, *sections = re.split(r"^## (.+)\n", text, flags=re.M)
    nav = [{title: _pages(listed, uris)} for title, listed in zip(sections[::2], sections[1::2], strict=True)]
    nav[0] = {"Start": ["index.md", *next(iter(nav[0].values())), GUIDES]}
    nav += [part for last in LAST for part in nest_paths([uri for uri in uris if uri.startswith(f"{last}/")])]
    shown = [uri for section in nav for uri in _flat(section)]
    if sorted(shown) != sorted(uris):
        raise ValueError(f"{GUIDES} lists not each page once: {sorted({*shown} ^ {*uris}) or 'one twice'}")
    config.nav = nav


def on_nav(nav: Any, **_: Any) -> None:
    """Keep the navigation until pages have titles."""
    _SHOWN[:] = nav.items


def on_env(*_: Any, **__: Any) -> None:
    """Name each folder as its index page is."""
    for section in _SHOWN:
        name(section.children)


def name(items: list[Any]) -> None:
    """Name the sections among some items, and those in them."""
    for section in items:
        if isinstance(section, Section):
            if section.children[0].is_page and section.children[0].is_index:
                section.title = section.children[0].title
            name(section.children)


def on_post_build(config: Any) -> None:
    """Write the list of all pages."""
    parts = [f"# {config.site_name}\n\n> {config.site_description}"]
    parts += ["\n".join([f"## {section.title}\n", *map(_line, _leaves(section))]) for section in _SHOWN]
    Path(config.site_dir, "llms.txt").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _line(page: Any) -> str:
    """Return the title of a page, and the first sentence of its first paragraph."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->|^<.+?>$", "", page.markdown or "", flags=re.M | re.S)
    blocks = (" ".join(block.split()) for block in re.split(r"\n\s*\n", text))
    said = next(filter(PROSE.match, filter(None, blocks)), "")
    plain = re.sub(r"\[([^]]+)\]\[[^]]*\]|\[([^]]+)\]\([^)]*\)|\*\*", r"\1\2", said)
    return f"* [{page.title}]({page.url})" + (f": {SENTENCE.match(plain)[0].rstrip(':')}" if plain else "")


def _leaves(item: Any) -> list[Any]:
    return [item] if item.is_page else [page for child in item.children for page in _leaves(child)]


def _pages(listed: str, uris: list[str]) -> list[Any]:
    """Return what a list of links leads to: pages, and folders for their index pages."""
    found: list[Any] = []
    for link in LISTED.findall(listed):
        uri = posixpath.normpath(posixpath.join("guides", link))
        folder = posixpath.dirname(uri)
        whole = [each for each in uris if each.startswith(f"{folder}/")] if uri.endswith("/index.md") else []
        found.append({folder: whole} if whole else uri)
    return found


def _flat(part: Any) -> list[str]:
    return (
        [part] if isinstance(part, str) else [uri for parts in part.values() for each in parts for uri in _flat(each)]
    )


def _place(uri: str) -> list[str]:
    return ["" if part == "index.md" else part.removesuffix(".md") for part in uri.split("/")]
