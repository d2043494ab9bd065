"""Values from outside the file."""

from pathlib import Path

import pytest

from tests.unit.config.samples import mistakes, read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${NAME}", "there"),
        ("${NAME:default}", "there"),
        ("${OTHER:default}", "default"),
        ("${OTHER:}x", "x"),
        ("a-${NAME}-${OTHER:b:c}-d", "a-there-b:c-d"),
        ("$NAME {x}", "$NAME {x}"),
    ],
)
def test_variables_are_filled_in(text: str, expected: str) -> None:
    """`${name}` and `${name:default}`, anywhere in a text."""
    assert read(f"<name>{text}</name>", NAME="there").settings.name == expected


def test_variables_are_filled_into_attributes() -> None:
    """A match, a role or a name can come from outside too."""
    config = read('<addresses><address name="${A:x}"><anycast/></address></addresses>', A="orders")

    assert config.addresses[0].name == "orders"


def test_a_value_is_not_looked_into_again() -> None:
    """What comes from outside is text, not configuration: no variables, no elements."""
    assert read("<name>${NAME}</name>", NAME="${NAME}<b/>").settings.name == "${NAME}<b/>"


@pytest.mark.parametrize("element", ["name", "global-max-size"])
def test_a_variable_without_value_and_default_is_the_only_thing_said(element: str) -> None:
    """Its place being no number would follow from it."""
    assert mistakes(f"<{element}>${{NOPE}}</{element}>") == [
        f"broker.xml:4: {element}: ${{NOPE}} has no value; set it, or give it a default: ${{NOPE:default}}"
    ]


def test_the_same_in_an_acceptor_and_an_attribute() -> None:
    """Both have a check of their own, which would complain about the rest."""
    core = """<acceptors><acceptor name="a">tcp://h:${PORT}</acceptor></acceptors>
    <addresses><address name="a"><anycast><queue name="q" max-consumers="${MANY}"/></anycast></address></addresses>"""

    assert mistakes(core) == [
        "broker.xml:4: acceptor: ${PORT} has no value; set it, or give it a default: ${PORT:default}",
        (
            "broker.xml:5: queue: attribute max-consumers: ${MANY} has no value; set it, or give it a default: "
            "${MANY:default}"
        ),
    ]


@pytest.mark.parametrize("text", ["${A:${B:1}}", "${", "${}", "${A"])
def test_a_broken_variable_is_a_mistake(text: str) -> None:
    """Nesting is not supported; silence would leave the text as it is."""
    assert mistakes(f"<name>{text}</name>") == [
        f'broker.xml:4: name: "{text}" has a ${{ that is not of the form ${{name}} or ${{name:default}}'
    ]


def test_control_characters_do_not_get_in() -> None:
    """XML could not hold them either."""
    assert mistakes("<name>${NAME}</name>", NAME="a\x1bb") == [
        "broker.xml:4: name: the value of ${NAME} has control characters; remove them"
    ]


def test_an_environment_variable_replaces_an_element_of_core() -> None:
    """Whether it is in the file or not."""
    config = read(
        "<name>a</name>",
        ARTEMIS_PY_CORE_NAME="b",
        ARTEMIS_PY_CORE_GLOBAL_MAX_SIZE="1G",
        ARTEMIS_PY_CORE_SECURITY_ENABLED="false",
    )

    assert (config.settings.name, config.settings.global_max_size_bytes) == ("b", 1024**3)
    assert config.security_enabled is False


def test_an_environment_variable_replaces_an_element_of_login() -> None:
    """Also without a login element."""
    assert read(ARTEMIS_PY_LOGIN_ANONYMOUS_ROLES="a,b").login.anonymous_roles == ("a", "b")


def test_an_environment_variable_replaces_the_url_of_an_acceptor() -> None:
    """In its name everything but letters and digits becomes an underscore."""
    config = read(
        '<acceptors><acceptor name="amqp-tls">tcp://127.0.0.1:1</acceptor></acceptors>',
        ARTEMIS_PY_ACCEPTOR_AMQP_TLS="tcp://0.0.0.0:2",
    )

    assert (config.acceptors[0].host, config.acceptors[0].port) == ("0.0.0.0", 2)


def test_a_wrong_value_from_the_environment_names_the_variable() -> None:
    """The file cannot be blamed."""
    assert mistakes(ARTEMIS_PY_CORE_GLOBAL_MAX_SIZE="big") == [
        (
            'environment:0: ARTEMIS_PY_CORE_GLOBAL_MAX_SIZE: "big" is not a size; write bytes, or a number with K, M '
            "or G such as 10M"
        )
    ]


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("ARTEMIS_PY_CORE_GLOBAL_MAX_SISE", "did you mean ARTEMIS_PY_CORE_GLOBAL_MAX_SIZE?"),
        ("ARTEMIS_PY_ACCEPTOR_NOBODY_HAS_THIS", "remove it"),
    ],
)
def test_a_variable_that_replaces_nothing_is_a_mistake(variable: str, hint: str) -> None:
    """Its author believes that it does something."""
    assert mistakes("", "", Path(), **{variable: "1"}) == [
        f"environment:0: {variable}: replaces nothing in this configuration; {hint}"
    ]


def test_other_variables_are_none_of_our_business() -> None:
    """The environment is full of them."""
    assert read(ARTEMIS_PY_USER="u", PATH="/bin").settings.name == "localhost"
