"""The engine of MQTT can be read, tested and used without a broker."""

from pathlib import Path

from tests.test_architecture import REPOSITORY, imports

ENGINE = REPOSITORY / "protocols" / "artemis_mqtt" / "engine"


def outside(path: Path) -> set[str]:
    """Modules of ours that a file imports from other rooms, type imports included."""
    names = {name.rpartition(".")[0] for name in imports(path)}
    return {name for name in names if name.startswith("artemis_") and not name.startswith("artemis_mqtt.engine")}


def test_the_engine_knows_no_broker() -> None:
    """Of the core only the meter; of the wire kit what has no store and no account."""
    found = set().union(*(outside(path) for path in ENGINE.glob("*.py")))

    assert found <= {
        "artemis_py.core.runtime.meter",
        "artemis_py.errors",
        "artemis_py.wire.inbox",
        "artemis_py.wire.outbox",
    }
