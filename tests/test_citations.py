"""Citations resolve inside the repository, and have one form.

`artemis-model §3.8` is a section of a page in docs/reference; `AMQP 1.0 §2.6.7` a section of the standard, listed in
tests/conformance/amqp_statements.txt; `MQTT 5.0 §4.9` and `RFC 5802 §3` are public standards; `P6` and `R5` are rows of
docs/reference/reliability.md. docs/reference/index.md says so to people. test_mqtt_statements.py looks after
`[MQTT-3.8.4-2]`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from attrs import frozen

ROOT: Final = Path(__file__).resolve().parents[1]
REFERENCE: Final = ROOT / "docs" / "reference"
STATEMENTS: Final = ROOT / "tests" / "conformance" / "amqp_statements.txt"
PLACES: Final = ("artemis_py", "protocols", "pyspark_artemis", "tests", "docs", "conf", "examples", "benchmarks")
SUFFIXES: Final = (".py", ".md", ".txt", ".xml", ".xsd", ".toml", ".c", ".js", ".java", ".properties")
PASSED_BY: Final = ("node_modules", "target", "__pycache__", "build")
GENERATED: Final = ("mqtt-conformance.md", "amqp-conformance.md")
"""Pages whose rows are sections themselves."""

NUMBER: Final = r"\d+(?:\.\d+)*"
GAP: Final = r"\s+(?:# +)?"
"""Between the words of a citation: a line may end there, in a comment as well."""
STANDARDS: Final = r"AMQP Anonymous Terminus 1\.0|MQTT (?:5\.0|3\.1\.1|3\.1)|RFC \d+|IEEE 754-2008|JMS [12]\.[01]"
PAGES: Final = {path.stem: path for path in sorted(REFERENCE.glob("*.md")) if path.stem != "index"}
SOURCE: Final = f"{STANDARDS}|AMQP 1\\.0|\\b(?:{'|'.join(PAGES)})".replace(" ", GAP)
CITATION: Final = re.compile(rf"(?:(?P<source>{SOURCE}){GAP})?§(?P<number>{NUMBER})?")
CONTINUED: Final = re.compile(rf"(?:[,;]|{GAP}(?:and|to|or|with)){GAP}(?:(?:and|or){GAP})?")
CODE: Final = re.compile(r"(?<![\w`./-])([PR]\d{1,2})(?![\w`.-])")
"""A promise or a fault."""
HEADING: Final = re.compile(rf"^#+ ({NUMBER})\.? ", re.MULTILINE)
DEFINED: Final = re.compile(r"^\| ([PR]\d+) \|", re.MULTILINE)
OTHER_FORMS: Final = re.compile(
    r"\b[Rr]eference (?:§|\d+\.\d)|\bAMQP reference\b|"
    r"(?<!docs/)(?<!\()\breference/(?:artemis|amqp|reliab|spark)|\bDESIGN\b|\bSTYLE \d|"
    r"\b[Hh]ardening \d|(?<![$\w])shared/(?:reference|tools|DESIGN|STYLE)|\b[Pp]art \d,? §"
)
"""How citations were written once; the last ones named pages that are not in the repository."""


@frozen
class Citation:
    """One section sign in one file."""

    path: str
    line: int
    source: str
    number: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def files() -> Iterator[Path]:
    """What may cite."""
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*")):
            if path.suffix in SUFFIXES and not set(PASSED_BY) & set(path.relative_to(ROOT).parts):
                yield path


def cited_in(name: str, text: str) -> Iterator[Citation]:
    """Citations of one file; one that follows another without a page of its own has that one's."""
    end, source = 0, ""
    own = Path(name).stem if name.startswith("docs/reference/") else ""
    for found in CITATION.finditer(text):
        if found["source"]:
            source = re.sub(GAP, " ", found["source"])
        elif not CONTINUED.fullmatch(text[end : found.start()]):
            source = own
        end = found.end()
        line = text.count("\n", 0, end) + 1
        yield Citation(name, line, source, found["number"] or "", " ".join(found[0].split()))


def sections(page: str) -> set[str]:
    """Numbers of the headings of a reference page."""
    return set(HEADING.findall(PAGES[page].read_text(encoding="utf-8")))


def standard_sections() -> set[str]:
    """Sections of AMQP 1.0."""
    return set(re.findall(rf"^== ({NUMBER}) ", STATEMENTS.read_text(encoding="utf-8"), re.MULTILINE))


TEXTS: Final = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files()}
CITATIONS: Final = [
    citation
    for name, text in TEXTS.items()
    if not name.endswith((*GENERATED, "statements.txt", "test_citations.py", "test_amqp_statements.py"))
    for citation in cited_in(name, text)
]


def test_section_signs_follow_a_page() -> None:
    """A section sign without a page means nothing to a reader of that line."""
    lone = [str(citation) for citation in CITATIONS if not citation.source or not citation.number]

    assert lone == []


def test_cited_pages_and_sections_exist() -> None:
    """A page of docs/reference, or a standard."""
    known = {"AMQP 1.0": standard_sections()} | {page: sections(page) for page in PAGES}
    wrong = [
        str(citation)
        for citation in CITATIONS
        if citation.source
        and not re.fullmatch(STANDARDS, citation.source)
        and citation.number not in known.get(citation.source, ())
    ]

    assert wrong == []


def test_promises_and_faults_are_defined() -> None:
    """`P6` and `R5` in tests and pages are rows of docs/reference/reliability.md."""
    defined = set(DEFINED.findall(PAGES["reliability"].read_text(encoding="utf-8")))
    used = {
        (code, name) for name, text in TEXTS.items() if name.endswith((".py", ".md")) for code in CODE.findall(text)
    }

    assert [f"{name}: {code}" for code, name in sorted(used) if code not in defined] == []
    assert {code for code, _ in used} >= {"P1", "P15", "R1"}


def test_no_other_form_is_used() -> None:
    """Forms of the time when the pages were elsewhere."""
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in TEXTS.items()
        if name != "tests/test_citations.py"
        for number, line in enumerate(text.splitlines(), 1)
        if OTHER_FORMS.search(line)
    ]

    assert found == []


@pytest.mark.parametrize("page", PAGES)
def test_numbers_of_a_page_are_unique_and_in_order(page: str) -> None:
    """A number that stands twice, or elsewhere than its neighbours, is not found."""
    text = PAGES[page].read_text(encoding="utf-8")
    numbers = [tuple(map(int, number.split("."))) for number in HEADING.findall(text)]

    assert numbers == sorted(set(numbers))


def test_a_lone_sign_and_a_missing_section_are_noticed() -> None:
    """The rules above, on a text made for it."""
    text = "As in §1.2. (artemis-model §3.8, §99.1) AMQP\n    # 1.0 §2.6.7 and §2.6.8; RFC 5802 §3."

    found = [(citation.source, citation.number) for citation in cited_in("x.py", text)]

    assert found == [
        ("", "1.2"),
        ("artemis-model", "3.8"),
        ("artemis-model", "99.1"),
        ("AMQP 1.0", "2.6.7"),
        ("AMQP 1.0", "2.6.8"),
        ("RFC 5802", "3"),
    ]
