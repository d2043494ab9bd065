"""Compiles the hot modules with mypyc; everything else about the distribution is in setup.cfg.

Where compiling is not possible (no C compiler, no mypyc) the install goes on in pure Python: the same files are
interpreted, slower but with the same behaviour. `ARTEMIS_PY_PURE=1` asks for that.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

HOT = [
    "artemis_py/core/backlog.py",
    "artemis_py/core/buffers.py",
    "artemis_py/core/bulk.py",
    "artemis_py/core/consumer.py",
    "artemis_py/core/destination.py",
    "artemis_py/core/hub.py",
    "artemis_py/core/message.py",
    "artemis_py/core/meter.py",
    "artemis_py/core/page.py",
    "artemis_py/core/picking.py",
    "artemis_py/core/postoffice.py",
    "artemis_py/core/queue.py",
    "artemis_py/core/reference.py",
    "artemis_py/core/routing.py",
    "artemis_py/core/schedule.py",
    "artemis_py/core/session.py",
    "artemis_py/core/slices.py",
    "artemis_py/core/span.py",
    "artemis_py/core/tail.py",
    "artemis_py/core/timers.py",
    "artemis_py/core/transaction.py",
    "artemis_py/spark/decoding.py",
    "artemis_py/store/batch.py",
    "artemis_py/store/pages.py",
    "artemis_py/store/schema.py",
    "artemis_py/store/structure.py",
    "artemis_py/store/writer.py",
    "protocols/artemis_amqp/amendments.py",
    "protocols/artemis_amqp/codec.py",
    "protocols/artemis_amqp/connection.py",
    "protocols/artemis_amqp/consumers.py",
    "protocols/artemis_amqp/format.py",
    "protocols/artemis_amqp/hot_frames.py",
    "protocols/artemis_amqp/link.py",
    "protocols/artemis_amqp/producers.py",
    "protocols/artemis_amqp/sections.py",
    "protocols/artemis_amqp/session.py",
    "protocols/artemis_mqtt/connection.py",
    "protocols/artemis_mqtt/deliveries.py",
    "protocols/artemis_mqtt/fields.py",
    "protocols/artemis_mqtt/flight.py",
    "protocols/artemis_mqtt/handler.py",
    "protocols/artemis_mqtt/publish.py",
    "protocols/artemis_mqtt/publishing.py",
    "protocols/artemis_mqtt/session.py",
]


def hot_extensions() -> list[Extension]:
    """The hot modules as one group, so that calls between them are C calls; empty if they stay interpreted."""
    if os.environ.get("ARTEMIS_PY_PURE", "0") not in ("", "0"):
        return []
    os.environ["MYPYPATH"] = "protocols"
    try:
        from mypyc.build import mypycify

        # No configuration file: strictness is checked by tox, here only what the compiler needs.
        options = ["--config-file=", "--explicit-package-bases"]
        extensions: list[Extension] = mypycify(
            options + [path for path in HOT if Path(path).exists()], group_name="artemis_py"
        )
    except (ImportError, SystemExit) as error:
        print(f"artemis_py: mypyc cannot compile here, installing pure Python: {error}", file=sys.stderr)
        return []
    return extensions


class BuildAllOrNothing(build_ext):
    """A group compiled in part fails on import, so one failure takes the whole group back to pure Python."""

    def build_extensions(self) -> None:
        try:
            super().build_extensions()
        except (BaseError, CCompilerError, OSError) as error:
            print(f"artemis_py: compiling failed, installing pure Python: {error}", file=sys.stderr)
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []


setup(ext_modules=hot_extensions(), cmdclass={"build_ext": BuildAllOrNothing})
