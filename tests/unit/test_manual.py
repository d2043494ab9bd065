"""The pages of docs/ can be found, and their links lead somewhere."""

import re
import runpy
from pathlib import Path
from typing import Final

import pytest

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DOCS: Final = REPOSITORY / "docs"
PAGES: Final = sorted(DOCS.glob("*.md"))
TUTORIALS: Final = sorted((DOCS / "tutorials").glob("*.md"))
REFERENCE: Final = sorted((DOCS / "reference").glob("*.md"))
LINK: Final = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def links_of(page: Path) -> set[Path]:
    """The files of this repository that a page links to."""
    return {(page.parent / target).resolve() for target in LINK.findall(page.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("pages", [PAGES, TUTORIALS, REFERENCE], ids=["manual", "tutorials", "reference"])
def test_index_names_every_page(pages: list[Path]) -> None:
    """A page that no page links to is not read."""
    index = pages[0].parent / "index.md"

    assert {page for page in pages if page != index} <= links_of(index)


@pytest.mark.parametrize("pages", [PAGES, TUTORIALS, REFERENCE], ids=["manual", "tutorials", "reference"])
def test_navigation_of_the_site_has_every_page(pages: list[Path]) -> None:
    """It is made of the tables of an index; a page that another sentence links to is not in them."""
    navigation = runpy.run_path(str(DOCS / "conf.py"))["navigation"]
    index = pages[0].parent / "index.md"

    lines = navigation(index.read_text(encoding="utf-8")).splitlines()

    assert sorted(line for line in lines if "/" not in line and (index.parent / f"{line}.md").exists()) == sorted(
        page.stem for page in pages if page != index
    )


def test_links_of_the_site_are_called_as_the_page_that_they_lead_to() -> None:
    """Others, and pictures, stay as they are written."""
    conf = runpy.run_path(str(DOCS / "conf.py"))
    text = "[cli.md](cli.md#data), [tutorials/](tutorials/index.md), [the store](store.md), ![x.md](x.svg)"

    found = conf["_LINK_TO_PAGE"].sub(lambda link: conf["with_title"](link, DOCS), text)

    assert found == (
        "[Command line](cli.md#data), [Tutorials](tutorials/index.md), [the store](store.md), ![x.md](x.svg)"
    )


@pytest.mark.parametrize("page", [REPOSITORY / "README.md", *PAGES, *TUTORIALS, *REFERENCE], ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    """Pages get renamed."""
    assert [link for link in links_of(page) if not link.exists()] == []


FOLDERS: Final = ("artemis_py", "protocols", "tests", "conf", "docs", "benchmarks", "examples")
PATH: Final = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*\w/?)`")
COMING: Final = ("artemis_py/wire", "artemis_py/deployment")
"""Folders that pages describe before they are there."""


@pytest.mark.parametrize("page", [REPOSITORY / "README.md", *PAGES, *TUTORIALS, *REFERENCE], ids=lambda page: page.name)
def test_paths_on_a_page_exist(page: Path) -> None:
    """Modules get moved."""
    paths = [path for path in PATH.findall(page.read_text(encoding="utf-8")) if not path.startswith(COMING)]

    assert [path for path in paths if not (REPOSITORY / path).exists()] == []
