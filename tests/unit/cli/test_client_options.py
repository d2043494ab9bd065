"""How commands read what a user says about brokers, destinations and properties."""

import socket

import click
import pytest
from click.testing import CliRunner

from artemis_amqp.client import AmqpError
from artemis_py.cli.client import Target, parse_destination, target_options
from artemis_py.cli.connection import Connection, refusal
from artemis_py.cli.errors import NotConnected
from artemis_py.cli.producer import parse_property


def target_of(*arguments: str, env: dict[str, str] | None = None, answer: str | None = None) -> Target | str:
    """The target that a command with these arguments gets, or the error text."""
    seen: list[Target] = []

    @click.command()
    @target_options
    def command(target: Target) -> None:
        seen.append(target)

    result = CliRunner().invoke(command, list(arguments), env=env, input=answer)
    return seen[0] if seen else result.output


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("amqp://h:1", "amqp://h:1"),
        ("tcp://h:1", "amqp://h:1"),
        ("h:1", "amqp://h:1"),
        ("h", "amqp://h:61616"),
        ("amqp://[::1]:5", "amqp://[::1]:5"),
        ("amqp://[::1]", "amqp://[::1]:61616"),
        ("amqps://h/", "amqps://h:61616"),
    ],
)
def test_a_url_gets_what_it_leaves_out(text: str, url: str) -> None:
    assert target_of("--url", text) == Target(url=url, user=None, password=None)


@pytest.mark.parametrize("text", ["http://h", "amqp://", "amqp://h:x", "amqp://h:70000", "amqp://u@h", "amqp://h/path"])
def test_a_url_that_is_none_is_a_usage_error(text: str) -> None:
    output = target_of("--url", text)

    assert isinstance(output, str)
    assert "Invalid value for '--url'" in output


def test_login_comes_from_the_environment() -> None:
    env = {"ARTEMIS_PY_URL": "h:1", "ARTEMIS_PY_USER": "u", "ARTEMIS_PY_PASSWORD": "p"}

    assert target_of(env=env) == Target(url="amqp://h:1", user="u", password="p")


def test_a_password_is_asked_for_if_there_is_a_user_without_one() -> None:
    target = target_of("--user", "u", answer="secret\n")

    assert isinstance(target, Target)
    assert target.password == "secret"


def test_certificates_that_cannot_be_read_are_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match="--ca"):
        Target(url="amqps://h:1", user=None, password=None, ca="/nowhere").tls()


@pytest.mark.parametrize(
    ("text", "destination"),
    [
        ("X", ("X", None)),
        ("queue://X", ("X", "queue")),
        ("topic://a.b", ("a.b", "topic")),
        ("queue://a::q", ("a::q", "queue")),
        ("queue:X", ("queue:X", None)),
    ],
)
def test_a_destination_may_ask_for_a_routing_type(text: str, destination: tuple[str, str | None]) -> None:
    assert parse_destination(text) == destination


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("k=v", "v"),
        ("k=5", 5),
        ("k=1.5", 1.5),
        ("k=true", True),
        ('k="5"', "5"),
        ("k=", ""),
        ("k=a=b", "a=b"),
        ("k=null", "null"),
        ("k=[1]", "[1]"),
    ],
)
def test_a_property_has_the_type_it_looks_like(text: str, value: object) -> None:
    parsed = parse_property(text)

    assert parsed == ("k", value)
    assert type(parsed[1]) is type(value)


@pytest.mark.parametrize("text", ["k", "=v", ""])
def test_a_property_needs_a_name_and_a_value(text: str) -> None:
    with pytest.raises(click.BadParameter, match="name=value"):
        parse_property(text)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (AmqpError("amqp:unauthorized-access", "may not"), "x: not authorised: may not"),
        (AmqpError("amqp:not-found", "no q"), "x: not found: no q"),
        (AmqpError("amqp:internal-error", "oops"), "x: oops (amqp:internal-error)"),
        (AmqpError("amqp:internal-error", None), "x: amqp:internal-error (amqp:internal-error)"),
        (None, "x: the broker gave no reason"),
    ],
)
def test_a_refusal_is_told_in_words(error: AmqpError | None, text: str) -> None:
    assert refusal(error, "x").message == text


def test_a_listener_that_says_nothing_is_given_up() -> None:
    """Not connected, exit code 3: an open may not take for ever."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"amqp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(NotConnected, match=r"no answer within 0.1 s; --timeout allows more") as caught:
            Connection(Target(url=url, user=None, password=None, timeout_s=0.1))

    assert caught.value.exit_code == 3


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 64, "a..b"])
def test_a_host_that_cannot_be_found_is_told_in_words(host: str) -> None:
    """The last two are names that no host can have; Python has another exception for them."""
    with pytest.raises(NotConnected, match=f"amqp://{host}:1: "):
        Connection(Target(url=f"amqp://{host}:1", user=None, password=None, timeout_s=5))


def test_a_number_beyond_64_bits_is_refused() -> None:
    """It would be left out of the message otherwise."""
    with pytest.raises(click.BadParameter, match="beyond 64 bits"):
        parse_property(f"k={2**63}")
