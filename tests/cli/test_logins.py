"""Who may use and administer a broker, as the commands tell it; and brokers that are not there."""

import socket

import pytest

from tests.cli.conftest import Command, run_command


def test_a_user_with_the_permission_administers(guarded: Command, name: str) -> None:
    assert guarded("olga", "queue", "create", name).code == 0


def test_a_user_without_it_is_told_which_permission_is_missing(guarded: Command) -> None:
    outcome = guarded("paul", "queue", "stat")

    assert outcome.code == 1
    assert "not authorised" in outcome.err
    assert "'paul' lacks permission 'manage'" in outcome.err


def test_a_user_who_may_not_browse_is_told_so(guarded: Command, name: str) -> None:
    guarded("olga", "queue", "create", name)
    outcome = guarded("paul", "browse", "--destination", name)

    assert outcome.code == 1
    assert "'paul' lacks permission 'browse'" in outcome.err


@pytest.mark.parametrize("command", [("queue", "stat"), ("producer",), ("consumer", "--message-count", "1")])
def test_a_wrong_password_is_refused(guarded: Command, command: tuple[str, ...]) -> None:
    outcome = guarded("olga", *command, ARTEMIS_PY_PASSWORD="wrong")

    assert outcome.code == 1
    assert "login refused" in outcome.err


def test_nobody_listening_is_exit_code_3() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, so that nobody else takes it; not listening
        url = f"amqp://127.0.0.1:{unused.getsockname()[1]}"
        outcomes = [run_command(*command, "--url", url) for command in (("queue", "stat"), ("producer",), ("browse",))]

    assert [outcome.code for outcome in outcomes] == [3, 3, 3]
    assert all("refused" in outcome.err and url in outcome.err for outcome in outcomes)


def test_a_listener_that_is_no_broker_is_exit_code_3() -> None:
    """It closes each connection at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        import threading

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        outcome = run_command("producer", "--url", f"amqp://127.0.0.1:{server.getsockname()[1]}")
        thread.join()

    assert outcome.code == 3
