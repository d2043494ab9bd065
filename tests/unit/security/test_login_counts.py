"""How many logins succeeded and failed."""

from tests.unit.security.doubles import Bench, Conversation


def counts(bench: Bench) -> tuple[int, int]:
    return bench.logins.succeeded, bench.logins.failed


def test_logins_are_counted_by_result() -> None:
    """A login that is remembered counts like any other."""
    bench = Bench()
    bench.login("ann", "secret")
    bench.login("ann", "secret")
    bench.login("ann", "wrong")
    bench.login("nobody", "secret")

    assert counts(bench) == (2, 2)


def test_a_login_that_is_put_off_counts_as_failed() -> None:
    bench = Bench()
    bench.logins._pending = 100
    bench.login("ann", "secret")

    assert counts(bench) == (0, 1)


def test_a_client_without_a_name_logs_in_without_being_counted() -> None:
    bench = Bench()
    bench.authenticator.login(None, None, bench.context(is_loopback=True), lambda result: None)

    assert counts(bench) == (0, 0)


def test_a_login_by_certificate_counts() -> None:
    bench = Bench()
    context = bench.context(is_encrypted=True, certificate_subject="CN=device 7,O=Plant")
    Conversation(bench, "EXTERNAL", context).respond(b"")

    assert counts(bench) == (1, 0)
