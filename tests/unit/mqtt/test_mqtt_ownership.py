"""Whose a session is: other users neither get it nor end it, unless they may delete its queues."""

import json
from pathlib import Path

import pytest

from artemis_mqtt.broker import records
from artemis_mqtt.engine.packets import MQTT_3_1, MQTT_3_1_1, MQTT_5, Disconnect, Unsuback, Unsubscribe, Will
from artemis_mqtt.engine.properties import Properties
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.core.sessions.session import Session
from artemis_py.core.settings.queue_config import QueueConfig
from artemis_py.errors import NotAuthorized
from tests import mqtt_harness as wire
from tests.core_harness import Recorder
from tests.mqtt_site import Client, Site, connected, lasting

DELETING = (Permission.DELETE_DURABLE_QUEUE, Permission.DELETE_NON_DURABLE_QUEUE)
LASTS = Properties(session_expiry_interval=3600)


class Grants:
    """Everybody may do everything, but only the user "admin" may delete queues and manage."""

    def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
        return subject.user == "admin" or (permission not in DELETING and permission is not Permission.MANAGE)


def guarded(folder: Path | None = None) -> Site:
    """A broker with these rules."""
    return Site(folder, access=Grants())


def bodies(client: Client) -> list[bytes]:
    return [packet[2] for packet in client.packets() if isinstance(packet, tuple) and packet[0] == "publish"]


def ann_with_a_message(site: Site) -> None:
    """A session that has a message, and whose client is away."""
    ann = lasting(site, "c", username="ann")
    ann.subscribe("t", 1)
    ann.leave()
    publisher = connected(site, "p", username="publisher")
    publisher.publish("t", b"for ann", 1, 1)
    assert publisher.packets() == [("puback", 1, 0)]


@pytest.mark.parametrize(("version", "code"), [(MQTT_3_1, 5), (MQTT_3_1_1, 5), (MQTT_5, 0x87)])
@pytest.mark.parametrize("clean_start", [False, True])
def test_a_session_of_another_user_is_refused(version: int, code: int, clean_start: bool) -> None:
    """Not authorized, in the words of each version; what waits stays for its user."""
    site = guarded()
    ann_with_a_message(site)

    answer = Client(site, version).connect("c", username="bob", clean_start=clean_start)

    assert answer.reason == code
    assert bodies(lasting(site, "c", username="ann")) == [b"for ann"]


def test_a_connected_client_is_not_cut_off_by_another_user() -> None:
    """Its will does not go out, its subscriptions stay, and neither does the other one's will."""
    site = guarded()
    watcher = connected(site, "w", username="watcher")
    watcher.subscribe("will/#")
    ann = lasting(site, "c", username="ann", will=Will(topic="will/ann", payload=b"ann"))
    ann.subscribe("t", 1)
    intruder = Client(site)
    answer = intruder.connect("c", username="bob", will=Will(topic="will/bob", payload=b"bob"))
    intruder.lose()

    assert answer.reason == 0x87
    assert not ann.handler.closed
    assert bodies(watcher) == []


def test_a_connected_client_without_queues_is_not_cut_off_either() -> None:
    """There is no queue to have a permission on: it takes `manage`."""
    site = guarded()
    ann = connected(site, "c", username="ann")

    assert Client(site).connect("c", username="bob").reason == 0x87
    assert not ann.handler.closed
    assert Client(site).connect("c", username="admin").reason == 0
    assert ann.handler.closed


def test_a_client_without_a_name_gets_no_session_of_a_user() -> None:
    """It is another user like any other."""
    site = guarded()
    ann_with_a_message(site)

    assert Client(site).connect("c").reason == 0x87


def test_a_user_that_may_delete_the_queues_starts_a_session_of_its_own() -> None:
    """The old one ends, and nothing of it is handed over."""
    site = guarded()
    ann_with_a_message(site)
    admin = Client(site)
    answer = admin.connect("c", username="admin", clean_start=False, properties=LASTS)

    assert answer.reason == 0
    assert not answer.session_present
    assert bodies(admin) == []
    assert "c.t" not in site.domain.queues


