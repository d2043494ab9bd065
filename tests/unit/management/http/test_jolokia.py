"""What programs ask Artemis through Jolokia."""

import contextlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artemis_py.errors import InvalidRequest
from artemis_py.management.http.object_names import Keys, is_pattern, name_of, parse_name
from tests.unit.management.http.site import Answer, Site, run

J = "/console/jolokia"
BROKER = 'org.apache.activemq.artemis:broker="b"'
QUEUE = f'{BROKER},component=addresses,address="orders",subcomponent=queues,routing-type="anycast",queue="orders"'


def turned(name: str) -> str:
    """An object name with its keys in the reverse order."""
    domain, _, keys = name.partition(":")
    return f"{domain}:{','.join(reversed(keys.split(',')))}"


async def by_path(site: Site, *parts: str, headers: dict[str, str] | None = None) -> Any:
    """The answer to a request by path."""
    path = "/".join(quote(part.replace("!", "!!").replace("/", "!/"), safe="") for part in parts)
    answer = await site.ask("GET", f"{J}/{path}", headers=headers)
    assert answer.status == 200, answer
    return answer.body


async def by_body(site: Site, body: object, headers: dict[str, str] | None = None) -> Answer:
    """The answer to a request by body."""
    return await site.ask("POST", J, body, headers=headers)


def test_a_scaler_reads_the_number_of_messages(tmp_path: Path) -> None:
    """The request that KEDA's scaler for Artemis makes."""

    async def steps(site: Site) -> None:
        url = (
            f'{J}/read/org.apache.activemq.artemis:broker="b",component=addresses,address="orders",'
            'subcomponent=queues,routing-type="anycast",queue="orders"/MessageCount'
        ).replace('"', "%22")
        answer = await site.ask("GET", url, user=("admin", "secret"), headers={"Origin": "http://localhost:8161"})

        assert (answer.status, answer.body["status"], answer.body["value"]) == (200, 200, 0)

    run(tmp_path, steps, security=True)


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        (BROKER, "Name", "b"),
        (QUEUE, "RoutingType", "ANYCAST"),
        (f'{BROKER},component=addresses,address="news"', "QueueCount", 0),
        (f'{BROKER},component=addresses,address="orders",subcomponent=diverts,divert="copy"', "UniqueName", "copy"),
        (f'{BROKER},component=acceptors,name="main"', "Name", "main"),
        (turned(QUEUE), "Name", "orders"),
    ],
)
def test_an_attribute_is_read(tmp_path: Path, name: str, attribute: str, value: object) -> None:
    async def steps(site: Site) -> None:
        assert (await by_path(site, "read", name, attribute))["value"] == value
        body = {"type": "read", "mbean": name, "attribute": attribute}
        assert (await by_body(site, body)).body["value"] == value

    run(tmp_path, steps)


