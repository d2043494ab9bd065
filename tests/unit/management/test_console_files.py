"""The files of the console: what their security policy forbids is not in them, and what they refer to is there."""

import re
from importlib.resources import files
from typing import Final

import pytest

FILES: Final = {
    each.name: each.read_text(encoding="utf-8")
    for each in files("artemis_py.console").iterdir()
    if each.name.endswith((".css", ".html", ".js", ".svg"))
}
MODULES: Final = sorted(name for name in FILES if name.endswith(".js"))

IMPORT: Final = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)";$', re.MULTILINE)
EXPORT: Final = re.compile(r"^export (?:async )?(?:function|class|const) (\w+)", re.MULTILINE)

# Ways to make markup or programs of text, and attributes that hold either.
MAKES_CODE: Final = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|setHTML|parseFromString|createContextualFragment|document\.write"
    r"|\beval\b|new Function|set(?:Timeout|Interval)\(\s*[\"'`]|srcdoc|javascript:|import\(|[\"']style[\"']"
)


def test_there_are_files() -> None:
    """The checks below look at something."""
    assert {"index.html", "console.css", "main.js"} <= FILES.keys()


@pytest.mark.parametrize("name", MODULES)
def test_module_makes_no_code_of_text(name: str) -> None:
    """Names of queues may be markup: they become text nodes, and nothing else."""
    assert MAKES_CODE.findall(FILES[name]) == []


def test_page_has_no_program_and_no_style_of_its_own() -> None:
    """The policy allows only files of the same origin (script-src and style-src 'self')."""
    page = FILES["index.html"]

    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", page) == []
    assert re.findall(r"<script[^>]*>(?!</script>)", page) == []


@pytest.mark.parametrize("name", sorted(FILES))
def test_file_names_no_other_server(name: str) -> None:
    """Nothing is loaded from elsewhere; the only URL is the name of SVG, which nobody asks for."""
    urls = re.findall(r"(?:https?:)?//[\w-]+\.[\w./-]+", FILES[name])

    assert [url for url in urls if url != "http://www.w3.org/2000/svg"] == []


def test_files_refer_to_each_other_and_to_nothing_else() -> None:
    """Without a step that builds the console, nothing else notices a module that is missing, or one that is left."""
    found = set(re.findall(r'(?:src|href)="([\w.]+)"', FILES["index.html"]))
    for name in MODULES:
        found |= {target for _, target in IMPORT.findall(FILES[name])}
        statements = re.findall(r"^import\b", FILES[name], re.MULTILINE)

        assert len(statements) == len(IMPORT.findall(FILES[name])), name
    assert found | {"index.html"} == FILES.keys()


@pytest.mark.parametrize("name", MODULES)
def test_names_that_a_module_imports_are_exported_and_used(name: str) -> None:
    """A browser notices the first mistake only when it loads the page, and the second never."""
    for names, target in IMPORT.findall(FILES[name]):
        for each in names.split(","):
            exported, _, used = each.strip().partition(" as ")

            assert exported in EXPORT.findall(FILES[target]), f"{target} does not export {exported}"
            assert len(re.findall(rf"\b{used or exported}\b", IMPORT.sub("", FILES[name]))) > 0, f"{exported} is unused"


def test_elements_that_the_frame_looks_for_are_in_the_page() -> None:
    """By their ids, which are there once."""
    ids = re.findall(r'\sid="([\w-]+)"', FILES["index.html"])
    wanted = set(re.findall(r'byId\("([\w-]+)"\)', FILES["main.js"]))

    assert wanted <= set(ids)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", sorted(FILES))
def test_lines_are_short(name: str) -> None:
    """As in the rest of the source; no tool formats these files."""
    assert [line for line in FILES[name].splitlines() if len(line) > 120 or line != line.rstrip()] == []
