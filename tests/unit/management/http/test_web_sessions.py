"""Sessions of people: how long they last, and what ends them; time is what the test says."""

from artemis_py.core.runtime.access import Subject
from artemis_py.management.http.web_sessions import IDLE_S, LIFE_S, MOST_OF_USER, MOST_SESSIONS, WebSessions
from artemis_py.security.users import Users

ANN = Subject("ann", frozenset({"r"}))
USERS = Users({"ann": "a", "bob": "b"}, {"ann": frozenset({"r"})})


class Clock:
    """Seconds that the test counts."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sessions = WebSessions(lambda: self.now)


def test_a_session_ends_when_it_is_not_used() -> None:
    clock = Clock()
    session, cookie = clock.sessions.open(ANN)
    clock.now += IDLE_S - 1

    assert clock.sessions.find(cookie) is session
    clock.now += IDLE_S - 1
    assert clock.sessions.find(cookie) is session
    clock.now += IDLE_S
    assert clock.sessions.find(cookie) is None
    assert len(clock.sessions) == 0


def test_a_session_ends_after_its_time_however_much_it_is_used() -> None:
    clock = Clock()
    session, cookie = clock.sessions.open(ANN)
    while clock.now + IDLE_S / 2 < LIFE_S:
        clock.now += IDLE_S / 2
        assert clock.sessions.find(cookie) is session
    assert session.ends == LIFE_S
    clock.now = LIFE_S

    assert clock.sessions.find(cookie) is None


def test_a_session_that_is_closed_has_ended() -> None:
    clock = Clock()
    session, cookie = clock.sessions.open(ANN)
    clock.sessions.close(session)

    assert clock.sessions.find(cookie) is None
    assert clock.sessions.find("") is None


def test_cookies_and_values_against_forgery_differ() -> None:
    clock = Clock()
    made = [clock.sessions.open(ANN) for _ in range(3)]

    assert len({cookie for _, cookie in made} | {session.csrf for session, _ in made}) == 6
    assert all(len(cookie) == 43 for _, cookie in made)
    assert all(cookie.encode() not in session.key for session, cookie in made)


def test_removed_users_and_new_passwords_and_roles_end_sessions() -> None:
    for changed, is_there in (
        (USERS, True),
        (Users({"ann": "a"}, {"ann": frozenset({"r"})}), True),
        (Users({"bob": "b"}, {}), False),
        (Users({"ann": "new"}, {"ann": frozenset({"r"})}), False),
        (Users({"ann": "a"}, {"ann": frozenset({"r", "more"})}), False),
        (Users({"ann": "a"}, {}), False),
    ):
        clock = Clock()
        _, cookie = clock.sessions.open(ANN)
        clock.sessions.users_changed(USERS, changed)

        assert (clock.sessions.find(cookie) is not None) is is_there
        assert clock.sessions.changes == 1


def test_the_session_that_was_not_used_for_longest_makes_room() -> None:
    clock = Clock()
    cookies = [clock.sessions.open(ANN)[1] for _ in range(MOST_OF_USER)]
    clock.sessions.find(cookies[0])
    clock.sessions.open(ANN)

    assert clock.sessions.find(cookies[0]) is not None
    assert clock.sessions.find(cookies[1]) is None
    assert len(clock.sessions) == MOST_OF_USER
    for number in range(MOST_SESSIONS):
        clock.sessions.open(Subject(f"user {number}"))
    assert len(clock.sessions) == MOST_SESSIONS
