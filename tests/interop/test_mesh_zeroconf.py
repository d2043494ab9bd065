"""Brokers as processes that find each other on the local network: no broker is told of another one."""

from pathlib import Path
from uuid import uuid4

from tests.interop.test_mesh import artemis_py, free_ports, make, receive, running, send, until
from tests.multicast import LOOPBACK, need_multicast


def by_zeroconf(folder: Path, port: int, group: str) -> Path:
    """An instance that knows nobody."""
    path = make(folder, port) / "etc" / "broker.xml"
    text = path.read_text()
    discovery = f'<zeroconf interface="{LOOPBACK}">{group}</zeroconf>'
    groups = f'<discovery-groups><discovery-group name="g">{discovery}</discovery-group></discovery-groups>'
    for before, after in (
        ("<cluster-connections>", f"{groups}<cluster-connections>"),
        ("</cluster-connection>", '<discovery-group-ref discovery-group-name="g"/></cluster-connection>'),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    path.write_text(text)
    return folder


def test_brokers_on_one_network_make_a_mesh(tmp_path: Path) -> None:
    """mesh §2.4: two of one group share a queue; one of another group is not in it."""
    need_multicast()
    shop, office = f"shop-{uuid4().hex}", f"office-{uuid4().hex}"  # other runs on this machine are on the same network
    first, second, other = free_ports(3)
    folders = (
        by_zeroconf(tmp_path / "a", first, shop),
        by_zeroconf(tmp_path / "b", second, shop),
        by_zeroconf(tmp_path / "c", other, office),
    )
    with running(*folders):
        for port in (first, second):
            until(lambda at=port: "up" in artemis_py("mesh", "status", "--json", port=at), "they never met", 60)  # type: ignore[misc]
        send(first, "orders", ["one", "two"])

        assert receive(second, "orders", 2) == ["one", "two"]
        assert "up" not in artemis_py("mesh", "status", "--json", port=other)