def test_owners_can_be_switched_off() -> None:
    """`mqttSessionOwner=false`: another user ends the session, as the standard would have it of any client."""
    site = guarded()
    ann_with_a_message(site)
    bob = Client(site, mqttSessionOwner="false")
    answer = bob.connect("c", username="bob", clean_start=False)

    assert answer.reason == 0
    assert not answer.session_present
    assert bodies(bob) == []


def test_what_was_nobodys_belongs_to_the_first_user_that_comes() -> None:
    """A session of a client without a name, or of a broker without security: adopted with what waits in it."""
    site = guarded()
    lasting(site, "c").subscribe("t", 1)
    ann = lasting(site, "c", username="ann")
    ann.leave()

    assert site.domain.queue("c.t").user == "ann"
    assert Client(site).connect("c", username="bob").reason == 0x87


def test_owners_survive_a_restart(tmp_path: Path) -> None:
    """The session's record and the queue's both have it."""
    with guarded(tmp_path) as site:
        ann_with_a_message(site)

    with guarded(tmp_path) as site:
        assert site.domain.queue("c.t").user == "ann"
        assert Client(site).connect("c", username="bob").reason == 0x87
        assert bodies(lasting(site, "c", username="ann")) == [b"for ann"]


def test_a_record_without_a_user_is_adopted(tmp_path: Path) -> None:
    """As versions wrote it that knew no owners; so the queue has none either."""
    with guarded(tmp_path) as site:
        lasting(site, "c").subscribe("t", 1)
        storage = site.domain.storage
        ((key, value),) = [each for each in storage.load_records(records.SPACE) if each[0][4] == 1]
        old = json.loads(value)
        del old["user"]
        storage.save_record(records.SPACE, key, json.dumps(old).encode())
        site.commit()

    with guarded(tmp_path) as site:
        ann = Client(site)
        answer = ann.connect("c", username="ann", clean_start=False, properties=LASTS)

        assert answer.session_present
        assert Client(site).connect("c", username="bob").reason == 0x87


def test_a_queue_of_another_users_subscription_is_not_taken_by_its_name() -> None:
    """A durable subscription of another protocol may have the name that ours would get."""
    site = guarded()
    domain = site.domain
    domain.create_address("t", frozenset((RoutingType.MULTICAST,)))
    domain.create_queue(
        QueueConfig(name="c.t", address="t", routing_type=RoutingType.MULTICAST, max_consumers=1, user="ann")
    )
    bob = lasting(site, "c", username="bob")

    assert bob.subscribe("t", 1) == (1,)
    assert sorted(domain.queues) == ["$mqtt.c.t", "c.t"]


def test_a_refused_subscription_leaves_queues_alone_that_it_did_not_make() -> None:
    """They are somebody's: only what was made for it goes with it."""

    class Closed(Grants):
        def allows(self, subject: Subject, permission: Permission, address: str, queue: str | None = None) -> bool:
            is_queue = permission is Permission.CONSUME and queue is not None
            return not is_queue and super().allows(subject, permission, address, queue)

    site = Site(access=Closed())
    domain = site.domain
    domain.create_address("t", frozenset((RoutingType.MULTICAST,)))
    domain.create_queue(QueueConfig(name="c.t", address="t", routing_type=RoutingType.MULTICAST, max_consumers=1))
    client = lasting(site, "c")

    assert client.subscribe("t", 1) == (0x87,)
    assert client.subscribe("new", 1) == (0x87,)
    assert sorted(domain.queues) == ["c.t"]


def test_the_queue_of_a_session_is_consumed_by_its_user_only() -> None:
    """Through no other protocol either: what another user consumes is gone for the session."""
    site = guarded()
    ann_with_a_message(site)
    queue = site.domain.queue("c.t")

    with pytest.raises(NotAuthorized, match="another user's subscription"):
        Session(site.domain, Subject("bob")).consume(queue, Recorder())
    Session(site.domain, Subject("admin")).consume(queue, Recorder())


# -- what a client may do to its own -------------------------------------------------------------------------------


def unsubscribe(client: Client, *filters: str) -> tuple[int, ...]:
    """The codes of UNSUBACK; 3.x has none."""
    client.send(wire.unsubscribe(client.version, Unsubscribe(packet_id=7, topic_filters=filters)))
    (answer,) = [packet for packet in client.packets() if isinstance(packet, Unsuback)]
    return tuple(answer.reasons)


