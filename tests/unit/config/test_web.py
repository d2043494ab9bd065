"""`<web>` of broker.xml: what is read, and what is said about mistakes."""

from pathlib import Path

import pytest

from artemis_py.config import load
from artemis_py.config.embedded import embedded_config
from artemis_py.deployment.plan import plan
from artemis_py.management.http.config import WebConfig
from artemis_py.security.authenticator import AnonymousAccess
from tests.unit.config.samples import mistakes, read


def web(*lines: str) -> str:
    """The element with these lines."""
    return '<web xmlns="urn:artemis-py">\n' + "\n".join(lines) + "\n</web>"


def test_without_the_element_nothing_is_answered() -> None:
    assert read("", "").web is None
    assert embedded_config().web is None


def test_an_empty_element_answers_this_machine() -> None:
    found = read("", web()).web

    assert found == WebConfig()
    assert found is not None
    assert (found.acceptor.host, found.acceptor.port, found.acceptor.tls) == ("127.0.0.1", 8161, None)


def test_everything_that_can_be_said_is_read() -> None:
    found = read(
        "",
        web(
            "<bind>http://[::1]:99</bind>",
            "<console>false</console>",
            "<metrics>false</metrics>",
            "<anonymous-metrics>NOWHERE</anonymous-metrics>",
            "<jolokia>false</jolokia>",
        ),
    ).web

    assert found == WebConfig(
        bind="http://[::1]:99",
        console=False,
        metrics=False,
        anonymous_metrics=AnonymousAccess.NOWHERE,
        jolokia=False,
    )
    assert (found.acceptor.host, found.acceptor.port) == ("::1", 99)


def test_https_has_the_tls_of_an_acceptor(tmp_path: Path) -> None:
    (tmp_path / "broker.pem").write_text("")
    file = tmp_path / "broker.xml"
    file.write_text(
        '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"/>'
        + web("<bind>https://0.0.0.0:8443?keyStorePath=broker.pem;keyStorePassword=geheim</bind>")
        + "</configuration>"
    )

    found = load(file).web

    assert found is not None
    assert found.acceptor.tls is not None
    assert found.acceptor.tls.key_store_path == tmp_path / "broker.pem"
    assert str(found) == "https://0.0.0.0:8443"


@pytest.mark.parametrize(
    ("bind", "text"),
    [
        ("127.0.0.1:8161", "is not the URL of a socket; write one such as http://127.0.0.1:8161"),
        ("tcp://127.0.0.1:8161", "is not the URL of a socket"),
        ("http://127.0.0.1:port", "has no valid host and port"),
        ("http://127.0.0.1:8161/console", "is not the URL of a socket"),
        ("http://127.0.0.1:8161?keyStorePath=x", "parameter keyStorePath: is unknown; only https has parameters"),
        ("https://127.0.0.1:8161", "parameter keyStorePath: is missing"),
        ("https://127.0.0.1:8161?keystorePath=x", "did you mean keyStorePath?"),
    ],
)
def test_a_wrong_socket_is_named(bind: str, text: str) -> None:
    (first, *_) = [each for each in mistakes("", web(f"<bind>{bind}</bind>")) if text in each]

    assert "bind" in first


def test_a_program_needs_to_write_the_address_only() -> None:
    found = WebConfig(bind="http://[::1]:0").acceptor

    assert (found.host, found.port) == ("::1", 0)
    with pytest.raises(ValueError, match="give the acceptor"):
        WebConfig(bind="https://127.0.0.1:0")


def test_variables_replace_its_parts_and_bring_it_into_being(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    file.write_text('<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"/></configuration>')

    found = load(file, {"ARTEMIS_PY_WEB_BIND": "http://0.0.0.0:80"}).web

    assert found is not None
    assert (found.acceptor.host, found.acceptor.port) == ("0.0.0.0", 80)


def test_a_change_needs_a_restart_and_shows_no_password() -> None:
    before = read("", web())
    after = read("", web("<bind>http://127.0.0.1:1</bind>"))

    (change,) = plan(before, after).changes

    assert (change.element, change.needs_restart) == ("web", True)
    assert str(change.consequence) == "http://127.0.0.1:8161 becomes http://127.0.0.1:1"
    assert plan(before, read("", "\n\n" + web())).changes == ()
