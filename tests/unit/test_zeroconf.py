"""Brokers that announce themselves on a network, and are found there (mesh §2.4, RFC 6763): real datagrams."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from attrs import define, field

from artemis_py.cluster.finders.finder import Endpoint
from artemis_py.cluster.finders.zeroconf import SERVICE, Announcement, ZeroconfFinder, _check_address
from artemis_py.core.settings.cluster_config import DiscoveryConfig
from tests.multicast import LOOPBACK, need_multicast

A, B = ("a.example", 61616), ("b.example", 61617)
TIMEOUT_S = 60
RUN = uuid4().hex
"""In all names: other runs on this machine are on the same network."""
GROUP = f"shop-{RUN}"


@define
class Heard:
    """What a finder tells."""

    endpoints: frozenset[Endpoint] = frozenset()
    count: int = 0
    changed: asyncio.Event = field(factory=asyncio.Event)

    def told(self, endpoints: frozenset[Endpoint]) -> None:
        self.endpoints = endpoints
        self.count += 1
        self.changed.set()

    async def until(self, *expected: Endpoint) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while self.endpoints != frozenset(expected):
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def finder(node: str, endpoint: Endpoint | None, group: str = GROUP) -> AsyncIterator[Heard]:
    """A finder that announces an endpoint, if there is one."""
    heard = Heard()
    announcement = (
        None if endpoint is None else Announcement(node_id=f"{node}-{RUN}", host=endpoint[0], port=endpoint[1])
    )
    config = DiscoveryConfig(name="g", zeroconf_group=group, zeroconf_interface=LOOPBACK)
    running = ZeroconfFinder(config, heard.told, announcement)
    running.start()
    try:
        yield heard
    finally:
        running.stop()
        await running.wait_stopped()


async def test_brokers_of_a_group_find_each_other() -> None:
    """By the host that they are dialled at; not themselves, no other group, and nobody who has said goodbye."""
    need_multicast()
    async with finder("a", A) as at_a, finder("c", ("c", 1), f"other-{RUN}") as at_c, finder("", None) as listener:
        async with finder("b", B) as at_b:
            await at_a.until(B)
            await at_b.until(A)
            await listener.until(A, B)
        await at_a.until()
        await listener.until(A)
        assert at_c.count == 0


async def test_an_announcement_that_names_no_broker_is_passed_over() -> None:
    """Anybody on the network can announce anything."""
    need_multicast()
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

    def info(name: str, port: int, properties: dict[str, Any]) -> AsyncServiceInfo:
        return AsyncServiceInfo(
            SERVICE,
            f"{name}.{SERVICE}",
            port=port,
            properties=properties,
            parsed_addresses=[LOOPBACK],
            server=f"{name}.local.",
        )

    network = AsyncZeroconf(interfaces=[LOOPBACK])
    try:
        async with finder("", None) as heard:
            announced: list[tuple[int, dict[str, Any]]] = [
                (5, {}),
                (5, {"group": GROUP}),
                (5, {"group": GROUP, "host": ""}),
                (0, {"group": GROUP, "host": "x"}),
                (5, {"group": b"\xff", "host": b"\xff"}),
                (7, {"group": GROUP, "host": "sound"}),
            ]
            for number, (port, properties) in enumerate(announced):
                await (await network.async_register_service(info(f"n{number}-{RUN}", port, properties)))
            await heard.until(("sound", 7))
            assert heard.count == 1
    finally:
        await network.async_close()


async def test_a_network_that_is_not_there_is_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And spoken of once. 192.0.2.0/24 is for documentation (RFC 5737): no machine has an address of it."""
    pytest.importorskip("zeroconf")
    attempts = []
    thrice = asyncio.Event()

    def checked(address: str) -> None:
        attempts.append(address)
        if len(attempts) == 3:
            thrice.set()
        _check_address(address)

    monkeypatch.setattr("artemis_py.cluster.finders.zeroconf._check_address", checked)
    config = DiscoveryConfig(name="g", zeroconf_group="shop", zeroconf_interface="192.0.2.1", refresh_timeout_ms=1)
    running = ZeroconfFinder(config, Heard().told)
    running.start()
    async with asyncio.timeout(TIMEOUT_S):
        await thrice.wait()
    running.stop()
    await running.wait_stopped()

    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "brokers are not found on the local network: group=g" in caplog.text


async def test_a_broker_that_leaves_the_group_is_no_hint_any_more() -> None:
    """Its announcement is changed in place, without a goodbye."""
    need_multicast()
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

    def info(group: str) -> AsyncServiceInfo:
        name = f"changing-{RUN}"
        properties = {"group": group, "host": "x"}
        addresses = [LOOPBACK]
        server = f"{name}.local."
        return AsyncServiceInfo(
            SERVICE, f"{name}.{SERVICE}", port=7, properties=properties, parsed_addresses=addresses, server=server
        )

    network = AsyncZeroconf(interfaces=[LOOPBACK])
    try:
        async with finder("", None) as heard:
            await (await network.async_register_service(info(GROUP)))
            await heard.until(("x", 7))
            await (await network.async_update_service(info("another")))
            await heard.until()
    finally:
        await network.async_close()


async def test_another_address_of_this_machine_is_noticed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its network is used from then on; when the named one has gone, it is waited for."""
    need_multicast()
    own, looks, updates, missed = ["there"], asyncio.Queue[int](), asyncio.Queue[object](), asyncio.Event()

    def addresses() -> frozenset[str]:
        looks.put_nowait(len(own))
        return frozenset(own)

    async def update(network: object) -> None:
        updates.put_nowait(network)

    def check(_: str) -> None:
        if "gone" in own:
            missed.set()
            raise OSError("no such address")

    module = "artemis_py.cluster.finders.zeroconf"
    monkeypatch.setattr(f"{module}._own_addresses", addresses)
    monkeypatch.setattr(f"{module}._check_address", check)
    monkeypatch.setattr("zeroconf.asyncio.AsyncZeroconf.async_update_interfaces", update)
    config = DiscoveryConfig(name="g", zeroconf_group=GROUP, zeroconf_interface=LOOPBACK, refresh_timeout_ms=20)
    heard = Heard()
    running = ZeroconfFinder(config, heard.told)
    running.start()
    async with asyncio.timeout(TIMEOUT_S):
        for _ in range(5):  # rounds in which nothing has changed
            await looks.get()
        own.append("later")
        await updates.get()
    async with finder("b", B):
        await heard.until(B)
    assert updates.empty()

    own.append("gone")
    async with asyncio.timeout(TIMEOUT_S):
        await missed.wait()
    own.remove("gone")
    async with finder("b", B):
        await heard.until(B)
    running.stop()
    await running.wait_stopped()
    assert "brokers are not found on the local network: group=g reason=no such address" in caplog.text
