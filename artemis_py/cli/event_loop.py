"""The event loop of a broker process. A broker inside a program runs in the loop of that program, whichever it is."""

import asyncio
from collections.abc import Callable

from artemis_py.cli.errors import Failed

EVENT_LOOPS = ("asyncio", "uvloop")


def event_loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes a loop of this kind. Raises Failed if uvloop is not installed."""
    if name == "asyncio":
        return asyncio.new_event_loop
    try:
        import uvloop
    except ImportError:
        raise Failed("uvloop is not installed: pip install 'artemis-py-broker[uvloop]'") from None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
