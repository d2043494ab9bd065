"""XML that means harm, or is none."""

from pathlib import Path

import pytest

from artemis_py.config import load
from artemis_py.config.document import DEPTH_LIMIT, SIZE_LIMIT_BYTES
from artemis_py.errors import ConfigError
from tests.unit.config.samples import mistakes_in, read, whole

NO_DOCTYPE = "XML: document types and entities are not allowed; remove the <!DOCTYPE …>"
ROOT = "<configuration xmlns='urn:activemq'><core xmlns='urn:activemq:core'><name>%s</name></core></configuration>"


@pytest.mark.parametrize(
    ("doctype", "line"),
    [
        ('<!DOCTYPE configuration SYSTEM "file:///etc/passwd">', 1),
        ('\n<!DOCTYPE configuration [<!ENTITY x SYSTEM "file:///etc/passwd">]>', 2),
        ('<!DOCTYPE configuration [<!ENTITY % x SYSTEM "http://127.0.0.1:9/x.dtd"> %x;]>', 1),
        ('<!-- <!DOCTYPE a> -->\n\n<!DOCTYPE configuration [<!ENTITY x "y">]>', 3),
        (
            "<!DOCTYPE configuration [<!ENTITY a0 'ha'>"
            + "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 12))
            + "]>",
            1,
        ),
    ],
    ids=["external subset", "external entity", "parameter entity", "after a comment", "billion laughs"],
)
def test_document_types_are_refused_before_they_are_read(doctype: str, line: int) -> None:
    """reliability §5.5."""
    assert mistakes_in((doctype + ROOT % "&x;").encode()) == [f"broker.xml:{line}: {NO_DOCTYPE}"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_an_unusual_encoding_hides_no_document_type(encoding: str) -> None:
    """The parser looks, not a search for bytes."""
    assert mistakes_in(('<!DOCTYPE c [<!ENTITY x "y">]>' + ROOT % "&x;").encode(encoding)) == [
        f"broker.xml:1: {NO_DOCTYPE}"
    ]


def test_a_document_type_in_a_comment_does_no_harm() -> None:
    """Only a real one is refused."""
    assert read("<!-- <!DOCTYPE x> --><name>n</name>").settings.name == "n"


def test_an_undeclared_entity_is_not_well_formed() -> None:
    """Only XML's own five are there."""
    (mistake,) = mistakes_in((ROOT % "&x;").encode())

    assert mistake.startswith("broker.xml:1: XML: is not well-formed XML: ")


def test_a_file_over_the_limit_is_not_read() -> None:
    """4 MiB, reliability §5.5."""
    data = whole(f"<!--{' ' * SIZE_LIMIT_BYTES}-->")

    assert mistakes_in(data) == ["broker.xml:0: XML: is larger than 4194304 bytes; nothing in it was read"]


def test_a_huge_file_is_not_even_taken_into_memory(tmp_path: Path) -> None:
    """A sparse file of a terabyte is refused as fast as any other."""
    path = tmp_path / "broker.xml"
    with path.open("wb") as stream:
        stream.truncate(1024**4)

    with pytest.raises(ConfigError) as caught:
        load(path, {})

    assert [problem.message for problem in caught.value.problems] == [
        "is larger than 4194304 bytes; nothing in it was read"
    ]


def test_too_deep_elements_are_refused_with_the_line() -> None:
    """64, reliability §5.5."""
    data = whole("<a>\n" * DEPTH_LIMIT + "</a>" * DEPTH_LIMIT)

    assert mistakes_in(data) == [
        f"broker.xml:{DEPTH_LIMIT + 2}: XML: elements are nested more than 64 deep; nothing in broker.xml needs that"
    ]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "broker.xml:0: XML: is empty; a configuration starts with <configuration>"),
        (b" \n", "broker.xml:0: XML: is empty; a configuration starts with <configuration>"),
        (
            b"<broker/>",
            'broker.xml:1: broker: is not the root of a broker.xml; write <configuration xmlns="urn:activemq">',
        ),
        (
            b"<configuration/>",
            'broker.xml:1: configuration: is in the wrong namespace; write <configuration xmlns="urn:activemq">',
        ),
        (
            b'<configuration xmlns="urn:activemq"/>',
            'broker.xml:1: configuration: has no core; write <core xmlns="urn:activemq:core"> inside',
        ),
        (
            b'<configuration xmlns="urn:activemq"><core/></configuration>',
            'broker.xml:1: configuration: has no core; write <core xmlns="urn:activemq:core"> inside',
        ),
    ],
)
def test_what_is_no_configuration_at_all(data: bytes, expected: str) -> None:
    """Said in one line, because nothing else can be."""
    assert mistakes_in(data) == [expected]


def test_an_element_that_is_not_closed_is_named_with_its_line() -> None:
    """libxml2's words are good enough here."""
    (mistake,) = mistakes_in(b"<configuration>\n<core>\n</configuration>")

    assert mistake.startswith("broker.xml:3: XML: is not well-formed XML: Opening and ending tag mismatch: core line 2")


def test_a_missing_file_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    """Not a traceback."""
    path = tmp_path / "broker.xml"

    with pytest.raises(ConfigError, match="file: cannot be read: No such file or directory"):
        load(path, {})


def test_comments_and_processing_instructions_are_passed_over() -> None:
    """Even in the middle of a value."""
    assert read("<?pi x?><name>a<!-- b -->c</name>").settings.name == "ac"
