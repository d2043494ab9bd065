"""The console in a real browser, against a real broker: what it shows, what it does, and that it keeps its policy."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from attrs import evolve
from proton import Message

from tests.interop.broker_process import BrokerProcess, launch
from tests.interop.browser.console import OPEN, WATCHED, By, Console, Keys, log_in, url_of, write
from tests.interop.proton.client import Client

MARKUP: Final = "<img src=x onerror=document.title='run'><b id=planted>"
UNSEEN: Final = "invoice\u202egpj.exe\u0007"


@pytest.fixture(scope="module")
def web_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that answers HTTP."""
    directory = tmp_path_factory.mktemp("web")
    write(directory)
    process = launch(directory)
    yield process
    process.stop()


@pytest.fixture
def console(browser: Any, web_broker: BrokerProcess) -> Iterator[Console]:
    """The console; at the end of each test the browser must have complained of nothing."""
    shown = Console(browser, url_of(web_broker))
    yield shown

    assert shown.complaints() == []


def test_overview_shows_numbers_of_the_broker(console: Console, web_broker: BrokerProcess) -> None:
    """What a client has done is seen without loading the page again."""
    console.open("")
    console.wait_for("Messages\n0", ".tiles")
    with Client(web_broker.url) as client:
        client.send("overview", *(Message(body=str(number)) for number in range(1234)))
        console.wait_for("Messages\n1,234", ".tiles")
        console.wait("the broker's name", lambda: console.text("#broker") == "interop")
        console.wait("the queue with most messages", lambda: console.rows()[0] == "overview")
        client.bodies("overview")


def test_root_leads_to_the_console(console: Console) -> None:
    """An operator types only host and port."""
    console.browser.get(console.url)
    console.wait_for("Overview", "h1")

    assert console.browser.current_url.startswith(f"{console.url}/console/")


def test_queue_is_found_by_search(console: Console, web_broker: BrokerProcess) -> None:
    """The key `/` leads to the search, and the place keeps what is searched."""
    with Client(web_broker.url) as client:
        for number in range(3):
            client.send(f"search.{number}.needle", "x")
    console.open("queues")
    console.wait_for("search.0.needle")
    console.browser.find_element(By.TAG_NAME, "body").send_keys("/")
    console.browser.switch_to.active_element.send_keys("1.need")
    console.wait("one row", lambda: console.rows() == ["search.1.needle"])

    assert "search=1.need" in console.browser.current_url
    console.browser.refresh()
    console.wait("the same row", lambda: console.rows() == ["search.1.needle"])
    console.browser.find_element(By.LINK_TEXT, "search.1.needle").click()
    console.wait_for("Queue search.1.needle", "h1")
    console.browser.back()
    console.wait("the list", lambda: console.rows() == ["search.1.needle"])


def test_server_sorts_a_table(console: Console, web_broker: BrokerProcess) -> None:
    """A click on the head of a column sorts by it; the head says so to readers of the screen."""
    with Client(web_broker.url) as client:
        client.send("sort.few", "x")
        client.send("sort.many", "x", "y", "z")
        client.send("sort.some", "x", "y")
    console.open("queues?search=sort.")
    console.wait("names in order", lambda: console.rows() == ["sort.few", "sort.many", "sort.some"])
    console.press("Messages", "thead")
    console.wait("most messages first", lambda: console.rows() == ["sort.many", "sort.some", "sort.few"])

    assert console.browser.find_element(By.CSS_SELECTOR, "[aria-sort=descending]").text == "Messages"


def test_message_is_browsed_and_removed(console: Console, web_broker: BrokerProcess) -> None:
    """With a selector; what it does not match stays."""
    with Client(web_broker.url) as client:
        messages = [Message(body=region, properties={"region": region}) for region in ("eu", "us", "eu")]
        client.send("browsed", *messages)
        console.open("queues/browsed")
        console.wait("three messages", lambda: len(message_boxes(console)) == 3)
        selector = console.browser.find_element(By.CSS_SELECTOR, "#messages input[type=text]")
        selector.send_keys("region = 'us'", Keys.ENTER)
        console.wait("one message", lambda: len(message_boxes(console)) == 1)
        console.wait_for("region=us", "#messages tbody")
        message_boxes(console)[0].click()
        console.press("Remove 1 message…")
        console.press("Remove 1 message", "dialog")
        console.wait_for("Removed 1 message.", "#said")
        console.wait("no message", lambda: len(message_boxes(console)) == 0)

        assert client.bodies("browsed") == ["eu", "eu"]


