"""rhea in a mesh: what it is told of the other broker, and where it is sent (mesh §7.1)."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.interop.test_mesh import artemis_py, free_ports, make, running, until
from tests.interop.test_mesh_clients import ROUTER

RUN_TIMEOUT_S = 90


@pytest.mark.timeout(240)
def test_rhea_goes_where_it_is_sent(project: Path, tmp_path: Path) -> None:
    """A router sends it to the other broker, unless it is one that stays; each names the other one."""
    first, second = free_ports(2)
    folders = make(tmp_path / "a", first, second), make(tmp_path / "b", second, first)
    path = folders[0] / "etc" / "broker.xml"
    text = path.read_text().replace("</acceptor>", ";router=away</acceptor>", 1)
    path.write_text(text.replace("</acceptors>", f"</acceptors>{ROUTER}", 1))
    with running(*folders):
        until(lambda: "up" in artemis_py("mesh", "status", "--json", port=second), "they never met", 60)
        for container, ports, conditions, other in (
            ("c1", [first, second], ["amqp:connection:redirect"], first),
            ("stays", [first], [], second),
        ):
            done = subprocess.run(
                ["node", "follow.js", str(first), container],
                cwd=project,
                capture_output=True,
                text=True,
                timeout=RUN_TIMEOUT_S,
            )
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout) == {
                "ports": ports,
                "others": [["127.0.0.1", other]],
                "conditions": conditions,
                "received": ["hello"],
            }
