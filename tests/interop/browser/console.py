"""The console in a real browser, as its user sees it, and instances of a broker for it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.interop.broker_process import BrokerProcess, Instance

pytest.importorskip("aiohttp", reason="aiohttp is not installed, so the broker does not answer HTTP")
# Only some environments have it, and all of them check the same types.
By: Any = pytest.importorskip("selenium.webdriver.common.by", reason="selenium is not installed").By
Keys: Any = pytest.importorskip("selenium.webdriver.common.keys").Keys
WebDriverWait: Any = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait

WEB: Final = '<web xmlns="urn:artemis-py"><bind>http://127.0.0.1:{port}</bind></web>'
LOGIN: Final = '<login xmlns="urn:artemis-py"><anonymous-access>NOWHERE</anonymous-access></login>'
TIMEOUT_S: Final = 30.0

OPEN: Final = Instance()
LOCKED: Final = Instance(
    core="""
    <security-enabled>true</security-enabled>
    <security-settings>
      <security-setting match="#">
        <permission type="manage" roles="operators"/>
        <permission type="browse" roles="operators"/>
        <permission type="createAddress" roles="operators"/>
        <permission type="createDurableQueue" roles="operators"/>
        <permission type="deleteDurableQueue" roles="operators"/>
      </security-setting>
    </security-settings>
    """,
    users="olga = pass word\npaul = secret",
    roles="operators = olga\nothers = paul",
)

WATCHED: Final = Instance(
    core="""
    <security-enabled>true</security-enabled>
    <management-message-rbac>true</management-message-rbac>
    <security-settings>
      <security-setting match="#"><permission type="manage" roles="watchers"/></security-setting>
      <security-setting match="mops.#"><permission type="view" roles="watchers"/></security-setting>
      <security-setting match="mops.queue.DLQ.#">
        <permission type="view" roles="watchers"/><permission type="edit" roles="watchers"/>
      </security-setting>
    </security-settings>
    """,
    users="vera = secret",
    roles="watchers = vera",
)
"""One user may look at everything, and change one queue."""


class Console:
    """The console in a browser, as its user sees it."""

    def __init__(self, browser: Any, url: str) -> None:
        self.browser = browser
        self.url = url

    def open(self, place: str) -> None:
        """Go to a place behind the `#`, and read its data now."""
        self.browser.get(f"{self.url}/console/#/{place}")
        self.browser.refresh()

    def text(self, selector: str = "main") -> str:
        """Text that is visible in the first element of a CSS selector."""
        return str(self.browser.find_element(By.CSS_SELECTOR, selector).text)

    def wait(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until something is so; `what` it is, for the report."""
        WebDriverWait(self.browser, TIMEOUT_S, 0.05, (Exception,)).until(lambda _: condition(), what)

    def wait_for(self, text: str, selector: str = "main") -> None:
        """Wait until a text is visible."""
        self.wait(f"{text!r} in {selector}", lambda: text in self.text(selector))

    def press(self, text: str, within: str = "main") -> None:
        """Press the button with this text."""
        self.wait(f"button {text!r}", lambda: self._button(text, within).is_enabled())
        self._button(text, within).click()

    def _button(self, text: str, within: str) -> Any:
        buttons = self.browser.find_elements(By.CSS_SELECTOR, f"{within} button")
        return next(button for button in buttons if button.text == text)

    def rows(self) -> list[str]:
        """Text of the row headers of the first table that is visible."""
        tables = [each for each in self.browser.find_elements(By.TAG_NAME, "table") if each.is_displayed()]
        return [head.text for head in tables[0].find_elements(By.CSS_SELECTOR, "tbody th")]

    def complaints(self) -> list[str]:
        """What the browser has logged: errors of scripts and of loading, and what the policy does not allow."""
        return [str(entry["message"]) for entry in self.browser.get_log("browser")]


def write(directory: Path, port: int = 0, instance: Instance = OPEN) -> None:
    """Lay out an instance that answers HTTP at this port to users with a name; 0: the operating system chooses."""
    instance.write(directory)
    file = directory / "etc" / "broker.xml"
    text = file.read_text(encoding="utf-8").replace("</core>", f"</core>{LOGIN}{WEB.format(port=port)}")
    file.write_text(text, encoding="utf-8")


def url_of(broker: BrokerProcess) -> str:
    """URL of what answers HTTP."""
    found = re.search(r"answering HTTP: url=(\S+)", broker.log_text())
    assert found is not None
    return found[1]


def log_in(console: Console, name: str, password: str, within: str = "#gate") -> None:
    """Fill the form in, and send it with Enter."""
    console.wait("the form", lambda: console.browser.find_element(By.CSS_SELECTOR, f"{within} input[name=username]"))
    for field, text in (("username", name), ("password", password)):
        box = console.browser.find_element(By.CSS_SELECTOR, f"{within} input[name={field}]")
        box.clear()
        box.send_keys(text)
    box.send_keys(Keys.ENTER)
