"""Virtual hosts: how their domains are made, and the configuration that each of them follows.

Each host has a `Deployment` of its own for its contents, which are planned and applied like those of the broker.
"""

from typing import Final

from attrs import evolve

from artemis_py.config.broker_config import BrokerConfig, VirtualHostSection
from artemis_py.config.resolving import empty_repository
from artemis_py.core.routing.domain import Domain
from artemis_py.core.runtime.events import Events
from artemis_py.core.services.domains import Domains
from artemis_py.core.services.services import Services
from artemis_py.core.services.virtual_hosts import VirtualHost, VirtualHosts
from artemis_py.core.sessions.sessions import Sessions
from artemis_py.core.settings.exchange_config import NO_EXCHANGES
from artemis_py.deployment.apply import Deployment
from artemis_py.deployment.host_changes import HostChange, InHost
from artemis_py.deployment.plan import EMPTY, Plan, plan
from artemis_py.errors import Problem, Refusal
from artemis_py.logs import named_logger
from artemis_py.management.event_log import EventLog
from artemis_py.security.permissions import AccessRules

LOGGER: Final = named_logger(__name__)


class HostDeployments:
    """The virtual hosts of a broker, and the configuration that each of them follows."""

    def __init__(self, config: BrokerConfig, domains: Domains) -> None:
        """Create it without hosts; `config` says what the domains of hosts are made with."""
        self._wanted: BrokerConfig = config
        self._default: Final = domains.default.sessions.domain
        self._deployments: Final[dict[Services, Deployment]] = {}
        self.hosts: Final = VirtualHosts(domains, self._make)
        self.hosts.when_changed.append(_log_state)
        self.hosts.when_gone.append(self._forget)

    def deployment(self, host: VirtualHost) -> Deployment:
        """Return what applies changes to the contents of a host."""
        return self._deployments[host.services]

    def _forget(self, host: VirtualHost) -> None:
        """Forget a host that has been deleted."""
        self._deployments.pop(host.services, None)
        LOGGER.info("virtual host is gone: name=%s id=%d", host.name, host.id)

    def _make(self, id: int, name: str) -> Services:
        """Make the empty domain of a host, with its settings and permissions, because recovery needs them."""
        config, default = self._wanted, self._default
        rules = AccessRules({}, config.settings) if config.security_enabled else None
        events = Events()
        EventLog(host=name).listen(events)
        repository = empty_repository(config)
        domain = Domain(repository, default.dispatcher, config.settings, rules, events, default.entropy, id)
        domain.transformers = default.transformers
        domain.subject_now = lambda subject: default.subject_now(subject)
        services = Services(Sessions(domain))
        deployment = self._deployments[services] = Deployment(services.sessions, rules)
        sections = {each.options.name.lower(): each.contents for each in config.virtual_hosts}
        contents = sections.get(name.lower(), _of_core(config))
        deployment.apply(plan(EMPTY, evolve(contents, addresses=(), diverts=(), exchanges=NO_EXCHANGES)))
        return services

    # -- plan ----------------------------------------------------------------------------------------------------

    def running(self, wanted: BrokerConfig) -> tuple[VirtualHostSection, ...]:
        """Return the hosts that exist, each with the contents that a plan to `wanted` can change.

        A host that a management operation created is among them only if `wanted` declares it.
        """
        sections = {each.options.name.lower(): each for each in wanted.virtual_hosts}
        found = []
        for host in self.hosts.all():
            section = sections.get(host.name.lower())
            if section is not None:
                contents = self.deployment(host).running(section.contents)
                found.append(VirtualHostSection(options=host.config, contents=contents))
            elif host.config.declared:
                found.append(VirtualHostSection(options=host.config, contents=self.deployment(host).config))
        return tuple(found)

    # -- apply ---------------------------------------------------------------------------------------------------

    def apply(self, plan: Plan, reached: BrokerConfig) -> tuple[list[Problem], tuple[VirtualHostSection, ...]]:
        """Apply what a plan has for virtual hosts; return what was refused, and the hosts as they are now.

        `reached` has the options of the broker in force, which apply in every host.
        """
        self._wanted = evolve(reached, virtual_hosts=plan.wanted.virtual_hosts)
        problems: list[Problem] = []
        sections = {each.options.name.lower(): each for each in plan.wanted.virtual_hosts}
        for change in plan.changes:
            if isinstance(change, HostChange):
                try:
                    self._change(change)
                except Refusal as refusal:
                    section = sections.get(change.name.lower())
                    file, line = ("configuration", 0) if section is None else (section.file, section.line)
                    problems.append(Problem(file, line, change.element, str(refusal)))
        for host in self.hosts.all():
            if host.name.lower() not in sections:
                self._follow_core(host, reached)
        return problems + self._follow(plan, reached), self._sections(plan)

    def _follow_core(self, host: VirtualHost, reached: BrokerConfig) -> None:
        """Have a host that no file declares use the settings and permissions of the default host."""
        deployment = self.deployment(host)
        deployment.apply(plan(deployment.config, _of_core(reached)))

    def _follow(self, plan: Plan, reached: BrokerConfig) -> list[Problem]:
        """Apply what a plan has for the contents of hosts that the file declares; return what was refused."""
        problems: list[Problem] = []
        before = {each.options.name.lower(): each.contents for each in plan.running.virtual_hosts}
        for section in plan.wanted.virtual_hosts:
            name = section.options.name.lower()
            host = self.hosts.find(name)
            if host is None:
                continue
            contents = evolve(section.contents, settings=reached.settings, login=reached.login)
            inner = [each.change for each in plan.changes if isinstance(each, InHost) and each.host.lower() == name]
            refused = self.deployment(host).apply(Plan(before.get(name, EMPTY), contents, tuple(inner)))
            label = f'virtual-host "{section.options.name}", '
            problems += [Problem(each.file, each.line, label + each.element, each.message) for each in refused]
        return problems

    def _sections(self, plan: Plan) -> tuple[VirtualHostSection, ...]:
        """Return the hosts of the wanted configuration that exist, as they are now."""
        found = [(each, self.hosts.find(each.options.name)) for each in plan.wanted.virtual_hosts]
        return tuple(
            evolve(section, contents=self.deployment(host).config) for section, host in found if host is not None
        )

    def _change(self, change: HostChange) -> None:
        """Make one change. Raises Refusal."""
        hosts = self.hosts
        if change.after is None:
            host = hosts.find(change.name)
            if host is not None and host.config.declared:
                hosts.update(change.name, evolve(host.config, declared=False))
                hosts.stop(change.name, "it is no longer in the configuration")
        elif hosts.find(change.name) is None:
            hosts.create(change.after)
        else:
            hosts.update(change.name, change.after)

    # -- all domains ---------------------------------------------------------------------------------------------

    def deployments(self) -> list[Deployment]:
        """Return what applies changes to the contents of each host."""
        return [self.deployment(host) for host in self.hosts.all()]

    def tell_discards(self) -> None:
        """Log the messages that were discarded since the last line about them, in all domains."""
        for services in self.hosts.restored():
            services.sessions.domain.discards.tell()

    def tell_dead_letters(self) -> None:
        """Log the dead letters since the last line about them, in all domains."""
        for services in self.hosts.restored():
            services.sessions.domain.dead_letters.tell()


def _of_core(config: BrokerConfig) -> BrokerConfig:
    """Return what a host that no file declares has of the default host."""
    return BrokerConfig(
        settings=config.settings,
        login=config.login,
        address_settings=config.address_settings,
        security_settings=config.security_settings,
        places=config.places,
    )


def _log_state(host: VirtualHost) -> None:
    LOGGER.info("virtual host: name=%s id=%d state=%s", host.name, host.id, host.state.value)