def test_several_attributes_and_all_of_them_are_read(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        assert (await by_path(site, "read", BROKER, "Name,QueueCount"))["value"] == {"Name": "b", "QueueCount": 1}
        assert (await by_path(site, "read", QUEUE))["value"]["MessageCount"] == 0
        bulk = [{"type": "read", "mbean": BROKER, "attribute": "Name"}, {"type": "version"}]
        assert [each["status"] for each in (await by_body(site, bulk)).body] == [200, 200]

    run(tmp_path, steps)


def test_patterns_match_several_objects(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        pattern = 'org.apache.activemq.artemis:broker="*",component=addresses,address="*"'
        found = (await by_path(site, "read", pattern, "QueueCount"))["value"]
        assert found['org.apache.activemq.artemis:address="orders",broker="b",component=addresses'] == {"QueueCount": 1}
        names = (await by_path(site, "search", pattern.replace('address="*"', 'address="n?ws"')))["value"]
        assert names == ['org.apache.activemq.artemis:address="news",broker="b",component=addresses']
        assert (await by_path(site, "search", 'java.lang:type="*"'))["value"] == []

    run(tmp_path, steps)


def test_operations_are_called_with_text_as_parameters(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        listed = await by_path(site, "exec", BROKER, "listQueues(java.lang.String,int,int)", '""', "1", "10")
        assert '"orders"' in listed["value"]
        body = {
            "type": "exec",
            "mbean": BROKER,
            "operation": "createQueue(java.lang.String,java.lang.String,boolean,java.lang.String)",
            "arguments": ["a/b", "a/b", "true", "ANYCAST"],
        }
        assert (await by_body(site, body)).body["status"] == 200
        queue = site.broker.domain.find_queue("a/b")
        assert queue is not None
        assert queue.durable
        name = f'{BROKER},component=addresses,address="a/b",subcomponent=queues,routing-type="anycast",queue="a/b"'
        assert (await by_path(site, "exec", name, "countMessages", "[null]"))["value"] == 0
        assert (await by_body(site, {"type": "exec", "mbean": name, "operation": "pause()"})).body["status"] == 200
        assert queue.paused

    run(tmp_path, steps)


def test_a_get_and_a_page_of_another_site_change_nothing(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        answer = await by_path(site, "exec", BROKER, "destroyQueue(java.lang.String)", "orders")
        assert (answer["status"], answer["error_type"]) == (403, "java.lang.SecurityException")
        body = {"type": "exec", "mbean": BROKER, "operation": "destroyQueue", "arguments": ["orders"]}
        assert (await by_body(site, body, headers={"Origin": "http://evil.example"})).body["status"] == 403
        assert site.broker.domain.find_queue("orders") is not None
        across = {"Origin": "http://localhost:8161", "Sec-Fetch-Site": "cross-site"}
        assert (await by_body(site, body, headers=across)).body["status"] == 403
        # Artemis refuses requests without an origin, so scripts have this one.
        own = {"Origin": "http://localhost:8161"}
        assert (await by_body(site, body, headers=own)).body["status"] == 200
        assert site.broker.domain.find_queue("orders") is None

    run(tmp_path, steps)


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"type": "read", "mbean": BROKER, "attribute": "Nope"}, 404, "javax.management.AttributeNotFoundException"),
        ({"type": "read", "mbean": BROKER.replace('"b"', '"c"')}, 404, "javax.management.InstanceNotFoundException"),
        ({"type": "read", "mbean": "java.lang:type=Memory"}, 404, "javax.management.InstanceNotFoundException"),
        ({"type": "read", "mbean": "nothing"}, 400, "java.lang.IllegalArgumentException"),
        ({"type": "read", "mbean": 'org.apache.activemq.artemis:broker="b'}, 400, "java.lang.IllegalArgumentException"),
        ({"type": "read"}, 400, "java.lang.IllegalArgumentException"),
        ({"type": "write"}, 400, "java.lang.IllegalArgumentException"),
        ({"type": "exec", "mbean": BROKER, "operation": "nothing"}, 400, "java.lang.IllegalArgumentException"),
        (
            {"type": "exec", "mbean": BROKER, "operation": "createQueue", "arguments": ["orders", "orders"]},
            500,
            "java.lang.IllegalStateException",
        ),
        ({"type": "exec", "mbean": BROKER, "operation": "listQueues", "arguments": 1}, 400, "java.lang.IllegalArg"),
        ({"type": "exec", "mbean": BROKER + ",x=y", "operation": "pause"}, 404, "javax.management.InstanceNotFound"),
    ],
)
def test_a_mistake_is_said_in_the_words_of_java(tmp_path: Path, body: object, status: int, kind: str) -> None:
    async def steps(site: Site) -> None:
        answer = await by_body(site, body)

        assert (answer.status, answer.body["status"]) == (200, status)
        assert answer.body["error_type"].startswith(kind)
        assert answer.body["error"].startswith(answer.body["error_type"])

    run(tmp_path, steps)


def test_too_many_requests_in_one_body_are_refused(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        assert (await by_body(site, [{"type": "version"}] * 101)).status == 400
        assert (await by_body(site, [1])).status == 400
        assert (await by_body(site, "x")).status == 400

    run(tmp_path, steps)


def test_without_the_permission_nothing_is_answered(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        for body in (
            {"type": "version"},
            {"type": "read", "mbean": BROKER},
            {"type": "search", "mbean": BROKER},
            {"type": "exec", "mbean": BROKER, "operation": "listQueues"},
        ):
            answer = await site.ask("POST", J, body, user=("watcher", "pass"))
            assert answer.body["status"] == 403

    run(tmp_path, steps, security=True)


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    async def steps(site: Site) -> None:
        assert (await site.ask("GET", J)).status == 404

    run(tmp_path, steps, web="<jolokia>false</jolokia><console>false</console>")


@given(st.dictionaries(st.sampled_from(["broker", "address", "queue"]), st.text(max_size=20), min_size=1))
def test_a_name_is_read_as_it_was_written(keys: Keys) -> None:
    written = name_of(keys)

    parsed = parse_name(written)

    assert not is_pattern(parsed)
    assert name_of(keys) == written
    assert {key: unescaped(value) for key, value in parsed.items()} == {**keys}


def unescaped(value: str) -> str:
    """A value without the backslashes of a pattern."""
    result, rest = "", value
    while rest:
        if rest[0] == "\\":
            rest = rest[1:]
            result += "\n" if rest[0] == "n" else rest[0]
        else:
            result += rest[0]
        rest = rest[1:]
    return result


@given(st.text(alphabet='broke="\\,:*?ab', max_size=40))
def test_any_text_is_a_name_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidRequest):
        parse_name(f"org.apache.activemq.artemis:{text}")