def message_boxes(console: Console) -> list[Any]:
    """Boxes that select the messages shown."""
    return list(console.browser.find_elements(By.CSS_SELECTOR, "#messages tbody input"))


def test_bodies_are_shown_when_they_are_opened(console: Console, web_broker: BrokerProcess) -> None:
    """A text as it is, whatever it says, and octets that are no text as digits."""
    with Client(web_broker.url) as client:
        client.send("bodies", Message(body=MARKUP), Message(body=b"\x00\xfe"), Message(body={"a": 1}))
    console.open("queues/bodies")
    console.wait("messages", lambda: len(console.browser.find_elements(By.CSS_SELECTOR, "#messages details")) == 6)
    for summary in console.browser.find_elements(By.CSS_SELECTOR, "#messages summary[aria-label^=Body]"):
        summary.click()

    console.wait("bodies", lambda: len(console.browser.find_elements(By.CSS_SELECTOR, "pre.body")) == 3)
    shown = [each.text for each in console.browser.find_elements(By.CSS_SELECTOR, "pre.body")]

    assert shown[0] == MARKUP
    assert shown[1].startswith("0000  00 fe")
    assert shown[2] == '{\n "a": 1\n}'
    assert console.browser.find_elements(By.ID, "planted") == []


def test_long_queue_is_browsed_in_pages(console: Console, web_broker: BrokerProcess) -> None:
    """50 messages a page, in the order of delivery: high priorities first."""
    with Client(web_broker.url) as client:
        client.send("paged", *(Message(body=str(number), priority=number % 3) for number in range(120)))
    console.open("queues/paged")
    seen = next_page(console, 50, set())
    for rows in (50, 20):
        console.browser.find_element(By.LINK_TEXT, "Next page").click()
        seen += next_page(console, rows, set(seen))

    assert [int(number) % 3 for number in seen] == [0] * 40 + [2] * 40 + [1] * 40
    assert len(set(seen)) == 120
    assert console.browser.find_elements(By.LINK_TEXT, "Next page") == []


def message_numbers(console: Console) -> list[str]:
    """Numbers of the messages shown."""
    return [head.text for head in console.browser.find_elements(By.CSS_SELECTOR, "#messages tbody th")]


def next_page(console: Console, rows: int, seen: set[str]) -> list[str]:
    """Wait for a page of so many messages, none of which was seen before; return their numbers."""

    def is_there() -> bool:
        numbers = message_numbers(console)
        return len(numbers) == rows and seen.isdisjoint(numbers)

    console.wait("another page", is_there)
    return message_numbers(console)


def test_queue_is_purged_after_a_question(console: Console, web_broker: BrokerProcess) -> None:
    """The button says the verb and the number, and a dialog that is cancelled does nothing."""
    with Client(web_broker.url) as client:
        client.send("purged", *(Message(body=str(number)) for number in range(17)))
    console.open("queues/purged")
    console.press("Purge…")
    console.wait_for("17 messages of queue purged", "dialog")
    console.browser.switch_to.active_element.send_keys(Keys.ENTER)  # the focus is on the harmless button
    console.wait("no dialog", lambda: console.browser.find_elements(By.TAG_NAME, "dialog") == [])
    console.wait_for("Messages\n17", ".tiles")
    console.press("Purge…")
    console.press("Purge 17 messages", "dialog")
    console.wait_for("Purged 17 messages of purged.", "#said")
    console.wait_for("Messages\n0", ".tiles")


def test_messages_are_moved_and_sent_back(console: Console, web_broker: BrokerProcess) -> None:
    """In parts, as many requests as it takes."""
    with Client(web_broker.url) as client:
        client.send("moved", *(Message(body=str(number)) for number in range(30)))
        console.open("queues/moved")
        console.press("Move all…")
        console.browser.find_element(By.CSS_SELECTOR, "dialog input").send_keys("DLQ")
        console.press("Move 30 messages", "dialog")
        console.wait_for("Moved 30 messages.", "#said")
        console.open("queues/DLQ")
        console.press("Retry all…")
        console.press("Retry 30 messages", "dialog")
        console.wait_for("Sent back 30 messages.", "#said")

        assert len(client.bodies("moved")) == 30


