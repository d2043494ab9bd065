"""PyPI's amqtt as a process: the partner in pure Python. `python amqtt_broker.py PORT`."""

import asyncio
import logging
import sys

from amqtt.broker import Broker

CONFIG = {
    "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{sys.argv[1]}", "max_connections": 100_000}},
    "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
}


async def main() -> None:
    """Until the process is ended."""
    await Broker(CONFIG).start()
    await asyncio.Event().wait()


logging.disable(logging.CRITICAL)
asyncio.run(main())
