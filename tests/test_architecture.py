"""The map of the parts: who may import whom, and that everything on it is shipped."""

import ast
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

REPOSITORY: Final = Path(__file__).resolve().parents[1]

ROWS: Final = {
    "artemis_py": 0,  # the package itself holds nothing but its docstring
    "artemis_py.errors": 1,
    "artemis_py.logs": 1,
    "artemis_py.peers": 1,
    "artemis_py.release": 1,
    "artemis_py.core": 2,
    "artemis_py.protocol": 3,
    "artemis_py.transformers": 3,
    "artemis_py.wire": 3,  # what every engine needs
    "artemis_py.security": 4,  # fulfils the Authenticator of protocol.py
    "artemis_amqp": 4,
    "artemis_mqtt": 4,
    "artemis_openwire": 4,
    "artemis_py.store": 4,
    "artemis_py.transport": 4,
    "artemis_py.management": 5,
    "artemis_py.cluster": 5,
    "artemis_py.storetools": 6,  # reads what every other part stores, the mesh too
    "artemis_py.config": 6,
    "artemis_py.deployment": 7,
    "artemis_py.broker": 8,
    "artemis_py.migrate": 8,
    "artemis_py.spark": 8,
    "artemis_py.testing": 9,  # runs a broker, and looks into it
    "artemis_py.pytest_plugin": 10,  # what pytest looks for
    "artemis_py.cli": 9,  # starts whatever there is
    "pyspark_artemis": 9,  # what Spark looks for by its name: an import of artemis_py.spark
    "artemis_conf": 0,  # data files; read through importlib.resources
    "artemis_py.console": 0,  # the same
}
"""Imports point to lower numbers only (docs/architecture.md draws the same rows)."""

PROTOCOLS: Final = {name for name, row in ROWS.items() if row == 4 and not name.startswith("artemis_py.")}


CLIENTS: Final = ("artemis_py.cli", "artemis_py.spark")
"""Parts that talk to a broker over the wire, and may use a protocol's client side for it."""


ROOMS: Final = {
    "artemis_py.core.names": 0,
    "artemis_py.core.selectors": 1,
    "artemis_py.core.runtime": 1,
    "artemis_py.core.settings": 1,
    "artemis_py.core.messages": 2,
    "artemis_py.core.addresses": 3,
    "artemis_py.core.queues": 4,
    "artemis_py.core.routing": 5,
    "artemis_py.core.sessions": 6,
    "artemis_py.core.services": 7,
    "artemis_amqp.engine": 0,
    "artemis_amqp.messages": 1,
    "artemis_amqp.client": 2,
    "artemis_amqp.carrier": 3,
    "artemis_amqp.bridge": 4,
    "artemis_amqp.broker": 5,
    "artemis_mqtt.engine": 0,
    "artemis_mqtt.broker": 1,
    "artemis_openwire.engine": 0,
    "artemis_openwire.messages": 1,
    "artemis_openwire.client": 2,
    "artemis_openwire.broker": 2,
}
"""The rooms of the parts that have some: imports between them point to lower numbers only."""

STILL_WRONG: Final[set[tuple[str, str]]] = set()
"""Imports between rooms that point up and have not been mended. This list only gets shorter."""


def package_roots() -> dict[str, Path]:
    """Top-level package -> its folder, as `package_dir` in setup.cfg has it."""
    lines = shipped()["options"]["package_dir"].strip().splitlines()
    return {name.strip(): REPOSITORY / folder.strip() for name, folder in (line.split("=") for line in lines)}


def shipped() -> ConfigParser:
    """setup.cfg."""
    parser = ConfigParser()
    parser.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    return parser


def modules() -> dict[str, Path]:
    """Every module of ours by its dotted name; a package stands for its `__init__.py`."""
    found = {}
    for root, folder in package_roots().items():
        for path in sorted(folder.rglob("*.py")):
            parts = [root, *path.relative_to(folder).with_suffix("").parts]
            if parts[-1] == "__init__":
                parts.pop()
            found[".".join(parts)] = path
    return found


def part_of(module: str) -> str:
    """The longest name in ROWS that `module` belongs to."""
    while module not in ROWS:
        assert "." in module, f"{module} is on no row of the map"
        module = module.rpartition(".")[0]
    return module


def imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Dotted names a statement may refer to: `from a import b` may mean the module a.b."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif node.module is not None:
        for alias in node.names:
            yield f"{node.module}.{alias.name}"


