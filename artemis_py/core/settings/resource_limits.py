"""Limits of single users: `<resource-limit-setting>` (artemis-model §6.5)."""

from typing import Final

from attrs import frozen

from artemis_py.core.settings.declaration import Kind, option, options_of


@frozen(kw_only=True)
class ResourceLimit:
    """What the clients of one user may have; -1: no limit."""

    max_connections: int = option(
        Kind.COUNT, -1, "Connections that clients of the user may have at a time, in all virtual hosts; -1: no limit."
    )
    max_queues: int = option(
        Kind.COUNT,
        -1,
        "Queues that its clients have created, in all virtual hosts: on demand, for subscriptions, temporary ones, and "
        "by management; -1: no limit. Deleted ones no longer count.",
    )


RESOURCE_LIMIT_OPTIONS: Final = options_of(ResourceLimit)
"""The child elements of `<resource-limit-setting>`."""
