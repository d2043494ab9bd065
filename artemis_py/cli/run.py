"""`artemis-py run`: a broker in the foreground."""

import asyncio
import faulthandler
import gc
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path

import click
from attrs import evolve

from artemis_py.broker import Broker
from artemis_py.cli.check import examine
from artemis_py.cli.errors import Failed, Misconfigured
from artemis_py.cli.event_loop import EVENT_LOOPS, event_loop_factory
from artemis_py.cli.instance import configuration_file
from artemis_py.cli.serving import serve
from artemis_py.config import BrokerConfig, load, load_default
from artemis_py.errors import ConfigError, StoreError

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

# Reference counts free nearly all objects of a broker, and long-lived ones are not garbage. With Python's own
# thresholds (700, 10, 10) the collector visits messages in flight again and again: measured at up to 40 % of the
# CPU with ten connections, and a pause of a second with 200,000 queues (benchmarks/README.md). Objects that survived
# once are visited again soon, while they are few: with 20 for the second number, up to a million objects were visited
# at once, and every client had to wait.
GC_THRESHOLDS = (25_000, 1, 2000)

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@click.command()
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--log-level", type=click.Choice(LOG_LEVELS, case_sensitive=False), default="INFO", show_default=True)
@click.option(
    "--port-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="When ready, write the ports of the acceptors to this file, one per line.",
)
@click.option(
    "--event-loop",
    type=click.Choice(EVENT_LOOPS),
    default="asyncio",
    show_default=True,
    help="The event loop to run in; uvloop is the extra of that name.",
)
def run(folder: Path | None, log_level: str, port_file: Path | None, event_loop: str) -> None:
    """Start the broker of the instance in DIR; without DIR, one with the shipped configuration.

    Without DIR it keeps its messages in the folder data below the current one.

    It prints where it listens, then "ready", logs to standard error, and stops cleanly on SIGTERM and Ctrl-C. On SIGHUP
    it reads its files again and follows them as far as it can while it runs; the log says what it did. With
    configuration-file-refresh-period in broker.xml it does so by itself when that file has changed.
    """
    logging.basicConfig(level=log_level.upper(), format=LOG_FORMAT)
    tell_fatal_signals()
    brokers: list[Broker] = []

    def ready(broker: Broker) -> None:
        brokers.append(broker)
        announce(broker, port_file)

    def source() -> BrokerConfig:
        if folder is None:
            # The folder of the shipped configuration is not ours to write data to.
            return evolve(load_default(), home=Path.cwd())
        return load(configuration_file(folder))

    try:
        with asyncio.Runner(loop_factory=event_loop_factory(event_loop)) as runner:
            runner.run(serve(source, ready, None if folder is None else configuration_file(folder)))
    except ConfigError as error:
        # A start ends at the first part that cannot be used; whoever mends the file wants to know of the others.
        others = [] if folder is None else examine(configuration_file(folder)).problems
        raise Misconfigured(ConfigError(list(dict.fromkeys([*error.problems, *others])))) from None
    except StoreError as error:
        raise Failed(str(error)) from None
    except OSError as error:
        raise Failed(f"{error.filename or 'start'}: {error.strerror}") from None
    leave(brokers)


def leave(brokers: list[Broker]) -> None:
    """End the process with exit code 0, without freeing the objects in memory.

    The brokers have stopped: files are closed, threads have ended. Python would now free every object, one by one,
    which takes seconds for two million messages. `brokers` keeps them alive until the process ends.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    if brokers:
        os._exit(0)


def tell_fatal_signals() -> None:
    """Print a line and a traceback on a fatal signal, such as for a page of the store that the disk lost."""
    if not faulthandler.is_enabled():
        # Without a standard error there is nowhere to print to.
        with suppress(AttributeError, RuntimeError, ValueError, OSError):
            faulthandler.enable(sys.__stderr__)  # type: ignore[arg-type]


def announce(broker: Broker, port_file: Path | None) -> None:
    """Print where clients can connect. Raises OSError if the port file cannot be written."""
    facts = broker.acceptor_facts()
    for fact in facts:
        host = f"[{fact.host}]" if ":" in fact.host else fact.host
        click.echo(f"listening: {fact.name} {host}:{fact.port}")
    if broker.web is not None:
        click.echo(f"listening: web {broker.web.url}/")
    if port_file is not None:
        # Renamed into place: a program that waits for the file never reads an incomplete one.
        written = port_file.with_name(f"{port_file.name}.{os.getpid()}")
        written.write_text("".join(f"{fact.port}\n" for fact in facts), encoding="ascii")
        written.replace(port_file)
    relax_garbage_collector()
    click.echo("ready")


def relax_garbage_collector() -> None:
    """Run the collector rarely, and never on objects from the start. Only for a process that runs just a broker."""
    gc.collect(0)  # the rest was visited as it came
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
