"""Programs by name, and how they are run against a broker.

A program gets a `Site` and returns what it saw as plain data: facts by name. One that needs a restart of the broker is
a generator that yields where the restart belongs. All of them share one restart.
"""

import inspect
from collections.abc import Callable, Generator, Iterable, Mapping
from queue import Empty
from types import ModuleType
from typing import Any, Final

from attrs import frozen
from proton import ProtonException

from tests.interop.kinds.site import Site
from tests.interop.mqtt.paho_client import Refused as MqttRefused
from tests.interop.proton.client import Refused

Seen = dict[str, Any]
"""What a program saw: JSON values by what they are."""
Restarting = Generator[None, None, Seen]
Program = Callable[[Site], Seen | Restarting]

FAILED: Final = "failed"
"""The only fact of a program that did not come to its end."""


@frozen(kw_only=True)
class Parts:
    """What the programs of a kind need in `broker.xml`."""

    addresses: str = ""
    settings: str = ""
    diverts: str = ""
    settings_after_restart: str | None = None
    """Address settings from the restart on, if they change."""


def queue(name: str, attributes: str = "", children: str = "") -> str:
    """Declare an anycast queue on an address of the same name."""
    return f'<address name="{name}"><anycast><queue name="{name}" {attributes}>{children}</queue></anycast></address>\n'


def address(name: str, anycast: Iterable[str] | None = None, multicast: Iterable[str] | None = None) -> str:
    """Declare an address with queues of each routing type that it has."""
    content = "".join(
        f"<{kind}>" + "".join(f'<queue name="{each}"/>' for each in queues) + f"</{kind}>"
        for kind, queues in (("anycast", anycast), ("multicast", multicast))
        if queues is not None
    )
    return f'<address name="{name}">{content}</address>\n'


def divert(name: str, source: str, target: str, content: str = "") -> str:
    """Declare a divert."""
    ends = f"<address>{source}</address><forwarding-address>{target}</forwarding-address>"
    return f'<divert name="{name}">{ends}{content}</divert>\n'


def setting(match: str, **elements: object) -> str:
    """Declare settings of addresses; `_` in a name is `-`."""
    content = "".join(
        f"<{name.replace('_', '-')}>{value}</{name.replace('_', '-')}>" for name, value in elements.items()
    )
    return f'<address-setting match="{match}">{content}</address-setting>\n'


def programs(modules: Iterable[ModuleType]) -> dict[str, Program]:
    """Return the programs of kinds by name, `<module>.<function>`, in the order in which they are written."""
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": function
        for module in modules
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
    }


def title(program: Program) -> str:
    """Return what a program does: the first line of its docstring."""
    return (inspect.getdoc(program) or "").partition("\n")[0]


def observe(site: Site, restart: Callable[[], str], chosen: Mapping[str, Program]) -> dict[str, Seen]:
    """Run programs and return what each saw, by its name. `restart` returns where clients connect afterwards."""
    seen: dict[str, Seen] = {}
    running: dict[str, Restarting] = {}
    for name, program in chosen.items():
        started = attempt(lambda program=program: program(site))  # type: ignore[misc]
        if isinstance(started, dict):
            seen[name] = started
            continue
        running[name] = started
        failed = attempt(lambda started=started: next(started))  # type: ignore[misc]
        if failed is not None:
            seen[name] = failed
            del running[name]
    if running:
        site.disconnect()
        site.url = restart()
    for name, rest in running.items():
        seen[name] = attempt(lambda rest=rest: end_of(rest))  # type: ignore[misc]
    site.disconnect()
    return {name: seen[name] for name in chosen}


def end_of(rest: Restarting) -> Seen:
    """Run the part of a program after the restart; what the program returns."""
    try:
        next(rest)
    except StopIteration as ended:
        seen: Seen = ended.value
        return seen
    raise AssertionError("a program asked for a second restart")


def attempt(step: Callable[[], Any]) -> Any:
    """Return what a step returns, or why it failed: the other programs are run whatever happens to one."""
    try:
        return step()
    except (Refused, MqttRefused, ProtonException, AssertionError, LookupError, OSError, ValueError, Empty) as error:
        return {FAILED: f"{type(error).__name__}: {error}"}
