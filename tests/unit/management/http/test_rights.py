"""The permissions `view` and `edit` over HTTP: through the API, through Jolokia, and what `whoami` says of them."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.unit.management.http.site import Answer, Site, run

API: Final = "/api/v1"
J: Final = "/console/jolokia"
BROKER: Final = 'org.apache.activemq.artemis:broker="b"'

CORE: Final = "<management-message-rbac>true</management-message-rbac>"
USERS: Final = ("viewer", "pauser", "stranger")

# A viewer sees everything but the address news, and no messages; a pauser may pause the queue besides. Nobody sees
# the address of notifications, which every broker has.
SETTINGS: Final = """
<security-setting match="activemq.management"><permission type="manage" roles="amq,viewer,pauser"/></security-setting>
<security-setting match="mops.#">
  <permission type="view" roles="amq,viewer,pauser"/><permission type="edit" roles="amq"/>
</security-setting>
<security-setting match="mops.address.activemq.#"/>
<security-setting match="mops.address.news.#"><permission type="view" roles="amq"/></security-setting>
<security-setting match="mops.queue.orders.pause"><permission type="edit" roles="amq,pauser"/></security-setting>
"""


async def ask(site: Site, user: str, method: str, path: str, body: object = None) -> Answer:
    """Ask as a user."""
    return await site.ask(method, path, body, user=("admin", "secret") if user == "admin" else (user, "x"))


async def jolokia(site: Site, user: str, **request: Any) -> tuple[int, Any]:
    """The status of an answer of Jolokia, and its value or error."""
    answer = await ask(site, user, "POST", J, request)
    assert answer.status == 200, answer
    return answer.body["status"], answer.body.get("value", answer.body.get("error"))


def queue_name(name: str) -> str:
    """The object of a queue."""
    return f'{BROKER},component=addresses,address="{name}",subcomponent=queues,routing-type="anycast",queue="{name}"'


def run_with_rights(folder: Path, steps: Any) -> None:
    """Run steps against a broker that asks for the permissions."""
    run(folder, steps, security=True, core=CORE, settings=SETTINGS, users=USERS)


def test_the_api_allows_and_denies(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        for method, path, body in (
            ("POST", f"{API}/queues/orders/pause", []),
            ("PATCH", f"{API}/queues/orders", {"maxConsumers": 3}),
            ("DELETE", f"{API}/queues/orders", None),
            ("POST", f"{API}/queues", {"name": "q", "address": "q"}),
            ("POST", f"{API}/broker/closeConnectionsForUser", ["x"]),
        ):
            refused = await ask(site, "viewer", method, path, body)
            assert (refused.status, refused.body["code"]) == (403, "not-authorized"), path
            assert "lacks permission 'edit' on 'mops." in refused.body["detail"]
        assert (await ask(site, "viewer", "GET", f"{API}/queues/orders")).body["paused"] is False
        assert (await ask(site, "pauser", "POST", f"{API}/queues/orders/pause", [])).status == 200
        assert (await ask(site, "admin", "PATCH", f"{API}/queues/orders", {"maxConsumers": 3})).status == 200
        assert (await ask(site, "stranger", "GET", f"{API}/queues/orders")).status == 403

    run_with_rights(tmp_path, steps)


def test_the_api_hides_what_may_not_be_viewed(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        listed = await ask(site, "viewer", "GET", f"{API}/addresses")
        hidden = await ask(site, "viewer", "GET", f"{API}/addresses/news")
        missing = await ask(site, "viewer", "GET", f"{API}/addresses/none")

        assert ([row["name"] for row in listed.body["data"]], listed.body["count"]) == (["orders"], 1)
        assert (hidden.status, hidden.body) == (404, {**missing.body, "detail": "address 'news' does not exist"})
        assert (await ask(site, "viewer", "POST", f"{API}/addresses/news/pause", [])).body == hidden.body
        assert (await ask(site, "viewer", "GET", f"{API}/whoami?resource=address.news")).status == 404
        assert (await ask(site, "admin", "GET", f"{API}/addresses/news")).status == 200

    run_with_rights(tmp_path, steps)


def test_attributes_that_may_not_be_viewed_are_left_out_unless_they_are_named(tmp_path: Path) -> None:
    settings = SETTINGS + '<security-setting match="mops.broker.getDiskStoreUsage"/>'

    async def steps(site: Site) -> None:
        found = await ask(site, "viewer", "GET", f"{API}/broker")
        named = await ask(site, "viewer", "GET", f"{API}/broker?attributes=name,diskStoreUsage")

        assert ("diskStoreUsage" in found.body, "name" in found.body) == (False, True)
        assert (named.status, named.body["detail"]) == (
            403,
            "user 'viewer' lacks permission 'view' on 'mops.broker.getDiskStoreUsage'",
        )

    run(tmp_path, steps, security=True, core=CORE, settings=settings, users=USERS)


def test_a_change_by_somebody_who_may_not_look_is_answered_as_done(tmp_path: Path) -> None:
    settings = SETTINGS + (
        '<security-setting match="mops.broker.createQueue"><permission type="edit" roles="pauser"/></security-setting>'
        '<security-setting match="mops.queue.q.#"/>'
        '<security-setting match="q"><permission type="createAddress" roles="pauser"/>'
        '<permission type="createDurableQueue" roles="pauser"/></security-setting>'
    )

    async def steps(site: Site) -> None:
        body = {"name": "q", "address": "q", "routingType": "ANYCAST"}
        made = await ask(site, "pauser", "POST", f"{API}/queues", body)

        assert (made.status, made.body) == (201, {})
        assert site.broker.domain.find_queue("q") is not None

    run(tmp_path, steps, security=True, core=CORE, settings=settings, users=USERS)


def test_messages_need_the_permission_to_browse_as_well(tmp_path: Path) -> None:
    """A viewer sees everything but what is in messages."""

    async def steps(site: Site) -> None:
        for path in ("messages", "messages/1"):
            refused = await ask(site, "viewer", "GET", f"{API}/queues/orders/{path}")
            assert (refused.status, "'browse' on queue 'orders'" in refused.body["detail"]) == (403, True)
        assert (await ask(site, "admin", "GET", f"{API}/queues/orders/messages")).status == 200

    run_with_rights(tmp_path, steps)


def test_jolokia_allows_and_denies(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        orders = queue_name("orders")
        assert await jolokia(site, "viewer", type="read", mbean=orders, attribute="MessageCount") == (200, 0)
        for user, status in (("viewer", 403), ("pauser", 200), ("admin", 200)):
            assert (await jolokia(site, user, type="exec", mbean=orders, operation="pause()"))[0] == status
        status, error = await jolokia(site, "viewer", type="exec", mbean=orders, operation="purge")
        assert error == (
            "java.lang.SecurityException : user 'viewer' lacks permission 'edit' on 'mops.queue.orders.purge'"
        )
        assert (await jolokia(site, "viewer", type="version"))[0] == 200

    run_with_rights(tmp_path, steps)


def test_jolokia_hides_what_may_not_be_viewed(tmp_path: Path) -> None:
    """Artemis takes such objects out of the result of a query."""

    async def steps(site: Site) -> None:
        every = f"{BROKER},component=addresses,address=*"
        news, none = (f'{BROKER},component=addresses,address="{name}"' for name in ("news", "none"))

        assert await jolokia(site, "viewer", type="search", mbean=every) == (
            200,
            ['org.apache.activemq.artemis:address="orders",broker="b",component=addresses'],
        )
        assert len((await jolokia(site, "admin", type="search", mbean=every))[1]) == 2
        assert len((await jolokia(site, "viewer", type="read", mbean=every, attribute="Paused"))[1]) == 1
        for request in (
            {"type": "read"},
            {"type": "read", "attribute": "Paused"},
            {"type": "read", "attribute": ["Paused", "QueueCount"]},
            {"type": "read", "attribute": "Nonsense"},
            {"type": "exec", "operation": "pause"},
            {"type": "exec", "operation": "nonsense"},
        ):
            hidden = await jolokia(site, "viewer", mbean=news, **request)
            missing = await jolokia(site, "viewer", mbean=none, **request)
            assert (hidden[0], hidden[1].replace("news", "none")) == missing, request

    run_with_rights(tmp_path, steps)


def test_whoami_tells_what_is_missing(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        viewer = (await ask(site, "viewer", "GET", f"{API}/whoami?resource=queue.orders&resource=address.orders")).body
        pauser = (await ask(site, "pauser", "GET", f"{API}/whoami?resource=queue.orders")).body
        admin = (await ask(site, "admin", "GET", f"{API}/whoami?resource=queue.orders")).body

        assert {name: viewer[name] for name in ("user", "roles", "manage")} == {
            "user": "viewer",
            "roles": ["viewer"],
            "manage": True,
        }
        missing = viewer["missing"]["queue.orders"]
        assert missing["purge"] == {"permission": "edit", "on": "mops.queue.orders.purge"}
        assert missing["destroyQueue"] == {"permission": "edit", "on": "mops.broker.destroyQueue"}
        assert missing["showMessage"] == {"permission": "browse", "on": "orders"}
        assert "countMessages" not in missing
        assert viewer["missing"]["address.orders"]["purge"]["on"] == "mops.address.orders.purge"
        assert "listQueues" not in viewer["missing"]["broker"]
        assert ("pause" in missing, "pause" in pauser["missing"]["queue.orders"]) == (True, False)
        assert admin["missing"] == {"broker": {}, "queue.orders": {}}

    run_with_rights(tmp_path, steps)


def test_whoami_tells_those_who_may_not_manage_that_much_and_no_more(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        for resource in ("queue.orders", "queue.none"):
            found = await ask(site, "stranger", "GET", f"{API}/whoami?resource={resource}")
            assert (found.status, found.body["manage"], list(found.body["missing"])) == (200, False, ["broker"])
            wanted = {"permission": "manage", "on": "activemq.management"}
            assert found.body["missing"]["broker"]["listQueues"] == wanted
        assert (await site.ask("GET", f"{API}/whoami")).status == 401

    run_with_rights(tmp_path, steps)


def test_whoami_without_the_permissions_of_management(tmp_path: Path) -> None:
    """What the session asks for besides is told all the same."""
    settings = """
    <security-setting match="activemq.management"><permission type="manage" roles="viewer"/></security-setting>
    """

    async def steps(site: Site) -> None:
        found = (await ask(site, "viewer", "GET", f"{API}/whoami?resource=queue.orders&resource=address.news")).body

        assert found["missing"] == {
            "broker": {},
            "queue.orders": {
                **{
                    name: {"permission": "browse", "on": "orders"}
                    for name in ("listMessagesAsJSON", "copyMessage", "copyMessages", "showMessage")
                },
                "updateQueue": {"permission": "createDurableQueue", "on": "orders"},
                "destroyQueue": {"permission": "deleteDurableQueue", "on": "orders"},
            },
            "address.news": {
                "updateAddress": {"permission": "createAddress", "on": "news"},
                "deleteAddress": {"permission": "deleteAddress", "on": "news"},
            },
        }

    run(tmp_path, steps, security=True, settings=settings, users=("viewer",))


def test_whoami_has_a_limit_and_knows_what_does_not_exist(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        many = "&".join(["resource=queue.orders"] * 21)
        assert (await ask(site, "admin", "GET", f"{API}/whoami?{many}")).body["code"] == "invalid-request"
        for resource, code in (("queue.none", "no-such-queue"), ("divert.none", "no-such-resource")):
            missing = await ask(site, "admin", "GET", f"{API}/whoami?resource={quote(resource)}")
            assert (missing.status, missing.body["code"]) == (404, code)

    run_with_rights(tmp_path, steps)


@pytest.mark.parametrize("kind", ["diverts", "exchanges", "virtual-hosts", "acceptors"])
def test_other_resources_are_hidden_like_missing_ones(tmp_path: Path, kind: str) -> None:
    names = {"diverts": "copy", "exchanges": "amq.topic", "virtual-hosts": "blue", "acceptors": "main"}
    word = {"diverts": "divert", "exchanges": "exchange", "virtual-hosts": "virtualhost", "acceptors": "acceptor"}
    settings = SETTINGS + f'<security-setting match="mops.{word[kind]}.{names[kind]}.#"/>'

    async def steps(site: Site) -> None:
        hidden = await ask(site, "viewer", "GET", f"{API}/{kind}/{names[kind]}")
        missing = await ask(site, "viewer", "GET", f"{API}/{kind}/none")
        listed = await ask(site, "viewer", "GET", f"{API}/{kind}")

        assert (
            (hidden.status, hidden.body["code"]) == (missing.status, missing.body["code"]) == (404, "no-such-resource")
        )
        assert (
            hidden.body["detail"].replace(names[kind], "none").partition(";")[0]
            == missing.body["detail"].partition(";")[0]
        )
        assert names[kind] not in [row["name"] for row in listed.body["data"]]

    run(tmp_path, steps, security=True, core=CORE, settings=settings, users=USERS)