@cache
def imports(path: Path, at_run_time: bool = False) -> frozenset[str]:
    """Names of what a file imports, anywhere in it; `at_run_time` leaves out `if TYPE_CHECKING:`."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert not (isinstance(node, ast.ImportFrom) and node.level), f"{path}: imports are absolute"
            found.update(imported_names(node))
        elif at_run_time and isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting.extend(node.orelse)
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return frozenset(found)


def our_imports(path: Path, known: dict[str, Path], at_run_time: bool = False) -> set[str]:
    """The modules of ours that a file imports."""
    names = (name if name in known else name.rpartition(".")[0] for name in imports(path, at_run_time))
    return {name for name in names if name in known}


def test_imports_point_to_lower_rows_only() -> None:
    """Imports never point sideways or up; inside one part a module is free to import its neighbours."""
    known = modules()
    wrong = [
        f"{module} (row {ROWS[part_of(module)]}) imports {name} (row {ROWS[part_of(name)]})"
        for module, path in known.items()
        for name in our_imports(path, known)
        if part_of(name) != part_of(module) and ROWS[part_of(name)] >= ROWS[part_of(module)]
    ]

    assert wrong == []


def room_of(module: str) -> str | None:
    """The room that `module` stands in, if its part has rooms."""
    while module not in ROOMS and "." in module:
        module = module.rpartition(".")[0]
    return module if module in ROOMS else None


def test_imports_between_rooms_point_to_lower_rows_only() -> None:
    """Inside core and the protocols too; type imports count, since a reader has to follow them."""
    known = modules()
    wrong = {
        (room, other)
        for module, path in known.items()
        for name in our_imports(path, known)
        if (room := room_of(module)) is not None
        and (other := room_of(name)) is not None
        and part_of(room) == part_of(other)
        and room != other
        and ROOMS[other] >= ROOMS[room]
    }

    assert wrong == STILL_WRONG


def test_every_room_is_on_the_map() -> None:
    """A folder of core or of a protocol without a row would be outside of the test above."""
    known = modules()
    parts = {part_of(room) for room in ROOMS}
    without = [
        module
        for module in known
        if part_of(module) in parts and room_of(module) is None and module.count(".") > part_of(module).count(".") + 1
    ]

    assert without == []


def test_nothing_below_the_command_line_imports_a_protocol() -> None:
    """Protocols are found through entry points, so that one can be added from outside of this repository."""
    known = modules()
    wrong = [
        f"{module} imports {name}"
        for module, path in known.items()
        for name in our_imports(path, known)
        if part_of(name) in PROTOCOLS and part_of(module) not in (part_of(name), *CLIENTS)
    ]

    assert wrong == []


BEHIND_SESSIONS: Final = ("artemis_py.core.routing", "artemis_py.core.services")
"""What clients reach through sessions, which check permissions, and protocols through `Host`."""

OPEN_TO_PROTOCOLS: Final = {
    "artemis_py.core.routing.duplicates",  # how an id is read from a message
    "artemis_py.core.routing.routes",  # the routing type of a message that has none
    "artemis_py.core.routing.transaction",
    "artemis_py.core.services.job",  # when a message is to be sent
    "artemis_py.core.services.jobs",
    "artemis_py.core.services.retained",
    "artemis_py.core.services.xid",
}


def reached(path: Path, known: dict[str, Path]) -> set[str]:
    """Modules behind the sessions that a file imports."""
    return {
        name
        for name in our_imports(path, known)
        if name not in OPEN_TO_PROTOCOLS and any(f"{name}.".startswith(f"{part}.") for part in BEHIND_SESSIONS)
    }


def test_protocols_reach_the_broker_through_sessions_and_host() -> None:
    """Neither the directory of addresses, nor the queues, nor staging: what they do is checked then, in one place."""
    known = modules()
    paths = [path for module, path in known.items() if part_of(module) in PROTOCOLS]
    paths.append(REPOSITORY / "tests" / "line_protocol.py")

    assert [(path.name, name) for path in paths for name in sorted(reached(path, known))] == []


def test_protocols_take_nothing_of_a_domain_past_its_sessions() -> None:
    """An import is not needed for that: `session.domain.delete_queue` would delete without a check."""
    known = modules()
    found = [
        f"{module}:{node.lineno}"
        for module, path in known.items()
        if part_of(module) in PROTOCOLS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "domain"
    ]

    assert found == []


def test_the_spark_connector_is_a_client_like_any_other() -> None:
    """It uses the client side of the AMQP engine and our errors, and nothing of the broker."""
    known = modules()
    wrong = [
        f"{module} imports {name}"
        for module, path in known.items()
        for name in our_imports(path, known)
        if part_of(module) == "artemis_py.spark"
        and part_of(name) not in ("artemis_py.spark", "artemis_py.errors", "artemis_amqp")
    ]

    assert wrong == []


def test_no_module_imports_itself_through_others() -> None:
    """A cycle at run time would make the order of imports matter."""
    known = modules()
    graph = {module: our_imports(path, known, at_run_time=True) - {module} for module, path in known.items()}

    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


def test_only_config_reads_xml_with_lxml() -> None:
    """One reader of XML, hardened once."""
    importers = {
        part_of(module)
        for module, path in modules().items()
        for name in imports(path)
        if name.partition(".")[0] == "lxml"
    }

    assert importers <= {"artemis_py.config"}


def test_nothing_that_is_shipped_needs_proton() -> None:
    """It comes as source only: an install that needed it would need a C compiler. It is the referee of our tests."""
    importers = [
        module
        for module, path in modules().items()
        for name in imports(path)
        if name.partition(".")[0] in ("proton", "cproton")
    ]

    assert importers == []


@pytest.mark.parametrize("forbidden", ["asyncio", "socket", "ssl", "threading", "time", "logging", "pathlib", "os"])
def test_core_knows_no_socket_file_clock_or_log(forbidden: str) -> None:
    """Sockets, clocks and threads live at the edge and are passed in."""
    wrong = [
        module
        for module, path in modules().items()
        if part_of(module) == "artemis_py.core" and any(name.partition(".")[0] == forbidden for name in imports(path))
    ]

    assert wrong == []


def test_every_package_is_shipped() -> None:
    """A package missing from `packages` works in an editable install and is missing from the wheel."""
    tree = {
        ".".join([root, *path.parent.relative_to(folder).parts])
        for root, folder in package_roots().items()
        for path in folder.rglob("*.py")
    }
    listed = shipped()["options"]["packages"].split()

    assert listed == sorted(tree)


def test_every_package_is_typed() -> None:
    """PEP 561: without the marker file type checkers ignore our annotations."""
    without = [root for root, folder in package_roots().items() if not (folder / "py.typed").exists()]

    assert [root for root in without if root != "artemis_conf"] == []