def test_message_is_written_and_sent(console: Console, web_broker: BrokerProcess) -> None:
    """To a queue, and to an address without one; properties that are not JSON are refused at once."""
    with Client(web_broker.url) as client:
        client.send("written", Message(body="first"))
        console.open("queues/written")
        console.press("Send…")
        for name, text in (("body", "second\nline"), ("contentType", "text/plain"), ("properties", "nonsense")):
            field = console.browser.find_element(By.CSS_SELECTOR, f"dialog [name={name}]")
            field.clear()
            field.send_keys(text)
        console.press("Send 1 message", "dialog")
        console.wait_for("The properties are not JSON.", "dialog")
        field.clear()
        field.send_keys('{"colour": "red", "size": 3}')
        console.press("Send 1 message", "dialog")
        console.wait_for("Sent: 1 queue of written took the message.", "#said")
        _, received = client.receiver("written").receive_many(2)
        sent = received.message

        assert (sent.body, sent.content_type, sent.durable) == ("second\nline", "text/plain", True)
        assert sent.properties == {"colour": "red", "size": 3}
    console.open("addresses")
    console.press("Create address")
    for routing_type in ("ANYCAST", "MULTICAST"):
        console.browser.find_element(By.CSS_SELECTOR, f"dialog [name={routing_type}]").click()
    console.browser.find_element(By.CSS_SELECTOR, "dialog [name=name]").send_keys("nobody.reads", Keys.ENTER)
    console.wait_for("Created address", "#said")
    console.press("Send…")
    console.press("Send 1 message", "dialog")
    console.wait_for("Sent to nobody.reads, and no queue took the message.", "#said")


def test_queue_is_created_paused_and_deleted(console: Console) -> None:
    """Refusals are shown in the dialog, which stays open."""
    console.open("queues")
    console.press("Create queue")
    console.browser.find_element(By.CSS_SELECTOR, "dialog input[name=name]").send_keys("made/by hand")
    console.press("Create queue", "dialog")
    console.wait_for("Queue made/by hand", "h1")
    console.press("Pause")
    console.wait_for("Paused", ".states")
    console.press("Resume")
    console.wait("no state", lambda: "Paused" not in console.text(".states"))
    console.press("Delete…")
    console.press("Delete queue", "dialog")
    console.wait_for("Deleted queue made/by hand.", "#said")
    console.wait_for("Queues", "h1")


def test_connection_is_closed(console: Console, web_broker: BrokerProcess) -> None:
    """Its client loses it."""
    client = Client(web_broker.url, container_id="to-be-closed")
    console.open("connections?search=to-be-closed")
    console.press("Close…")
    console.wait_for("of client to-be-closed", "dialog")
    console.press("Close 1 connection", "dialog")
    console.wait_for("No connection contains this.")
    client.abort()


@pytest.mark.parametrize("name", [MARKUP, UNSEEN, "x" * 400, "..", "-", "a/../b?c#d%2F"], ids=lambda name: name[:9])
def test_hostile_name_is_only_text(console: Console, web_broker: BrokerProcess, name: str) -> None:
    """In lists, in heads and in dialogs; nothing gets wider than the window."""
    with Client(web_broker.url) as client:
        client.send("carrier", Message(body="x", properties={name: name}))  # rows show its beginning
    console.open("queues")
    console.press("Create queue")
    console.browser.execute_script("document.querySelector('dialog input').value = arguments[0]", name)
    console.press("Create queue", "dialog")
    shown = name.replace("\u202e", r"\u{202e}").replace("\u0007", r"\u{7}")
    for place in (f"queues/{quote(name, safe='')}", f"queues?search={quote(name, safe='')}", "queues/carrier"):
        console.open(place)
        console.wait_for(shown[:50])
        assert console.browser.find_elements(By.CSS_SELECTOR, "img, #planted, main script") == []
        assert console.browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    console.open(f"queues/{quote(name, safe='')}")
    console.press("Delete…")
    console.wait_for(shown, "dialog")
    console.press("Delete queue", "dialog")
    console.wait_for("Deleted queue", "#said")

    assert "run" not in console.browser.title


