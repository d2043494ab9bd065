"""Who may come in and what they may do (artemis-model §4.5, §6.3)."""

from typing import Any, Final

import pytest
from proton import ConnectionException, Message, symbol, uint
from proton.utils import ConnectionClosed

from tests.interop.broker_process import BrokerProcess, Instance
from tests.interop.conftest import StartBroker
from tests.interop.proton.client import Client, Refused
from tests.interop.proton.test_connection import refused_late

DENIED: Final = "amqp:unauthorized-access"

SECURITY: Final = """
<security-enabled>true</security-enabled>
<security-settings>
  <security-setting match="#">
    <permission type="createAddress" roles="admin"/>
    <permission type="createDurableQueue" roles="admin"/>
    <permission type="createNonDurableQueue" roles="admin"/>
    <permission type="deleteNonDurableQueue" roles="admin"/>
    <permission type="deleteDurableQueue" roles="admin"/>
    <permission type="send" roles="admin"/>
    <permission type="consume" roles="admin"/>
    <permission type="browse" roles="admin"/>
  </security-setting>
  <security-setting match="shop.orders">
    <permission type="send" roles="admin,writer"/>
    <permission type="consume" roles="admin,reader"/>
    <permission type="browse" roles="admin,looker"/>
  </security-setting>
  <security-setting match="shop.news">
    <permission type="send" roles="admin"/>
    <permission type="consume" roles="admin,reader,writer"/>
    <permission type="createDurableQueue" roles="admin,reader"/>
    <permission type="deleteDurableQueue" roles="admin,reader"/>
    <permission type="createNonDurableQueue" roles="admin,writer"/>
  </security-setting>
  <security-setting match="shop.pair::shop.pair.left">
    <permission type="consume" roles="reader"/>
  </security-setting>
</security-settings>
"""
ADDRESSES: Final = """
<address name="shop.orders"><anycast><queue name="shop.orders"/></anycast></address>
<address name="shop.news"><multicast/></address>
<address name="shop.pair"><anycast><queue name="shop.pair.left"/><queue name="shop.pair.right"/></anycast></address>
"""
USERS: Final = "admin = admin-pass\nwriter = writer-pass\nreader = reader-pass\nlooker = looker-pass\n"
ROLES: Final = "admin = admin\nwriter = writer\nreader = reader\nlooker = looker\n"


@pytest.fixture(scope="module")
def secure(start: StartBroker) -> BrokerProcess:
    """A broker with users, roles and permissions."""
    return start(Instance(core=SECURITY, addresses=ADDRESSES, users=USERS, roles=ROLES))


def client_of(broker: BrokerProcess, user: str, **options: Any) -> Client:
    """A connection of `user`, by SASL PLAIN."""
    return Client(broker.url, user=user, password=f"{user}-pass", allowed_mechs="PLAIN", **options)


def test_right_password_lets_in(secure: BrokerProcess) -> None:
    """SASL PLAIN (RFC 4616)."""
    with client_of(secure, "admin") as client:
        client.send("shop.orders", "m")

        assert client.bodies("shop.orders") == ["m"]


@pytest.mark.parametrize(("user", "password"), [("admin", "wrong"), ("nobody", "admin-pass"), ("admin", "")])
def test_wrong_credentials_are_refused(secure: BrokerProcess, user: str, password: str) -> None:
    """AMQP 1.0 §5.3.3.6: SASL outcome 1 (auth); the same for unknown users and wrong passwords."""
    with pytest.raises(ConnectionException) as refused:
        Client(secure.url, user=user, password=password, allowed_mechs="PLAIN")

    assert "amqp:unauthorized-access" in str(refused.value) or "uthentication" in str(refused.value)


def test_refused_login_does_not_disturb_others(secure: BrokerProcess) -> None:
    """One client's failure is its own."""
    with client_of(secure, "admin") as client:
        with pytest.raises(ConnectionException):
            Client(secure.url, user="admin", password="wrong", allowed_mechs="PLAIN")
        client.send("shop.orders", "m")

        assert client.bodies("shop.orders") == ["m"]


def test_anonymous_user_has_no_roles_of_others(secure: BrokerProcess) -> None:
    """artemis-model §6.3: whoever comes in without a name gets what the rules grant: here nothing."""
    with Client(secure.url, allowed_mechs="ANONYMOUS") as client, pytest.raises(Refused) as refused:
        client.sender("shop.orders")

    assert refused.value.condition == DENIED