def test_unsubscribe_needs_the_permission_to_delete_a_durable_queue() -> None:
    """UNSUBACK 0x87: the subscription stays, with its messages, and goes on."""
    site = guarded()
    ann = lasting(site, "c", username="ann")
    ann.subscribe("t", 1)
    ann.subscribe("$share/g/t", 1)

    assert unsubscribe(ann, "t", "$share/g/t", "unknown") == (0x87, 0x87, 0x11)
    ann.publish("t", b"still", 0)
    assert bodies(ann) == [b"still"] * 2
    admin = lasting(site, "a", username="admin")
    admin.subscribe("t", 1)
    assert unsubscribe(admin, "t") == (0,)
    assert sorted(site.domain.queues) == ["c.t", "g.t"]


def test_a_member_may_leave_a_group_that_has_others() -> None:
    """Nothing is deleted; only the last one of them takes the queue along."""
    site = guarded()
    one, other = lasting(site, "one", username="ann"), lasting(site, "other", username="bob")
    for client in (one, other):
        client.subscribe("$share/g/t", 1)

    assert unsubscribe(one, "$share/g/t") == (0,)
    assert unsubscribe(other, "$share/g/t") == (0x87,)
    assert "g.t" in site.domain.queues


def test_a_queue_that_ends_with_its_connection_goes_without_permission() -> None:
    """It is temporary, whatever the client does."""
    site = guarded()
    ann = connected(site, "c", username="ann")
    ann.subscribe("t", 1)

    assert unsubscribe(ann, "t") == (0,)
    assert not site.domain.queues


def test_version_3_cannot_be_told() -> None:
    """It gets its UNSUBACK [MQTT-3.10.4-4], and the log says that the subscription stays."""
    site = guarded()
    ann = Client(site, MQTT_3_1_1)
    ann.connect("c", username="ann", clean_start=False)
    ann.subscribe("t", 1)

    assert unsubscribe(ann, "t") == ()
    assert "c.t" in site.domain.queues


@pytest.mark.parametrize(("version", "code"), [(MQTT_3_1_1, 5), (MQTT_5, 0x87)])
def test_a_clean_start_needs_the_permission_as_well(version: int, code: int) -> None:
    """It would delete the same queues."""
    site = guarded()
    ann_with_a_message(site)

    assert Client(site, version).connect("c", username="ann", clean_start=True).reason == code
    assert bodies(lasting(site, "c", username="ann")) == [b"for ann"]


def test_a_session_does_not_end_sooner_without_the_permission() -> None:
    """Neither by CONNECT, whose answer says so, nor by DISCONNECT; that it expires is the broker's act."""
    site = guarded()
    lasting(site, "c", expiry_s=100, username="ann").subscribe("t", 1)
    ann = Client(site)
    answer = ann.connect("c", username="ann", clean_start=False, properties=Properties(session_expiry_interval=50))
    ann.send(wire.disconnect(5, Disconnect(reason=0, properties=Properties(session_expiry_interval=1))))
    ann.lose()
    site.pass_time(99)

    assert answer.properties.session_expiry_interval == 100
    assert "c.t" in site.domain.queues
    site.pass_time(2)
    assert not site.domain.queues
    admin = lasting(site, "a", expiry_s=100, username="admin")
    admin.subscribe("t", 1)
    admin.send(wire.disconnect(5, Disconnect(reason=0, properties=Properties(session_expiry_interval=0))))
    assert not site.domain.queues


def test_a_client_identifier_with_two_colons_makes_a_queue_without() -> None:
    """`::` ends an address: no queue may have it, and every client identifier is legal in MQTT."""
    site = guarded()
    for client_id in ("dev::1", "dev:\\:1", "dev:::1"):
        client = lasting(site, client_id, username="ann")
        assert client.subscribe("t", 1) == (1,)
        assert client.subscribe("$share/g::h/t", 1) == (1,)

    names = sorted(site.domain.queues)
    assert names == [r"dev:\:1.t", r"dev:\:\:1.t", r"dev:\\:1.t", r"g:\:h.t"]
