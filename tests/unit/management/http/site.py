"""A broker that answers HTTP, and a client of it."""

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from json import loads as parse
from pathlib import Path
from typing import Any

import aiohttp
from attrs import frozen
from yarl import URL

from artemis_py.broker import Broker
from artemis_py.config import load

FILE = """<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>b</name>
    <persistence-enabled>false</persistence-enabled>
    <security-enabled>{security}</security-enabled>{core}
    <acceptors><acceptor name="main">tcp://127.0.0.1:0</acceptor></acceptors>
    <addresses>
      <address name="orders"><anycast><queue name="orders"/></anycast></address>
      <address name="news"><multicast/></address>
    </addresses>
    <diverts>
      <divert name="copy"><address>orders</address><forwarding-address>news</forwarding-address></divert>
    </diverts>
    <security-settings>
      <security-setting match="#">
        <permission type="manage" roles="amq"/>
        <permission type="send" roles="amq, watchers"/>
        <permission type="createAddress" roles="amq"/>
        <permission type="deleteAddress" roles="amq"/>
        <permission type="createDurableQueue" roles="amq"/>
        <permission type="deleteDurableQueue" roles="amq"/>
        <permission type="browse" roles="amq"/>
        <permission type="consume" roles="amq"/>
      </security-setting>{settings}
    </security-settings>
  </core>
  <web xmlns="urn:artemis-py"><bind>{bind}</bind>{web}</web>
  <login xmlns="urn:artemis-py">
    <anonymous-access>{anonymous}</anonymous-access>
    <anonymous-roles>{roles}</anonymous-roles>
  </login>
  <virtual-hosts xmlns="urn:artemis-py"><virtual-host name="blue"/></virtual-hosts>
</configuration>
"""


@frozen
class Answer:
    """What came back."""

    status: int
    body: Any
    """Parsed if it is JSON, else text."""
    headers: dict[str, str]


class Site:
    """The broker and its client."""

    def __init__(self, broker: Broker, client: aiohttp.ClientSession) -> None:
        self.broker = broker
        self._client = client

    @property
    def url(self) -> str:
        """URL of the server."""
        assert self.broker.web is not None
        return self.broker.web.url

    async def ask(
        self,
        method: str,
        path: str,
        json: object = None,
        user: tuple[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | bool = True,
    ) -> Answer:
        """Send one request."""
        named = dict(headers or {})
        if user is not None:
            named["Authorization"] = "Basic " + base64.b64encode(":".join(user).encode()).decode()
        # `encoded`: a path goes out as it is written here.
        url = URL(self.url + path, encoded=True)
        async with self._client.request(method, url, json=json, headers=named, ssl=tls) as response:
            text = await response.text()
            body = parse(text) if response.content_type.endswith("json") else text
            return Answer(response.status, body, {**response.headers})

    async def get(self, path: str) -> Any:
        """Return the JSON of what is there."""
        answer = await self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.body

    async def post(self, path: str, *parameters: object) -> Any:
        """Carry out an operation that succeeds, and return its result."""
        answer = await self.ask("POST", path, list(parameters))
        assert answer.status == 200, answer
        return answer.body["result"]


def run(
    folder: Path,
    steps: Callable[[Site], Awaitable[None]],
    security: bool = False,
    anonymous: str = "NOWHERE",
    roles: str = "amq",
    web: str = "",
    bind: str = "http://127.0.0.1:0",
    core: str = "",
    settings: str = "",
    users: Iterable[str] = (),
) -> None:
    """Run steps against a broker of its own; further `users` have a role of their own name, and the password `x`."""

    async def main() -> None:
        passwords = ["admin = secret", "watcher = pass", *(f"{user} = x" for user in users)]
        (folder / "artemis-users.properties").write_text("\n".join(passwords))
        members = ["amq = admin", "watchers = watcher", *(f"{user} = {user}" for user in users)]
        (folder / "artemis-roles.properties").write_text("\n".join(members))
        file = folder / "broker.xml"
        values = {"security": str(security).lower(), "anonymous": anonymous, "roles": roles, "web": web, "bind": bind}
        values |= {"core": core, "settings": settings}
        file.write_text(FILE.format(**values))
        async with Broker(load(file)) as broker, aiohttp.ClientSession() as client:
            await steps(Site(broker, client))

    asyncio.run(main())
