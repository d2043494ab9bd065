"""Reads a whole broker.xml: every mistake is found and reported before anything is used."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

from attrs import evolve

from artemis_py.config.acceptor_url import read_acceptor
from artemis_py.config.bridges import read_bridges
from artemis_py.config.broker_config import (
    LOGIN_OPTIONS,
    MAIN_OPTIONS,
    WILDCARD_OPTIONS,
    BrokerConfig,
    LoginConfig,
    VirtualHostSection,
)
from artemis_py.config.broker_connections import read_broker_connections
from artemis_py.config.diverts import read_diverts
from artemis_py.config.document import OWN_NAMESPACE, SIZE_LIMIT_BYTES, in_core, read_document
from artemis_py.config.elements import Elements
from artemis_py.config.exchanges import read_exchanges
from artemis_py.config.internal_names import warn_of_internal_names
from artemis_py.config.login_file import read_login_file
from artemis_py.config.memory import half_of_memory
from artemis_py.config.mesh import read_mesh
from artemis_py.config.mesh_check import warn_of_kept, warn_of_waiting
from artemis_py.config.report import Report, local_name
from artemis_py.config.resource_limits import read_resource_limits
from artemis_py.config.routers import read_routers
from artemis_py.config.schema import Schema
from artemis_py.config.values import split_names, suggest
from artemis_py.config.variables import Overrides, Written, substitute
from artemis_py.config.verdicts import PERMISSIONS
from artemis_py.config.virtual_hosts import check_acceptor_hosts, read_virtual_hosts
from artemis_py.config.web import read_web
from artemis_py.core.names.routing_type import RoutingType
from artemis_py.core.names.syntax import MatchHierarchy, WildcardSyntax
from artemis_py.core.runtime.access import Permission
from artemis_py.core.settings.address_settings import ADDRESS_SETTINGS, AddressSettings
from artemis_py.core.settings.broker_settings import BROKER_OPTIONS, BrokerSettings
from artemis_py.core.settings.queue_config import QUEUE_OPTIONS, AddressConfig, QueueConfig
from artemis_py.errors import ConfigError, InvalidRequest, Problem
from artemis_py.transport.config import AcceptorConfig

Value = TypeVar("Value")

FILE_NAME: Final = "broker.xml"

# Older names that Artemis still accepts in permissions.
_PERMISSION_ALIASES: Final = {
    "createTempQueue": Permission.CREATE_NON_DURABLE_QUEUE,
    "deleteTempQueue": Permission.DELETE_NON_DURABLE_QUEUE,
}
_PERMISSIONS: Final = {permission.value: permission for permission in Permission} | _PERMISSION_ALIASES


def load(path: Path, variables: Mapping[str, str] | None = None) -> BrokerConfig:
    """Read a broker.xml. Raises ConfigError with all its mistakes.

    `variables` (by default the environment) provides values for `${name}` and overrides, see `config.variables`.
    Relative file names in it are relative to its folder.
    """
    return parse(_read(path), str(path), path.parent, variables)


def load_default(variables: Mapping[str, str] | None = None) -> BrokerConfig:
    """Read the broker.xml that is shipped."""
    return load(shipped_folder() / FILE_NAME, variables)


def shipped_folder() -> Path:
    """Return the folder of the shipped configuration files."""
    return Path(str(files("artemis_conf")))


def parse(data: bytes, file: str, folder: Path, variables: Mapping[str, str] | None = None) -> BrokerConfig:
    """Read the bytes of a broker.xml; see `load`."""
    config, report = parse_all(data, file, folder, variables)
    report.raise_problems()
    return config


def load_all(path: Path, variables: Mapping[str, str] | None = None) -> tuple[BrokerConfig, Report]:
    """Read a broker.xml as far as it can be read; see `parse_all` and `load`."""
    return parse_all(_read(path), str(path), path.parent, variables)


def parse_all(
    data: bytes, file: str, folder: Path, variables: Mapping[str, str] | None = None
) -> tuple[BrokerConfig, Report]:
    """Read what can be read of the bytes of a broker.xml, with a report of all mistakes.

    With mistakes in the report, the configuration lacks what they concern: it is good only for finding further ones.
    Raises ConfigError if the bytes are no configuration at all.
    """
    variables = os.environ if variables is None else variables
    report = Report(file)
    root = read_document(data, report)
    schema = Schema(shipped_folder())
    substitute(root, {**_places_of_instance(folder), **variables}, report)
    schema.check_structure(root, report)
    config = _Reader(root, folder, Overrides(variables), report).read()
    schema.check_values(root, report)
    return config, report


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(SIZE_LIMIT_BYTES + 1)
    except OSError as error:
        raise ConfigError([Problem(str(path), 0, "file", f"cannot be read: {error.strerror}")]) from error


def _home(folder: Path) -> Path:
    """Return the folder of the instance, given the folder of broker.xml."""
    return folder.parent if folder.name == "etc" else folder


def _places_of_instance(folder: Path) -> dict[str, str]:
    """Return the variables that the scripts of an Artemis instance set, for the files that use them."""
    home = _home(folder).absolute()
    return {"artemis.instance": str(home), "artemis.instance.etc": str(folder.absolute()), "data.dir": f"{home}/data"}


class _Reader:
    """Turns the XML tree into options. Mistakes are reported and skipped, so that reading can continue."""

    def __init__(self, root: Any, folder: Path, overrides: Overrides, report: Report, core: Any = None) -> None:
        """Read the `core` element of the tree, or that of a virtual host."""
        self._root: Final = root
        self._core: Final = root.find(in_core("core")) if core is None else core
        self._own: Final = root if core is None else core
        """Element that has what Artemis does not have."""
        self._folder: Final = folder
        self._overrides: Final = overrides
        self._elements: Final = Elements(overrides, report)
        self._report: Final = report
        self._roles: Final[dict[str, tuple[str, int]]] = {}
        self._of_management: Final[list[Any]] = []
        """Elements that grant the permissions `view` and `edit`."""

    def read(self) -> BrokerConfig:
        """Read the whole tree."""
        values = self._elements.children(self._core, MAIN_OPTIONS, "core")
        self._warn_of_half_sync(values)
        settings = self._broker_settings()
        contents = self.read_contents(settings)
        self._warn_of_management(settings)
        acceptors = tuple(self._acceptors())
        self._check_any_acceptor(acceptors)
        mesh = read_mesh(self._core, self._elements, self._folder, acceptors)
        connections = read_broker_connections(
            self._core, self._elements, self._folder, contents["addresses"], settings.wildcards
        )
        bridges = read_bridges(self._core, self._elements, mesh.connectors, connections)
        config = BrokerConfig(
            acceptors=acceptors,
            connectors=tuple(mesh.connectors.values()),
            clusters=mesh.clusters,
            broker_connections=(*connections, *bridges),
            discovery_groups=mesh.groups,
            routers=read_routers(self._core, self._elements, mesh),
            cluster_login=mesh.login,
            resource_limit_settings=read_resource_limits(self._core, self._elements),
            login=self._login(),
            web=read_web(self._root, self._elements, self._overrides, self._folder),
            home=_home(self._folder),
            **contents,
            **values,
        )
        config = evolve(config, virtual_hosts=tuple(self._virtual_hosts(config)))
        check_acceptor_hosts(acceptors, [host.options.name for host in config.virtual_hosts], self._report)
        if mesh.clusters:
            warn_of_waiting(config.address_settings, config.places, self._report)
            warn_of_kept(config, self._report)
        self._overrides.report_unused(self._report)
        return evolve(config, warnings=tuple(sorted(self._report.warnings, key=lambda warning: warning.line)))

    def read_contents(self, settings: BrokerSettings) -> dict[str, Any]:
        """Read what the broker and each virtual host have of their own; return it as fields of BrokerConfig."""
        warn_of_internal_names(self._core, settings.internal_naming_prefix, self._report)
        mapped = self._role_mappings()
        places: dict[str, tuple[str, int]] = {}
        addresses = tuple(self._addresses())
        return {
            "settings": settings,
            "addresses": addresses,
            "exchanges": read_exchanges(self._own, self._elements, addresses, settings.internal_naming_prefix),
            "diverts": read_diverts(self._core, self._elements, addresses, settings.wildcards),
            "address_settings": self._matches("address-setting", settings, self._address_settings, places),
            "places": places,
            "security_settings": self._matches(
                "security-setting", settings, lambda element: self._permissions(element, mapped), {}
            ),
            "roles": self._roles,
        }

    def _virtual_hosts(self, config: BrokerConfig) -> Iterator[VirtualHostSection]:
        """Yield the virtual hosts; each has a reader of its own for its contents."""
        for element, options in read_virtual_hosts(self._root, self._elements):
            reader = _Reader(self._root, self._folder, self._overrides, self._report, element)
            reader._roles.update(config.roles)
            contents = BrokerConfig(**reader.read_contents(config.settings))
            for role, first in contents.roles.items():
                self._roles.setdefault(role, first)
            place = self._report.place(element)
            for role in options.roles:
                self._roles.setdefault(role, (place.file, place.line))
            yield VirtualHostSection(options=options, contents=contents, file=place.file, line=place.line)

    def _warn_of_half_sync(self, values: Mapping[str, Any]) -> None:
        """Warn if only one of the options for syncing is off: both kinds of answers wait for the same commit."""
        names = ("journal-sync-transactional", "journal-sync-non-transactional")
        if len({values.get(name.replace("-", "_"), True) for name in names}) > 1:
            self._report.warning(
                self._report.place(self._core), f"{names[0]} and {names[1]} differ; only both false have an effect"
            )

    def _warn_of_management(self, settings: BrokerSettings) -> None:
        """Warn of permissions of management that nothing asks for, and if nobody has those that are asked for."""
        if self._of_management and not settings.management_message_rbac:
            place = self._report.place(self._of_management[0], "attribute type")
            self._report.warning(
                place, "view and edit are asked for only with <management-message-rbac>true</management-message-rbac>"
            )
        element = self._core.find(in_core("management-message-rbac"))
        if settings.management_message_rbac and not self._of_management and element is not None:
            text = "no permission view or edit is granted, so nobody may do anything by management; "
            match = f"{settings.management_rbac_prefix}.#"
            self._report.warning(self._report.place(element), f'{text}write a security-setting for "{match}"')

    # --- the broker as a whole ---

    def _broker_settings(self) -> BrokerSettings:
        values = self._elements.children(self._core, BROKER_OPTIONS, "core")
        values.setdefault("global_max_size_bytes", half_of_memory())
        settings = BrokerSettings(**values, wildcards=self._wildcards())
        element = self._core.find(in_core("management-notification-address"))
        place = self._report.place(self._core if element is None else element)
        self._elements.check_separator(settings.management_notification_address, place)
        if settings.management_notification_address == settings.management_address:
            self._report.problem(place, "is the management-address, too; choose another one for notifications")
        return settings

    def _wildcards(self) -> WildcardSyntax:
        element = self._core.find(in_core("wildcard-addresses"))
        if element is None:
            return WildcardSyntax()
        values = self._elements.children(element, WILDCARD_OPTIONS)
        values.setdefault("routing_enabled", values.pop("enabled", True))
        try:
            return WildcardSyntax(**values)
        except InvalidRequest as error:
            self._report.problem(self._report.place(element), str(error))
            return WildcardSyntax()

    def _login(self) -> LoginConfig:
        element = self._root.find(f"{{{OWN_NAMESPACE}}}login")
        values = {} if element is not None else read_login_file(self._folder, self._report)
        values |= self._elements.children(element, LOGIN_OPTIONS, "login")
        return LoginConfig(**values, folder=self._folder)

    # --- acceptors ---

    def _acceptors(self) -> Iterator[AcceptorConfig]:
        names: set[str] = set()
        endpoints: dict[tuple[str, int], str] = {}
        for element in self._core.iterfind(f"{in_core('acceptors')}/{in_core('acceptor')}"):
            name = self._elements.name(element)
            if name is None:
                continue
            place = self._report.place(element)
            if name in names:
                self._report.problem(place, f'there is another acceptor called "{name}"; give each its own name')
                continue
            names.add(name)
            written = self._overrides.take("acceptor", name) or Written(element.text or "", place)
            if self._report.has_problem_at(written.place):  # a variable without a value
                continue
            acceptor = read_acceptor(name, written, self._folder, self._report)
            if acceptor is None:
                continue
            first = endpoints.setdefault((acceptor.host, acceptor.port), name)
            if first != name and acceptor.port:
                self._report.problem(
                    written.place, f"port {acceptor.port} is taken by acceptor {first}; choose another port"
                )
            yield acceptor

    def _check_any_acceptor(self, acceptors: Sequence[AcceptorConfig]) -> None:
        """Report a file whose acceptors are all left out: nobody could connect."""
        element = self._core.find(f"{in_core('acceptors')}/{in_core('acceptor')}")
        if element is not None and not acceptors and not self._report.problems:
            text = "no acceptor would be opened; write one such as tcp://127.0.0.1:61616"
            self._report.problem(self._report.place(element), text)

    # --- addresses and queues ---

    def _addresses(self) -> Iterator[AddressConfig]:
        names: set[str] = set()
        queues: dict[str, str] = {}
        for element in self._core.iterfind(f"{in_core('addresses')}/{in_core('address')}"):
            name = self._elements.name(element)
            if name is None:
                continue
            place = self._report.place(element)
            if name in names:
                self._report.problem(place, f'address "{name}" is declared twice; put all its queues into one element')
                continue
            names.add(name)
            self._elements.check_separator(name, place)
            routing_types = frozenset(RoutingType[local_name(child).upper()] for child in element)
            if not routing_types:
                self._report.problem(
                    place, f'address "{name}" has no routing type; write <anycast/> or <multicast/> inside'
                )
            yield AddressConfig(
                name=name, routing_types=routing_types, queues=tuple(self._queues(element, name, queues))
            )

    def _queues(self, address: Any, address_name: str, seen: dict[str, str]) -> Iterator[QueueConfig]:
        for element in address.iterfind(f"*/{in_core('queue')}"):
            name = self._elements.name(element)
            if name is None:
                continue
            place = self._report.place(element)
            if name in seen:
                self._report.problem(
                    place,
                    f'there is a queue "{name}" on address "{seen[name]}"; '
                    "names of queues are unique in the whole broker, choose another",
                )
                continue
            seen[name] = address_name
            self._elements.check_separator(name, place)
            values = self._elements.attributes(element, QUEUE_OPTIONS) | self._elements.children(element, QUEUE_OPTIONS)
            # As in Artemis, some defaults of the address do not reach queues declared here (artemis-model §2.2).
            fixed = {each.attribute: each.in_file for each in QUEUE_OPTIONS if each.in_file is not None}
            yield QueueConfig(
                name=name,
                address=address_name,
                routing_type=RoutingType[local_name(element.getparent()).upper()],
                filter=self._elements.filter(element),
                configuration_managed=True,
                **(fixed | values),
            )

    # --- matches ---

    def _matches(
        self, name: str, settings: BrokerSettings, read: Callable[[Any], Value], places: dict[str, tuple[str, int]]
    ) -> dict[str, Value]:
        """Return the values of the elements called `name`, by match; `places` is filled with the place of each.

        The first of several elements with the same match counts (artemis-model §1.8).
        """
        hierarchy: MatchHierarchy[int] = MatchHierarchy(settings.wildcards, settings.literal_match_markers)
        found: dict[str, Value] = {}
        for element in self._core.iterfind(f"{in_core(name + 's')}/{in_core(name)}"):
            value = read(element)
            match = self._elements.name(element, "match")
            if match is None:
                continue
            place = self._report.place(element, "attribute match")
            try:
                is_new = hierarchy.add(match, element.sourceline)
            except InvalidRequest as error:
                self._report.problem(place, str(error))
                continue
            if is_new:
                found[match] = value
                places[match] = (place.file, place.line)
            else:
                self._report.warning(
                    place,
                    f'"{match}" is in line {places[match][1]} already, which takes effect; remove this one',
                )
        return found

    def _address_settings(self, element: Any) -> AddressSettings:
        return AddressSettings(**self._elements.children(element, ADDRESS_SETTINGS))

    # --- permissions ---

    def _role_mappings(self) -> dict[str, set[str]]:
        """Return, for each role, the foreign roles that include it (artemis-model §6.3)."""
        mapped: dict[str, set[str]] = {}
        for element in self._core.iterfind(f"{in_core('security-settings')}/{in_core('role-mapping')}"):
            foreign = self._elements.name(element, "from")
            for role in split_names(element.get("to", "")):
                if foreign is not None:
                    mapped.setdefault(role, set()).add(foreign)
        return mapped

    def _permissions(self, setting: Any, mapped: Mapping[str, set[str]]) -> dict[Permission, frozenset[str]]:
        granted: dict[Permission, frozenset[str]] = {}
        for element in list(setting):
            name = self._elements.name(element, "type")
            permission = _PERMISSIONS.get(name or "")
            if permission in (Permission.VIEW, Permission.EDIT):
                self._of_management.append(element)
            if permission is not None:
                roles = split_names(element.get("roles", ""))
                for role in roles:
                    # A role that others include may well have no users of its own.
                    if role not in mapped:
                        self._roles.setdefault(role, (self._report.file, element.sourceline))
                foreign = [other for role in roles for other in mapped.get(role, ())]
                granted[permission] = granted.get(permission, frozenset()) | {*roles, *foreign}
            elif name is not None and name in PERMISSIONS:
                PERMISSIONS[name].tell([name], self._report.place(element, f"attribute type: {name}"), self._report)
                # libxml2 would object to it.
                setting.remove(element)
            elif name is not None:
                place = self._report.place(element, "attribute type")
                self._report.problem(place, f"{name}: {suggest(name, _PERMISSIONS)}")
        return granted
