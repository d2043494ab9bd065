"""`/metrics`, for Prometheus: in its own format, or in OpenMetrics if it prefers that."""

from collections.abc import Callable
from typing import Final

from aiohttp import web

from artemis_py.core.queues.dispatcher import Dispatcher
from artemis_py.management.http.access import Access
from artemis_py.management.http.administration import Heartbeat, end_of
from artemis_py.management.metrics.broker_metrics import BrokerMetrics
from artemis_py.management.metrics.exposition import OPEN_METRICS_TYPE, TEXT_TYPE, Family, render


class Scrapes:
    """Answers `/metrics`."""

    def __init__(
        self, access: Access, metrics: Callable[[], BrokerMetrics], dispatcher: Dispatcher, heartbeat: Heartbeat
    ) -> None:
        """Create it; `metrics` raises a Refusal before the broker has any."""
        self._access: Final = access
        self._metrics: Final = metrics
        self._dispatcher: Final = dispatcher
        self._heartbeat: Final = heartbeat

    def routes(self) -> list[web.RouteDef]:
        """Return what it answers."""
        return [web.get("/metrics", self._scrape)]

    async def _scrape(self, request: web.Request) -> web.Response:
        await self._access.check_metrics(request)
        self._heartbeat.enter()
        found: list[Family] = await end_of(self._metrics().scrape(), self._dispatcher, self._heartbeat)
        is_open = "application/openmetrics-text" in request.headers.get("Accept", "")
        response = web.Response(
            body=render(found, is_open), headers={"Content-Type": OPEN_METRICS_TYPE if is_open else TEXT_TYPE}
        )
        response.enable_compression()
        return response
