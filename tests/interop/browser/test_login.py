"""Logging in and out in a real browser: with the page of the console, and where that is not needed."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.broker_process import BrokerProcess, launch
from tests.interop.browser.console import LOCKED, By, Console, Keys, log_in, url_of, write


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that wants a login."""
    directory = tmp_path_factory.mktemp("locked")
    write(directory, instance=LOCKED)
    process = launch(directory)
    yield process
    process.stop()


@pytest.fixture
def stranger(browser: Any, locked: BrokerProcess) -> Iterator[Console]:
    """The console of that broker, in which nobody is logged in."""
    browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
    shown = Console(browser, url_of(locked))
    yield shown
    # The browser logs each request that was refused, and must complain of nothing else.
    refused = re.compile(
        r"/api/v1/\S+ - Failed to load resource: .* status of (401|403)|Password field is not contained"
    )
    assert [each for each in shown.complaints() if not refused.search(each)] == []


def test_login_leads_to_the_place_that_was_asked_for(stranger: Console) -> None:
    """A link in a message, for example; before the login there is nothing but the form."""
    stranger.open("queues/DLQ")
    stranger.wait_for("Log in", "#gate h1")

    assert stranger.browser.switch_to.active_element.get_attribute("name") == "username"
    assert not stranger.browser.find_element(By.TAG_NAME, "nav").is_displayed()
    log_in(stranger, "olga", "pass word")
    stranger.wait_for("Queue DLQ", "#page h1")
    assert stranger.text("#user") == "olga"
    assert stranger.browser.title == "Queue DLQ \u2013 artemis_py console"
    stranger.browser.refresh()
    stranger.wait_for("Queue DLQ", "#page h1")


def test_wrong_password_is_said_and_can_be_corrected(stranger: Console) -> None:
    """Readers of the screen hear it, and the focus is where the mistake is."""
    stranger.open("queues")
    log_in(stranger, "olga", "wrong")
    stranger.wait_for("The name or the password is wrong.", "#gate [role=alert]")
    stranger.wait("the focus", lambda: stranger.browser.switch_to.active_element.get_attribute("name") == "password")
    stranger.browser.switch_to.active_element.send_keys("pass word", Keys.ENTER)
    stranger.wait("the queues", lambda: stranger.rows() == ["DLQ", "ExpiryQueue"])


def test_form_is_one_that_password_managers_know(stranger: Console) -> None:
    """Names of fields as HTML has them for this purpose, a label for each, and paste as everywhere."""
    stranger.open("")
    stranger.wait_for("Log in", "#gate h1")
    found = stranger.browser.execute_script(
        """
        return [...document.querySelectorAll("#gate input")].map((each) =>
          [each.type, each.autocomplete, each.labels[0].textContent.trim(), each.required, each.onpaste]);
        """
    )

    assert found == [["text", "username", "Name", True, None], ["password", "current-password", "Password", True, None]]
    heads = stranger.browser.find_elements(By.TAG_NAME, "h1")
    assert [each.text for each in heads if each.is_displayed()] == ["Log in"]


def test_log_out_leaves_nothing_behind(stranger: Console) -> None:
    """Neither on the page nor behind the button that goes back."""
    stranger.open("queues")
    log_in(stranger, "olga", "pass word")
    stranger.wait("the queues", lambda: stranger.rows() == ["DLQ", "ExpiryQueue"])
    stranger.press("Log out", "header")
    stranger.wait_for("You have logged out.", "#gate")

    assert "DLQ" not in stranger.browser.find_element(By.TAG_NAME, "body").get_attribute("textContent")
    assert stranger.browser.get_cookies() == []
    log_in(stranger, "paul", "secret")
    stranger.wait_for("user 'paul' lacks permission 'manage'", "#trouble")
    stranger.wait("the user", lambda: stranger.text("#user") == "paul")


