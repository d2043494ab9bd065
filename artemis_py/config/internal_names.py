"""Names below `internal-naming-prefix`: they belong to what the broker creates for itself."""

from collections.abc import Iterator
from typing import Any

from artemis_py.config.document import in_core
from artemis_py.config.report import Report


def warn_of_internal_names(core: Any, prefix: str, report: Report) -> None:
    """Warn of addresses, queues and diverts that are declared below the prefix.

    Clients can neither send to such a name nor consume from it, and a name that a retroactive address needs for its
    history (artemis-model §3.11) is taken.
    """
    for element, name in _names(core):
        if name.startswith(prefix):
            report.warning(
                report.place(element),
                f'"{name}" begins with internal-naming-prefix "{prefix}": clients cannot send to such names or consume '
                "from them, and the broker may need this one itself; choose another",
            )


def _names(core: Any) -> Iterator[tuple[Any, str]]:
    for path in (
        f"{in_core('addresses')}/{in_core('address')}",
        f"{in_core('addresses')}/{in_core('address')}/*/{in_core('queue')}",
        f"{in_core('diverts')}/{in_core('divert')}",
    ):
        for element in core.iterfind(path):
            yield element, element.get("name", "").strip()
    for element in core.iterfind(f"{in_core('diverts')}/{in_core('divert')}/{in_core('forwarding-address')}"):
        yield element, (element.text or "").strip()
