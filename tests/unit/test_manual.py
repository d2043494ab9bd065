"""The pages of docs/ can be found, and their links lead somewhere."""

import re
from pathlib import Path
from typing import Final

import pytest

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DOCS: Final = REPOSITORY / "docs"
PAGES: Final = sorted(DOCS.glob("*.md"))
REFERENCE: Final = sorted((DOCS / "reference").glob("*.md"))
LINK: Final = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def links_of(page: Path) -> set[Path]:
    """The files of this repository that a page links to."""
    return {(page.parent / target).resolve() for target in LINK.findall(page.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("pages", [PAGES, REFERENCE], ids=["manual", "reference"])
def test_index_names_every_page(pages: list[Path]) -> None:
    """A page that no page links to is not read."""
    index = pages[0].parent / "index.md"

    assert {page for page in pages if page != index} <= links_of(index)


@pytest.mark.parametrize("page", [REPOSITORY / "README.md", *PAGES, *REFERENCE], ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    """Pages get renamed."""
    assert [link for link in links_of(page) if not link.exists()] == []


FOLDERS: Final = ("artemis_py", "protocols", "tests", "conf", "docs", "benchmarks", "examples")
PATH: Final = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*\w/?)`")
COMING: Final = ("artemis_py/wire", "artemis_py/deployment")
"""Folders that pages describe before they are there."""


@pytest.mark.parametrize("page", [REPOSITORY / "README.md", *PAGES, *REFERENCE], ids=lambda page: page.name)
def test_paths_on_a_page_exist(page: Path) -> None:
    """Modules get moved."""
    paths = [path for path in PATH.findall(page.read_text(encoding="utf-8")) if not path.startswith(COMING)]

    assert [path for path in paths if not (REPOSITORY / path).exists()] == []