@pytest.mark.parametrize(("user", "allowed"), [("admin", True), ("writer", True), ("reader", False), ("looker", False)])
def test_sending_needs_the_send_permission(secure: BrokerProcess, user: str, allowed: bool) -> None:
    """artemis-model §4.1.3: checked at attach."""
    with client_of(secure, user) as client:
        if allowed:
            client.sender("shop.orders").close()
            return
        with pytest.raises(Refused) as refused:
            client.sender("shop.orders")

    assert refused.value.condition == DENIED


@pytest.mark.parametrize(("user", "allowed"), [("admin", True), ("reader", True), ("writer", False), ("looker", False)])
def test_consuming_needs_the_consume_permission(secure: BrokerProcess, user: str, allowed: bool) -> None:
    """artemis-model §4.5."""
    with client_of(secure, user) as client:
        if allowed:
            client.receiver("shop.orders").close()
            return
        with pytest.raises(Refused) as refused:
            client.receiver("shop.orders")

    assert refused.value.condition == DENIED


@pytest.mark.parametrize(("user", "allowed"), [("looker", True), ("reader", False)])
def test_browsing_needs_the_browse_permission(secure: BrokerProcess, user: str, allowed: bool) -> None:
    """artemis-model §6.3: browse is a permission of its own."""
    with client_of(secure, user) as client:
        if allowed:
            client.receiver("shop.orders", copy=True).close()
            return
        with pytest.raises(Refused) as refused:
            client.receiver("shop.orders", copy=True)

    assert refused.value.condition == DENIED


def test_refusal_names_user_permission_and_address(secure: BrokerProcess) -> None:
    """A refused action says why to the client."""
    with client_of(secure, "reader") as client, pytest.raises(Refused) as refused:
        client.sender("shop.orders")

    description = (refused.value.description or "").lower()
    assert all(word in description for word in ("reader", "send", "shop.orders"))


def test_refusal_is_logged_with_user_operation_and_address(secure: BrokerProcess) -> None:
    """The operator's half of the same rule, without the password."""
    with client_of(secure, "looker") as client, pytest.raises(Refused):
        client.sender("shop.orders")

    lines = [line.lower() for line in secure.log_text().splitlines()]
    assert any("looker" in line and "send" in line and "shop.orders" in line for line in lines)
    assert "looker-pass" not in secure.log_text()


def test_relay_checks_every_message(secure: BrokerProcess) -> None:
    """artemis-model §4.1.3: rejected `amqp:unauthorized-access`, and the link goes on."""
    with client_of(secure, "writer") as client, client_of(secure, "admin") as admin:
        relay = client.sender(None)
        with pytest.raises(Refused) as refused:
            relay.send(Message(address="shop.news", body="m"))
        relay.send(Message(address="shop.orders", body="m"))

        assert refused.value.condition == DENIED
        assert admin.bodies("shop.orders") == ["m"]


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_creating_on_demand_needs_its_permission(secure: BrokerProcess, name: str, role: str) -> None:
    """artemis-model §1.3: `createAddress` and the queue's permission at auto-create."""
    with client_of(secure, "writer") as client, pytest.raises(Refused) as refused:
        getattr(client, role)(name)

    assert refused.value.condition == DENIED


@pytest.mark.parametrize(
    ("user", "durable", "allowed"),
    [("reader", True, True), ("reader", False, False), ("writer", False, True), ("writer", True, False)],
)
def test_subscribing_needs_the_permission_of_its_queue(
    secure: BrokerProcess, name: str, user: str, durable: bool, allowed: bool
) -> None:
    """artemis-model §6.3: `createDurableQueue` for durable subscriptions, `createNonDurableQueue` for the others."""
    with client_of(secure, user, container_id=name) as client:
        if allowed:
            client.receiver("shop.news", ("topic",), name="s", durable=durable).close()
            return
        with pytest.raises(Refused) as refused:
            client.receiver("shop.news", ("topic",), name="s", durable=durable)

    assert refused.value.condition == DENIED