def test_ended_session_is_said_and_the_page_stays(stranger: Console, locked: BrokerProcess) -> None:
    """So does a dialog in which something was typed."""
    stranger.open("queues")
    log_in(stranger, "olga", "pass word")
    stranger.wait("the queues", lambda: stranger.rows() == ["DLQ", "ExpiryQueue"])
    stranger.press("Create queue")
    stranger.browser.find_element(By.CSS_SELECTOR, "dialog input[name=name]").send_keys("typed before")
    cookie = stranger.browser.get_cookies()[0]
    stranger.browser.delete_all_cookies()
    stranger.browser.add_cookie({"name": cookie["name"], "value": "ended"})
    stranger.press("Create queue", "dialog")
    stranger.wait_for("Your session has ended", "dialog:has([name=username])")
    log_in(stranger, "olga", "pass word", "dialog")
    stranger.wait("one dialog", lambda: len(stranger.browser.find_elements(By.TAG_NAME, "dialog")) == 1)
    stranger.press("Create queue", "dialog")
    stranger.wait_for("Queue typed before", "#page h1")
    stranger.press("Delete…")
    stranger.press("Delete queue", "dialog")
    stranger.wait_for("Deleted queue", "#said")


def test_login_in_another_tab_is_followed(stranger: Console) -> None:
    """Changes go on, because both tabs have the same user."""
    stranger.open("queues/DLQ")
    log_in(stranger, "olga", "pass word")
    stranger.wait_for("Queue DLQ", "#page h1")
    first = stranger.browser.current_window_handle
    stranger.browser.switch_to.new_window("tab")
    stranger.browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
    stranger.open("queues/DLQ")
    log_in(stranger, "olga", "pass word")
    stranger.wait_for("Queue DLQ", "#page h1")
    stranger.browser.close()
    stranger.browser.switch_to.window(first)
    stranger.press("Pause")
    stranger.wait_for("Paused", ".states")
    stranger.press("Resume")
    stranger.wait("no state", lambda: "Paused" not in stranger.text(".states"))


def test_token_is_made_shown_once_and_revoked(stranger: Console) -> None:
    """The list has all but the secret."""
    stranger.open("tokens")
    log_in(stranger, "olga", "pass word")
    stranger.press("Create token")
    stranger.browser.find_element(By.CSS_SELECTOR, "dialog input[name=name]").send_keys("prometheus")
    stranger.press("Create token", "dialog")
    stranger.wait_for("it cannot be shown again", "dialog:has([readonly])")
    token = stranger.browser.find_element(By.CSS_SELECTOR, "dialog [readonly]").get_property("value")
    stranger.press("Close", "dialog:has([readonly])")
    stranger.wait("the token", lambda: stranger.rows() == ["prometheus"])

    assert token.startswith("apy_")
    assert token[17:] not in stranger.browser.page_source
    stranger.press("Revoke…")
    stranger.press("Revoke 1 token", "dialog")
    stranger.wait_for("There are no tokens.")


def test_nobody_needs_to_log_in_where_no_name_is_needed(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A user can all the same, and then has a way out to being nobody."""
    directory = tmp_path_factory.mktemp("anonymous")
    write(directory, instance=LOCKED)
    file = directory / "etc" / "broker.xml"
    roles = "<anonymous-access>LOOPBACK</anonymous-access><anonymous-roles>operators</anonymous-roles>"
    file.write_text(file.read_text().replace("<anonymous-access>NOWHERE</anonymous-access>", roles))
    process = launch(directory)
    console = Console(browser, url_of(process))
    console.open("queues")
    console.wait("the queues", lambda: console.rows() == ["DLQ", "ExpiryQueue"])
    console.wait("nobody", lambda: console.text("#user") == "Not logged in")
    console.press("Log in", "header")
    log_in(console, "olga", "pass word", "dialog")
    console.wait("the user", lambda: console.text("#user") == "olga")
    console.press("Log out", "header")
    console.wait("nobody", lambda: console.text("#user") == "Not logged in")
    console.wait("the queues", lambda: console.rows() == ["DLQ", "ExpiryQueue"])
    assert console.complaints() == []
    process.stop()


def test_dialog_of_the_browser_is_there_for_those_who_want_it(browser: Any, locked: BrokerProcess) -> None:
    """With `?login=basic`; then there is no session, and no way out."""
    url = url_of(locked).replace("//", "//olga:pass%20word@")
    browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
    browser.get(f"{url}/console/?login=basic#/queues")
    console = Console(browser, url)
    console.wait("the queues", lambda: console.rows() == ["DLQ", "ExpiryQueue"])

    assert console.text("#user") == "olga"
    assert not browser.find_element(By.ID, "log-out").is_displayed()
    assert browser.get_cookies() == []
    assert console.complaints() == []
