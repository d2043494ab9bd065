"""Reads `<resource-limit-settings>`: limits of single users."""

from typing import Any, Final

from artemis_py.config.document import in_core
from artemis_py.config.elements import Elements
from artemis_py.core.settings.resource_limits import RESOURCE_LIMIT_OPTIONS, ResourceLimit

_PATH: Final = f"{in_core('resource-limit-settings')}/{in_core('resource-limit-setting')}"


def read_resource_limits(core: Any, elements: Elements) -> dict[str, ResourceLimit]:
    """Return the limits by user; a second setting for the same user is reported."""
    found: dict[str, ResourceLimit] = {}
    lines: dict[str, int] = {}
    for element in core.iterfind(_PATH):
        values = elements.children(element, RESOURCE_LIMIT_OPTIONS)
        user = elements.name(element, "match")
        if user is None:
            continue
        place = elements.report.place(element, "attribute match")
        if user in found:
            text = f'user "{user}" has the resource-limit-setting of line {lines[user]} already; write one for a user'
            elements.report.problem(place, text)
            continue
        found[user] = ResourceLimit(**values)
        lines[user] = place.line
    return found