def test_exact_fully_qualified_match_takes_precedence(secure: BrokerProcess) -> None:
    """artemis-model §1.5: `address::queue` exactly, and nothing inherited from broader matches."""
    with client_of(secure, "reader") as reader, client_of(secure, "admin") as admin:
        reader.receiver("shop.pair::shop.pair.left").close()
        with pytest.raises(Refused) as other_queue:
            reader.receiver("shop.pair::shop.pair.right")
        with pytest.raises(Refused) as not_inherited:
            admin.receiver("shop.pair::shop.pair.left")

    assert other_queue.value.condition == DENIED
    assert not_inherited.value.condition == DENIED


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("form", ["subscription", "shared", "fqqn"])
def test_who_may_not_read_a_subscription_does_not_learn_of_it(
    secure: BrokerProcess, name: str, form: str, exists: bool
) -> None:
    """Permissions come first: the answer is the same whether it is there, in use, with another selector, or not."""
    capabilities, link = (("topic", "shared", "global"), name) if form == "shared" else (("topic",), "s")
    with client_of(secure, "reader", container_id=name) as reader, client_of(secure, "looker", container_id=name) as me:
        if exists:
            reader.receiver("shop.news", capabilities, name=link, durable=True, selector="a = 1")
        address = f"shop.news::{name}.s" if form == "fqqn" else "shop.news"
        with pytest.raises(Refused) as refused:
            me.receiver(address, capabilities, name=link, durable=form != "fqqn")

    queue = f"{name}:global" if form == "shared" else f"{name}.s"
    expected = f"user 'looker' lacks permission 'consume' on queue '{queue}' of 'shop.news'"
    assert (refused.value.condition, refused.value.description) == (DENIED, expected)


@pytest.mark.parametrize("exists", [False, True])
def test_who_may_not_read_a_subscription_cannot_look_it_up(secure: BrokerProcess, name: str, exists: bool) -> None:
    """A receiver without a source asks what the broker remembers: nothing, for this user."""
    with client_of(secure, "reader", container_id=name) as reader:
        if exists:
            reader.receiver("shop.news", ("topic",), name="s", durable=True).detach()
    with client_of(secure, "looker", container_id=name) as client, pytest.raises(Refused) as refused:
        client.receiver(None, name="s")

    assert refused.value.condition == "amqp:not-found"


@pytest.mark.parametrize("capabilities", [("topic",), ("topic", "shared"), ("topic", "shared", "global")])
def test_a_durable_subscription_belongs_to_its_user(secure: BrokerProcess, capabilities: tuple[str, ...]) -> None:
    """Neither by container and link name nor as the queue it is does another user get it: not while its client is
    there, whose link is not stolen, and not while it is away."""
    name = "-".join(("mine", *capabilities))
    address = "shop.news"
    with client_of(secure, "admin") as admin, client_of(secure, "writer", container_id="box") as thief:
        with client_of(secure, "reader", container_id="box") as owner:
            subscriber = owner.receiver(address, capabilities, name=name, durable=True)
            with pytest.raises(Refused) as live:
                thief.receiver(address, capabilities, name=name, durable=True)
            admin.send(address, "one")
            assert subscriber.receive().body == "one"
        with pytest.raises(Refused) as away:
            thief.receiver(address, capabilities, name=name, durable=True)
        queue = name + ":global" if "global" in capabilities else f"box.{name}"
        with pytest.raises(Refused) as by_name:
            thief.receiver(f"{address}::{queue}", ("topic",))
        assert [each.value.condition for each in (live, away, by_name)] == [DENIED] * 3
        with client_of(secure, "reader", container_id="box") as owner:
            again = owner.receiver(address, capabilities, name=name, durable=True)
            assert "one" in [each.body for each in again.receive_many(1)]
            again.link.close()


def test_a_container_is_not_closed_by_another_user(secure: BrokerProcess) -> None:
    """`sole-connection-for-container` with close-existing (1) ends connections of the same user only."""
    properties = {symbol("sole-connection-enforcement-policy"): uint(1)}
    wanted: Any = {"desired_capabilities": [symbol("sole-connection-for-container")], "properties": properties}
    with client_of(secure, "reader", container_id="sole") as owner:
        with pytest.raises(ConnectionClosed) as closed:
            refused_late(client_of(secure, "writer", container_id="sole", **wanted))
        owner.receiver("shop.orders").close()

        assert closed.value.condition == "amqp:invalid-field"
    with (
        client_of(secure, "reader", container_id="sole") as first,
        client_of(secure, "reader", container_id="sole", **wanted),
    ):
        with pytest.raises(ConnectionClosed) as taken_over:
            refused_late(first)

        assert taken_over.value.condition == "amqp:resource-locked"


def test_no_queue_is_named_like_a_queue_of_an_address(secure: BrokerProcess) -> None:
    """`::` ends the address: neither as the queue of an FQQN nor made up of container and link."""
    with client_of(secure, "admin", container_id="box::1") as client:
        with pytest.raises(Refused) as by_name:
            client.receiver("any::a::b")
        with pytest.raises(Refused) as as_subscription:
            client.receiver("other", ("topic",), name="sub", durable=True)

        for refused in (by_name, as_subscription):
            assert "may not contain '::'" in str(refused.value)
