"""The API: lists, attributes, operations, and what a refusal looks like."""

from pathlib import Path
from urllib.parse import quote

import pytest

from artemis_py.core.messages.builtin_format import plain_message
from artemis_py.core.messages.view import MessageView
from artemis_py.core.runtime.access import Subject
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.management import broker_control
from artemis_py.management.broker_control import BrokerControl
from artemis_py.management.http.api import COLLECTIONS, attributes_of, member
from tests.unit.management.http.site import Site, run
from tests.unit.management.world import MULTICAST, World

API = "/api/v1"


def publish(site: Site, address: str, count: int) -> None:
    """Send messages to an address of the broker."""
    with site.broker.in_turn():
        session = site.broker.services.sessions.open(Subject("admin"))
        for number in range(count):
            session.producer(address).send(plain_message(address, MessageView(body="x", properties={"number": number})))
        session.close()


def test_the_broker_has_its_attributes_without_long_lists(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        found = await site.get(f"{API}/broker")

        assert found["name"] == "b"
        assert found["nodeID"] == site.broker.node_id
        assert "queueNames" not in found

    run(tmp_path, steps)


def test_wanted_attributes_come_alone_and_may_be_lists(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        assert await site.get(f"{API}/broker?attributes=name,queueNames") == {"name": "b", "queueNames": ["orders"]}
        assert await site.get(f"{API}/queues/orders?attributes=id,name") == {"id": 1, "name": "orders"}
        wrong = await site.ask("GET", f"{API}/broker?attributes=nam")
        assert (wrong.status, wrong.body["code"]) == (400, "invalid-request")
        assert "did you mean Name?" in wrong.body["detail"]

    run(tmp_path, steps)


@pytest.mark.parametrize("collection", sorted(COLLECTIONS))
def test_each_collection_is_listed(tmp_path: Path, collection: str) -> None:
    async def steps(site: Site) -> None:
        found = await site.get(f"{API}/{collection}")

        assert found["count"] == len(found["data"])
        counts = {"queues": 1, "addresses": 3, "diverts": 1, "virtual-hosts": 2, "connections": 1, "acceptors": 1}
        assert collection not in counts or found["count"] == counts[collection]

    run(tmp_path, steps)


@pytest.mark.parametrize(
    ("collection", "name"),
    [
        ("queues", "orders"),
        ("queues", "orders::orders"),
        ("addresses", "news"),
        ("diverts", "copy"),
        ("exchanges", "amq.topic"),
        ("virtual-hosts", "blue"),
        ("acceptors", "main"),
    ],
)
def test_one_of_a_collection_has_its_attributes(tmp_path: Path, collection: str, name: str) -> None:
    async def steps(site: Site) -> None:
        assert name.rpartition("::")[2] in (await site.get(f"{API}/{collection}/{name}")).values()

    run(tmp_path, steps)


def test_lists_are_filtered_sorted_and_come_in_pages(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        for number in range(5):
            body = {"name": f"q{number}", "address": f"q{number}", "routing-type": "ANYCAST"}
            assert (await site.ask("POST", f"{API}/queues", body)).status == 201

        found = await site.get(
            f"{API}/queues?field=name&operation=CONTAINS&value=q&sortField=name&sortOrder=desc&page=2&pageSize=2"
        )

        assert (found["count"], [row["name"] for row in found["data"]]) == (5, ["q2", "q1"])
        for query in ("page=x", "page=0", "field=nope", "pageSize=9999999999"):
            assert (await site.ask("GET", f"{API}/queues?{query}")).status == 400

    run(tmp_path, steps)


@pytest.mark.parametrize("name", ["a/b", "a%b", "ä漢", "a b", "a?b#c", "..", "-x", '<b>"&', "x" * 400])
def test_names_may_have_any_characters(tmp_path: Path, name: str) -> None:
    async def steps(site: Site) -> None:
        body = {"name": name, "address": name, "routingType": "ANYCAST"}
        made = await site.ask("POST", f"{API}/queues", body)
        assert (made.status, made.body["name"]) == (201, name), made

        found = await site.get(f"{API}/queues/-?name={quote(name, safe='')}")

        assert found["name"] == name
        if name != "..":  # a proxy and a client may take this as a path
            assert await site.get(f"{API}/queues/{quote(name, safe='')}") == found
        assert (await site.ask("DELETE", f"{API}/queues/-?name={quote(name, safe='')}")).status == 204
        assert site.broker.domain.find_queue(name) is None

    run(tmp_path, steps)


def test_a_queue_is_created_changed_and_deleted(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        body = {"name": "q", "address": "a", "routingType": "MULTICAST", "maxConsumers": 3}
        made = await site.ask("POST", f"{API}/queues", body)
        assert (made.status, made.body["maxConsumers"], made.body["address"]) == (201, 3, "a")

        changed = await site.ask("PATCH", f"{API}/queues/q", {"max-consumers": 5})
        assert (changed.status, changed.body["maxConsumers"]) == (200, 5)

        again = await site.ask("POST", f"{API}/queues", body)
        assert (again.status, again.body["code"]) == (409, "queue-exists")

        publish(site, "a", 1)
        assert (await site.ask("DELETE", f"{API}/queues/q")).status == 204
        gone = await site.ask("GET", f"{API}/queues/q")
        assert (gone.status, gone.body["code"]) == (404, "no-such-queue")

    run(tmp_path, steps)


def test_an_address_is_created_changed_and_deleted(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        made = await site.ask("POST", f"{API}/addresses", {"name": "a", "routingTypes": ["ANYCAST"]})
        assert (made.status, made.body["routingTypes"]) == (201, ["ANYCAST"])
        changed = await site.ask("PATCH", f"{API}/addresses/a", {"routingTypes": "MULTICAST,ANYCAST"})
        assert sorted(changed.body["routingTypes"]) == ["ANYCAST", "MULTICAST"]
        await site.ask("POST", f"{API}/queues", {"name": "q", "address": "a", "routingType": "ANYCAST"})

        refused = await site.ask("DELETE", f"{API}/addresses/a")
        assert (refused.status, refused.body["code"]) == (409, "in-use")
        assert (await site.ask("DELETE", f"{API}/addresses/a?force=perhaps")).status == 400
        assert (await site.ask("DELETE", f"{API}/addresses/a?force=true")).status == 204
        assert (await site.ask("GET", f"{API}/queues/q")).status == 404

    run(tmp_path, steps)


def test_other_kinds_are_created_and_deleted(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        divert = {"name": "d", "address": "orders", "forwardingAddress": "news"}
        assert (await site.ask("POST", f"{API}/diverts", divert)).status == 201
        assert (await site.ask("DELETE", f"{API}/diverts/d")).status == 204
        assert (await site.ask("POST", f"{API}/exchanges", {"name": "e", "type": "direct"})).status == 201
        bound = await site.ask("POST", f"{API}/bindings", {"exchange": "e", "key": "k", "queue": "orders"})
        assert (bound.status, bound.body) == (201, {"result": True})
        assert (await site.get(f"{API}/bindings"))["count"] == 1
        assert (await site.ask("DELETE", f"{API}/exchanges/e")).status == 204
        assert (await site.ask("POST", f"{API}/virtual-hosts", {"name": "green"})).status == 201
        assert (await site.ask("DELETE", f"{API}/virtual-hosts/green")).status == 204

    run(tmp_path, steps)


def test_messages_are_listed_and_treated(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        publish(site, "orders", 3)

        found = await site.get(f"{API}/queues/orders/messages?filter={quote('number > 0')}")

        assert [row["properties"]["number"] for row in found["messages"]] == [1, 2]
        assert (await site.get(f"{API}/queues/orders?attributes=messageCount")) == {"messageCount": 3}
        one = await site.get(f"{API}/queues/orders/messages/2")
        assert (one["messageID"], one["body"]["text"]) == (2, "x")
        number = found["messages"][0]["messageID"]
        assert await site.post(f"{API}/queues/orders/removeMessage", number) is True
        assert await site.post(f"{API}/queues/orders/removeMessages", "number = 2") == 1
        assert await site.post(f"{API}/queues/orders/purge") == 1
        wrong = await site.ask("GET", f"{API}/queues/orders/messages?filter=%3D")
        assert (wrong.status, wrong.body["code"]) == (400, "invalid-filter")
        assert (await site.ask("GET", f"{API}/queues/orders/messages?from=[")).status == 400

    run(tmp_path, steps)


def test_operations_of_the_broker_have_json_in_place_of_text_with_json(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        assert (await site.post(f"{API}/broker/listQueues", {}, 1, 10))["count"] == 1
        assert await site.post(f"{API}/broker/getQueueNames") == ["orders"]
        assert (await site.post(f"{API}/broker/getAddressInfo", "news")).startswith("Address [name=news")

    run(tmp_path, steps)


def test_a_virtual_host_has_resources_of_its_own(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        body = {"name": "q", "address": "q", "routingType": "ANYCAST"}
        assert (await site.ask("POST", f"{API}/queues?host=blue", body)).status == 201

        assert [row["name"] for row in (await site.get(f"{API}/queues?host=blue"))["data"]] == ["q"]
        assert [row["name"] for row in (await site.get(f"{API}/queues"))["data"]] == ["orders"]
        unknown = await site.ask("GET", f"{API}/queues?host=red")
        assert (unknown.status, unknown.body["code"]) == (404, "no-such-host")

    run(tmp_path, steps)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nothing", None, 404, "not-found"),
        ("GET", f"{API}/nothing", None, 404, "no-such-collection"),
        ("GET", f"{API}/connections/7", None, 404, "no-such-resource"),
        ("GET", f"{API}/diverts/none", None, 404, "no-such-resource"),
        ("GET", f"{API}/addresses/none", None, 404, "no-such-address"),
        ("PUT", f"{API}/queues", {}, 405, "method-not-allowed"),
        ("POST", f"{API}/acceptors", {}, 405, "method-not-allowed"),
        ("DELETE", f"{API}/acceptors/main", None, 405, "method-not-allowed"),
        ("DELETE", f"{API}/connections/9999", None, 404, "no-such-resource"),
        ("POST", f"{API}/queues", [], 400, "invalid-request"),
        ("POST", f"{API}/queues", {"nam": "x"}, 400, "invalid-request"),
        ("POST", f"{API}/queues/orders/pause", {}, 400, "invalid-request"),
        ("POST", f"{API}/queues/orders/nothing", [], 400, "invalid-request"),
        ("POST", f"{API}/queues/orders/moveMessages", [None, "none"], 404, "no-such-queue"),
        ("POST", f"{API}/addresses", {"name": "a"}, 400, "invalid-request"),
        ("GET", f"{API}/queues/orders/messages/7", None, 404, "no-such-message"),
        ("GET", f"{API}/queues/orders/messages/x", None, 400, "invalid-request"),
        ("POST", f"{API}/addresses", {"name": "\ud800", "routingTypes": "ANYCAST"}, 400, "invalid-request"),
        ("GET", f"{API}/queues/%ff%fe", None, 404, "no-such-queue"),
        ("POST", f"{API}/queues", {"name": "x" * 300_000}, 413, "request-entity-too-large"),
    ],
)
def test_a_refusal_says_why_and_has_a_code(
    tmp_path: Path, method: str, path: str, body: object, status: int, code: str
) -> None:
    async def steps(site: Site) -> None:
        answer = await site.ask(method, path, body)

        assert (answer.status, answer.body["status"], answer.body["code"]) == (status, status, code)
        assert answer.body["detail"]
        assert answer.headers["Content-Type"].startswith("application/problem+json")

    run(tmp_path, steps)


def test_a_body_that_is_not_json_is_refused(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        for data in (b"{", b"\xff", b"[" * 100_000):
            async with site._client.post(
                f"{site.url}{API}/queues", data=data, headers={"Content-Type": "application/json"}
            ) as response:
                assert response.status == 400

    run(tmp_path, steps)


def test_a_client_is_disconnected(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        session = site.broker.services.sessions.open(Subject("x"))

        answer = await site.ask("DELETE", f"{API}/connections/{session.id}")

        # This one has no connection that could be closed.
        assert answer.status == 404

    run(tmp_path, steps)


def test_no_session_stays_after_a_request(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        await site.get(f"{API}/queues")
        await site.ask("GET", f"{API}/queues/none")
        await site.post(f"{API}/queues/orders/pause")

        assert site.broker.services.sessions.opened == {}

    run(tmp_path, steps)


def test_acts_are_in_the_log_and_reads_are_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def steps(site: Site) -> None:
        await site.get(f"{API}/queues")
        await site.post(f"{API}/queues/orders/pause")
        await site.ask("DELETE", f"{API}/queues/none")

    with caplog.at_level("INFO", logger="artemis_py.management.audit"):
        run(tmp_path, steps)

    acts = [record.getMessage() for record in caplog.records if "administration:" in record.getMessage()]
    assert ["operation=pause" in acts[0], "refused=queue 'none'" in acts[1], len(acts)] == [True, True, 2]


@pytest.mark.parametrize(("attribute", "name"), [("MessageCount", "messageCount"), ("ID", "id"), ("NodeID", "nodeID")])
def test_names_of_attributes_begin_small(attribute: str, name: str) -> None:
    assert member(attribute) == name


def test_sums_over_all_queues_are_made_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_control, "SLICE_ITEMS", 2)
    world = World()
    for name in "abcde":
        world.session.create_address(name, MULTICAST)
        world.session.create_queue(QueueConfig(name=name, address=name))
        world.publish(name, 2)
    control = BrokerControl(world.services, world.facts, world.session)
    steps = attributes_of(control)
    slices = 0
    while True:
        try:
            next(steps)
            slices += 1
        except StopIteration as end:
            found = end.value
            break

    # With the temporary queue of the replies there are six queues, and six addresses.
    assert slices == 3 + 3
    assert found["totalMessageCount"] == found["totalMessagesAdded"] == found["routedMessageCount"] == 10
    assert found == {member(name): control.read(name) for name in control.attributes if not name.endswith("Names")}
