"""Carries out requests about the resources of management, as the user who makes them.

Each request has a session of its own, as if its sender were connected for its duration. So permissions are checked
where all others are, and nothing can be done over HTTP that a message to the management address could not do.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

from attrs import evolve

from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.access import Permission
from artemis_py.core.runtime.background import Steps
from artemis_py.core.services.domains import Domains
from artemis_py.core.services.services import Services
from artemis_py.core.services.virtual_hosts import VirtualHosts
from artemis_py.core.sessions.session import Session
from artemis_py.errors import InvalidRequest, Refusal, StoreError
from artemis_py.management.audit import record
from artemis_py.management.control import Control
from artemis_py.management.facts import BrokerFacts
from artemis_py.management.http.access import Caller
from artemis_py.management.http.problems import Problem
from artemis_py.management.resources import Resources

PROTOCOL: Final = "HTTP"
"""Protocol of the sessions, as lists of connections show it."""

MOST_AT_A_TIME: Final = 8
"""Requests that are carried out at a time; others wait, because each may be a list of everything there is."""

MOST_WAITING: Final = 64
"""Requests that wait for that; further ones are refused."""


Find = Callable[[str], Control]
"""Returns the control of a resource. Raises Problem if there is none of this name."""


class Heartbeat:
    """The turn of the loop as these requests need it: what is done to the core is done between two of its calls."""

    def __init__(self, enter: Callable[[], object], plan: Callable[[], None]) -> None:
        self.enter: Final = enter
        """Tells the core the time. Called before anything reaches the core, and again after each wait."""
        self.plan: Final = plan
        """Has the core act on what has become ready."""


class Administration:
    """The resources of all domains, for requests that come one by one."""

    def __init__(
        self, domains: Domains, hosts: VirtualHosts, facts: Callable[[], BrokerFacts], heartbeat: Heartbeat
    ) -> None:
        """Create it; `facts` are asked for at each request. It raises a Refusal while the broker serves nobody."""
        self._domains: Final = domains
        self._hosts: Final = hosts
        self._facts: Final = facts
        self._heartbeat: Final = heartbeat
        self._room: Final = asyncio.Semaphore(MOST_AT_A_TIME)
        self._waiting = 0

    async def read(
        self, caller: Caller, host: str, ask: Callable[[Find], object], is_for_managers: bool = True
    ) -> object:
        """Return what `ask` returns for resources of a virtual host (empty: the default one).

        `ask` finds them by name, such as `queue.orders`, which raises Problem if there is none. Unless it is for
        managers only, it is asked for everybody, and has to look for the permission itself. Raises Refusal.
        """
        return await self._in_session(caller, host, ask, is_for_managers=is_for_managers)

    async def invoke(
        self, caller: Caller, host: str, resource: str, operation: str, parameters: Sequence[object]
    ) -> object:
        """Carry out an operation, and return its result when what it did is durable.

        Raises Problem for a resource that does not exist, and Refusal.
        """

        def tell(succeeded: bool, result: object) -> None:
            named = {"_AMQ_ResourceName": resource, "_AMQ_OperationName": operation}
            text = json.dumps(parameters, ensure_ascii=False)
            record(named, caller.subject.name, caller.peer, text, succeeded, result)

        try:
            result = await self._in_session(
                caller, host, lambda find: find(resource).invoke(operation, parameters), is_change=True
            )
        except (Refusal, Problem) as refusal:
            tell(False, str(refusal))
            raise
        tell(True, result)
        return result

    async def _in_session(
        self,
        caller: Caller,
        host: str,
        ask: Callable[[Find], object],
        is_change: bool = False,
        is_for_managers: bool = True,
    ) -> object:
        async with self._place():
            facts = self._facts()
            self._heartbeat.enter()
            services = self._domains.named(host) if host else self._domains.default
            domain = services.sessions.domain
            session = services.sessions.open(caller.subject, "", caller.peer, PROTOCOL, is_operator=True)
            try:
                if is_for_managers:
                    session.check(Permission.MANAGE, domain.options.management_address)
                resources = self._resources(services, facts)
                result = ask(lambda resource: _found(resources, resource, session))
                self._heartbeat.plan()
                if isinstance(result, Generator):
                    result = await end_of(result, domain.dispatcher, self._heartbeat)
                if is_change:
                    await _durable(domain, self._heartbeat)
                return result
            finally:
                self._heartbeat.enter()
                session.close()
                self._heartbeat.plan()

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Wait until few enough requests are carried out. Raises Problem if too many wait."""
        if self._waiting >= MOST_WAITING:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", f"{MOST_WAITING} requests are waiting already")
        self._waiting += 1
        try:
            await self._room.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._room.release()

    def _resources(self, services: Services, facts: BrokerFacts) -> Resources:
        if services is self._domains.default:
            return Resources(services, facts, self._hosts)
        # The mesh and connections to other brokers have queues of the default host only.
        return Resources(services, evolve(facts, mesh=None, broker_connections=tuple))


def _found(resources: Resources, resource: str, session: Session) -> Control:
    try:
        return resources.find(resource, session)
    except InvalidRequest as refusal:
        raise Problem(HTTPStatus.NOT_FOUND, "no-such-resource", str(refusal)) from None


async def end_of(steps: Steps, dispatcher: Dispatcher, heartbeat: Heartbeat) -> Any:
    """Return the result of work in slices, when its last one has been done. Raises what it raises."""
    end: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def guarded() -> Steps:
        try:
            return (yield from steps)
        except Refusal:
            raise
        except Exception as error:  # whoever waits must hear of it: in a later slice nobody else would tell
            _refuse(end, error)
            return None

    dispatcher.slices.start(guarded(), lambda result: _resolve(end, result), lambda refusal: _refuse(end, refusal))
    heartbeat.plan()
    return await end


async def _durable(domain: Domain, heartbeat: Heartbeat) -> None:
    """Wait until everything that has been done is durable. Raises StoreError."""
    stored: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def failed(reason: str) -> None:
        text = f"done, but the store failed: {reason}; after a restart it may be undone"
        _refuse(stored, StoreError(text))

    heartbeat.enter()
    domain.storage.when_durable(lambda: _resolve(stored, None), failed)
    heartbeat.plan()
    await stored


# A request may have been cancelled in the meantime, because the broker stops.
def _resolve(future: asyncio.Future[object], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _refuse(future: asyncio.Future[object], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
