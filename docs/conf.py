"""How Sphinx makes a site of the manual (`tox run -e docs`).

The pages are plain Markdown and say nothing of Sphinx, so that they read well in any viewer. What a site needs besides
is added here: the navigation follows the tables of the `index.md` files, and links are called as the page they lead to.
"""

import re
from configparser import ConfigParser
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_setup = ConfigParser()
_setup.read(HERE.parent / "setup.cfg", encoding="utf-8")

project = "artemis_py"
author = _setup["metadata"]["author"]
release = version = _setup["metadata"]["version"]
project_copyright = author

extensions = ["myst_parser"]
# Links of the form page.md#section, as viewers of Markdown make them.
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]
highlight_language = "none"

html_theme = "furo"
html_title = f"{project} {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK_TO_PAGE = re.compile(r"(?<!!)\[[\w./-]+(?:\.md|/)\]\(([\w./-]+\.md)(#[\w-]+)?\)")
_ROW = re.compile(r"^\| \[[^\]]+\]\(([^)#]+)\.md\)", re.MULTILINE)


def navigation(text: str) -> str:
    """The toctrees of an index page: one for each section that has a table of pages, with its title as caption."""
    trees = []
    head, *sections = _SECTION.split(text)
    for caption, body in [("", head), *zip(sections[::2], sections[1::2], strict=True)]:
        if pages := _ROW.findall(body):
            options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
            trees.append("\n".join(["```{toctree}", *options, "", *pages, "```"]))
    return "\n\n".join(trees)


def with_title(link: re.Match[str], folder: Path) -> str:
    """A link such as [cli.md](cli.md#data), which is right in a folder, with the title of the page as its text."""
    title = (folder / link[1]).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    return f"[{title}]({link[1]}{link[2] or ''})"


def _prepare(app: Any, name: str, source: list[str]) -> None:
    if Path(name).name == "index":
        source[0] += f"\n\n{navigation(source[0])}\n"
    folder = HERE / Path(name).parent
    source[0] = _LINK_TO_PAGE.sub(lambda link: with_title(link, folder), source[0])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _prepare)