def test_connection_to_another_broker_is_watched_stopped_and_started(
    browser: Any, web_broker: BrokerProcess, tmp_path: Path
) -> None:
    """What passes over it, why the other broker refuses the rest, and a stop that lasts until the start."""
    port = web_broker.url.rpartition(":")[2]
    connections = f"""
    <broker-connections>
      <amqp-connection name="central" uri="tcp://127.0.0.1:{port}" retry-interval="100">
        <sender queue-name="measured" remote-address="plant.{{queue}}"/>
        <receiver queue-name="orders" remote-address="nowhere::no::where"/>
      </amqp-connection>
    </broker-connections>
    """
    declared = "".join(
        f'<address name="{name}"><anycast><queue name="{name}"/></anycast></address>' for name in ("measured", "orders")
    )
    write(tmp_path, instance=evolve(OPEN, core=OPEN.core + connections, addresses=declared))
    process = launch(tmp_path)
    console = Console(browser, url_of(process))
    try:
        console.open("bridges")
        with Client(process.url) as client:
            client.send("measured", *(Message(body=str(number)) for number in range(12)))
        console.wait_for("sender measured plant.measured open 12 0 0", "main table")
        console.wait_for("receiver orders nowhere::no::where refused", "main table")
        console.wait_for("Sent\n12", "main .facts")
        console.press("Stop")
        console.wait_for("State\nstopped", "main .facts")
        console.press("Start")
        console.wait_for("State\nopen", "main .facts")
        complaints = console.complaints()
    finally:
        process.stop()

    assert complaints == []


@pytest.mark.parametrize(
    "place",
    [
        "",
        "queues",
        "addresses",
        "connections",
        "consumers",
        "diverts",
        "exchanges",
        "bridges",
        "tokens",
        "addresses/DLQ",
    ],
)
def test_page_has_what_readers_of_the_screen_need(console: Console, place: str) -> None:
    """One head, landmarks, names for all controls, scopes for all heads of tables, and an age of the data."""
    console.open(place)
    console.wait_for("Read", "#age")
    faults = console.browser.execute_script(
        """
        const all = (selector) => [...document.querySelectorAll(selector)];
        const unnamed = all("button, input, select, a").filter((each) =>
          !each.textContent.trim() && !each.closest("label") && !each.ariaLabel);
        return [all("h1").length, all("main").length, all("header nav").length, unnamed.length,
          all("th:not([scope])").length, all("table:not(:has(caption))").length];
        """
    )

    assert faults == [1, 1, 1, 0, 0, 0]
    assert console.text("#curl").startswith(f"curl --user NAME '{console.url}/api/v1/")


def test_lost_broker_is_said_and_asked_again(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The page stays with what it has, and follows the broker when it is back."""
    directory = tmp_path_factory.mktemp("lost")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    write(directory, port)
    process = launch(directory)
    console = Console(browser, f"http://127.0.0.1:{port}")
    console.open("queues")
    console.wait("the queues", lambda: console.rows() == ["DLQ", "ExpiryQueue"])
    process.stop()
    console.wait_for("The broker has not answered since", "#trouble")

    assert console.rows() == ["DLQ", "ExpiryQueue"]
    process = launch(directory)
    console.wait("no trouble", lambda: not browser.find_element(By.ID, "trouble").is_displayed())
    process.stop()
    console.complaints()  # the browser has logged each request that failed


def test_actions_without_a_permission_cannot_be_pressed_and_name_it(browser: Any, tmp_path: Path) -> None:
    """The user may look at everything, and change one queue."""
    write(tmp_path, instance=WATCHED)
    process = launch(tmp_path)
    console = Console(browser, url_of(process))

    def titles(place: str, heading: str) -> dict[str, str]:
        """Buttons that cannot be pressed, and what they say of it."""
        console.open(place)
        console.wait_for(heading, "h1")
        console.wait("the actions", lambda: console.browser.find_elements(By.CSS_SELECTOR, ".actions button[title]"))
        buttons = console.browser.find_elements(By.CSS_SELECTOR, ".actions button")
        return {each.text: each.get_attribute("title") for each in buttons if not each.is_enabled()}

    try:
        browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
        console.open("queues")
        log_in(console, "vera", "secret")
        console.wait_for("Queues", "h1")
        lacking = "You lack the permission"
        assert titles("queues", "Queues") == {"Create queue": f"{lacking} edit on mops.broker.createQueue"}
        assert titles("addresses", "Addresses") == {"Create address": f"{lacking} edit on mops.broker.createAddress"}
        address = titles("addresses/DLQ", "Address DLQ")
        assert address["Pause"] == f"{lacking} edit on mops.address.DLQ.pause"
        watched = titles("queues/ExpiryQueue", "Queue ExpiryQueue")
        own = titles("queues/DLQ", "Queue DLQ")
        complaints = console.complaints()
    finally:
        process.stop()

    assert watched["Pause"] == f"{lacking} edit on mops.queue.ExpiryQueue.pause"
    assert watched["Delete…"] == f"{lacking} edit on mops.broker.destroyQueue"
    assert "Pause" not in own
    assert own["Purge…"] == ""
    # The browser notes each answer that is a refusal: before the login, and because the messages may not be browsed.
    assert [each for each in complaints if "401" not in each and "403" not in each] == []
