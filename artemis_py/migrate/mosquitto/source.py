"""Reads a mosquitto.conf: lines of a name and a value; some belong to the listener or bridge before them."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from attrs import Factory, define, frozen

from artemis_py.errors import ConfigError
from artemis_py.migrate.findings import Findings, Origin, Outcome
from artemis_py.migrate.java_properties import read_bytes, read_text
from artemis_py.migrate.mosquitto.acl import ANONYMOUS, read_acl
from artemis_py.migrate.mosquitto.table import BRIDGE, TABLE
from artemis_py.migrate.rules import words
from artemis_py.migrate.target import Acceptor, Target, unique_file_name
from artemis_py.security.passwords import parse_hash

_DEFAULT_PORT: Final = 1883
_DURATION: Final = re.compile(r"(\d+)\s*([hdwmy])")
_SECONDS: Final = {"h": 3600, "d": 86_400, "w": 604_800, "m": 2_592_000, "y": 31_536_000}
_EVERYTHING: Final = words(
    "createAddress deleteAddress createDurableQueue deleteDurableQueue createNonDurableQueue deleteNonDurableQueue "
    "send consume browse manage"
)
_OF_PLUGINS: Final = ("auth_opt_", "plugin_opt_")
_NO_LIMIT: Final = "65535"
# Options that only numbers change, with their parameter of the acceptor.
_NUMBERS: Final = {
    "max_packet_size": "maximumPacketSize",
    "message_size_limit": "maximumPacketSize",
    "max_keepalive": "serverKeepAlive",
    "max_topic_alias": "topicAliasMaximum",
    "max_inflight_messages": "defaultMaximumInFlightPublishMessages",
    "global_max_clients": "mqttMaxSessions",
}
_OF_LISTENERS: Final = frozenset(["max_connections", "max_topic_alias", "protocol"])


@frozen
class _Line:
    """A line with an option."""

    name: str
    value: str
    origin: Origin


@define(eq=False)
class _Listener:
    """A listener, and the options that belong to it."""

    port: int
    host: str
    origin: Origin
    options: dict[str, _Line] = Factory(dict)
    number: str = ""


@define(eq=False)
class _Reading:
    """One migration of a mosquitto.conf."""

    path: Path
    findings: Findings
    target: Target = Factory(Target)
    default: _Listener = Factory(lambda: _Listener(_DEFAULT_PORT, "0.0.0.0", Origin(Path(), 0, "port")))
    listeners: list[_Listener] = Factory(list)
    options: dict[str, list[_Line]] = Factory(dict)
    shared: dict[str, str] = Factory(dict)
    """Parameters of all acceptors."""
    bridge: str = ""

    def tell(self, line: _Line, outcome: Outcome | None = None, text: str | None = None) -> None:
        TABLE.tell(self.findings, line.origin, outcome, text)

    def last(self, name: str) -> _Line | None:
        lines = self.options.get(name)
        return lines[-1] if lines else None


def recognises(path: Path, data: bytes) -> bool:
    """Tell whether this looks like a mosquitto.conf: by its name, or because its lines begin with its options."""
    if path.name == "mosquitto.conf":
        return True
    lines = data.decode("utf-8", "replace").splitlines()
    options = [line.split()[0] for line in lines if line.strip() and not line.lstrip().startswith("#")]
    known = [word for word in options if TABLE.find(word) or word in BRIDGE or word.startswith(_OF_PLUGINS)]
    return path.suffix == ".conf" and len(known) * 2 > len(options)


def read(path: Path, values: Mapping[str, str], findings: Findings) -> Target:
    """Read the file and those that it names. Raises ConfigError if it cannot be read."""
    reading = _Reading(path, findings)
    _read_lines(reading, path, {path.resolve()})
    _read_broker(reading)
    _read_users(reading)
    _make_acceptors(reading)
    return reading.target


def _read_lines(reading: _Reading, path: Path, seen: set[Path]) -> None:
    for number, text in enumerate(read_text(path).splitlines(), 1):
        content = text.strip()
        if not content or content.startswith("#"):
            continue
        name, _, value = content.partition(" ")
        line = _Line(name, value.strip(), Origin(path, number, name))
        if not (name + line.value).replace("\t", "").isprintable():
            reading.tell(line, Outcome.DROPPED, "has control characters")
        elif name == "include_dir":
            _include(reading, line, seen)
        else:
            _read_line(reading, line)


def _include(reading: _Reading, line: _Line, seen: set[Path]) -> None:
    folder = _file(reading, line.value)
    found = sorted(folder.glob("*.conf")) if folder.is_dir() else []
    if folder.is_dir():
        reading.tell(line)
    else:
        reading.tell(line, Outcome.DROPPED, f"there is no folder {folder}")
    for file in found:
        if file.resolve() not in seen:
            seen.add(file.resolve())
            _read_lines(reading, file, seen)


def _read_line(reading: _Reading, line: _Line) -> None:
    if line.name == "listener":
        reading.bridge = ""
        _begin_listener(reading, line)
    elif line.name == "connection":
        reading.bridge = line.value
        reading.tell(
            line, None, f"bridge {line.value}: bridges here speak AMQP, not MQTT: see docs/broker-connections.md"
        )
    elif line.name in BRIDGE and reading.bridge:
        reading.tell(line, Outcome.DROPPED, f"belongs to bridge {reading.bridge}")
    elif line.name.startswith(_OF_PLUGINS):
        reading.tell(line, Outcome.DROPPED, "belongs to a plugin; plugins are not run")
    else:
        reading.options.setdefault(line.name, []).append(line)
        listener = reading.listeners[-1] if reading.listeners else reading.default
        listener.options[line.name] = line


def _begin_listener(reading: _Reading, line: _Line) -> None:
    given = line.value.split()
    if not given or not given[0].isdecimal() or not 0 <= int(given[0]) <= 65535:
        reading.tell(line, Outcome.DROPPED, "has no port")
        given = ["0", "/"]
    elif given[0] == "0":
        reading.tell(line, Outcome.DROPPED, "sockets of Unix are not supported")
    host = given[1] if len(given) > 1 else "0.0.0.0"
    reading.listeners.append(_Listener(int(given[0]), host, line.origin))


def _read_broker(reading: _Reading) -> None:
    """Read the options of the broker as a whole."""
    persistence = reading.last("persistence")
    core = reading.target.core
    nowhere = Origin(reading.path, 0, "persistence")
    is_on = persistence is not None and persistence.value == "true"
    core.put("persistence-enabled", "true" if is_on else "false", persistence.origin if persistence else nowhere)
    if persistence is None:
        text = "is not set, so nothing survives a restart, as with mosquitto; write true into broker.xml to change that"
        reading.findings.add(nowhere, Outcome.KEPT, text)
    for name, value in (
        ("default-address-routing-type", "MULTICAST"),
        ("default-queue-routing-type", "MULTICAST"),
        ("auto-delete-queues", "true"),
    ):
        reading.target.setting("#", name, value, nowhere)
    for lines in reading.options.values():
        for line in lines:
            _HANDLERS.get(line.name, _by_table)(reading, line)


def _by_table(reading: _Reading, line: _Line) -> None:
    reading.tell(line)


def _number(reading: _Reading, line: _Line) -> int | None:
    if not re.fullmatch(r"-?\d{1,18}", line.value):
        reading.tell(line, Outcome.DROPPED, "is not a whole number")
        return None
    reading.tell(line)
    return int(line.value)


def _read_number(reading: _Reading, line: _Line) -> None:
    number = _number(reading, line)
    if number is None or (number <= 0 and line.name not in ("max_topic_alias", "max_inflight_messages")):
        return
    if line.name == "max_inflight_messages" and number == 0:
        reading.shared[_NUMBERS[line.name]] = _NO_LIMIT
    elif line.name not in _OF_LISTENERS:
        reading.shared[_NUMBERS[line.name]] = str(number)


def _read_expiration(reading: _Reading, line: _Line) -> None:
    match = _DURATION.fullmatch(line.value)
    if match is None:
        reading.tell(line, Outcome.DROPPED, "is not a time such as 14d")
        return
    seconds = str(int(match[1]) * _SECONDS[match[2]])
    reading.shared |= {"defaultMqttSessionExpiryInterval": seconds, "mqttMaxSessionExpiryInterval": seconds}
    reading.tell(line)


def _read_queued(reading: _Reading, line: _Line) -> None:
    number = _number(reading, line)
    if number:
        reading.target.setting("#", "default-ring-size", str(number), line.origin)
    elif number == 0:
        reading.tell(line, Outcome.KEPT, "no limit")


def _read_memory(reading: _Reading, line: _Line) -> None:
    number = _number(reading, line)
    if number:
        reading.target.core.put("global-max-size", str(number), line.origin)


def _read_flag(usual: str) -> Callable[[_Reading, _Line], None]:
    """Return a handler for an option whose usual value means nothing."""

    def handle(reading: _Reading, line: _Line) -> None:
        if line.value.lower() == usual:
            reading.tell(line, Outcome.NEEDLESS, "the default here")
        else:
            reading.tell(line, Outcome.DROPPED)

    return handle


def _read_no_delay(reading: _Reading, line: _Line) -> None:
    reading.shared["tcpNoDelay"] = "true" if line.value == "true" else "false"
    reading.tell(line)


_HANDLERS: Final[Mapping[str, Callable[[_Reading, _Line], None]]] = {
    **dict.fromkeys(_NUMBERS, _read_number),
    "persistent_client_expiration": _read_expiration,
    "max_queued_messages": _read_queued,
    "memory_limit": _read_memory,
    "set_tcp_nodelay": _read_no_delay,
    "allow_zero_length_clientid": _read_flag("true"),
    "retain_available": _read_flag("true"),
    "upgrade_outgoing_qos": _read_flag("false"),
    "max_qos": _read_flag("2"),
    "per_listener_settings": lambda reading, line: reading.tell(
        line, None if line.value == "true" else Outcome.NEEDLESS, None if line.value == "true" else "the default here"
    ),
    "use_identity_as_username": _read_flag("false"),
    "use_username_as_clientid": _read_flag("false"),
    "max_queued_bytes": _read_flag("0"),
    "max_inflight_bytes": _read_flag("0"),
}


def _read_users(reading: _Reading) -> None:
    """Read who may log in, and what they may do."""
    target = reading.target
    for line in reading.options.get("password_file", []):
        _read_passwords(reading, line)
    allowed = [line.value.lower() == "true" for line in reading.options.get("allow_anonymous", [])]
    is_local = not reading.listeners and not {"port", "bind_address"} & reading.default.options.keys()
    guards = [line for name in ("plugin", "global_plugin", "auth_plugin") for line in reading.options.get(name, [])]
    anonymous = not guards and (all(allowed) if allowed else is_local)
    if guards and (all(allowed) if allowed else is_local):
        text = "the plugin may have decided about logins, so nobody is let in without a name"
        reading.tell(guards[0], Outcome.DROPPED, text)
    if len(set(allowed)) > 1:
        for line in reading.options["allow_anonymous"]:
            reading.tell(line, Outcome.CHANGED, "the lines differ, so nobody is let in without a name")
    origin = reading.options["allow_anonymous"][-1].origin if allowed else Origin(reading.path, 0, "allow_anonymous")
    target.login.put("anonymous-access", "EVERYWHERE" if anonymous else "NOWHERE", origin)
    target.login.put("anonymous-roles", ANONYMOUS if anonymous else "", origin)
    if not anonymous and not target.users:
        outcome = Outcome.KEPT if allowed else Outcome.CHANGED
        text = "nobody can log in: there are no users, and clients without a name are not let in"
        TABLE.tell(reading.findings, origin, outcome, text)
    rules = reading.options.get("acl_file", [])
    if len({line.value for line in rules}) > 1:
        for line in rules:
            reading.tell(
                line, Outcome.DROPPED, "there are several files, of which each has its listener; none was read"
            )
    else:
        for line in rules[:1]:
            read_acl(_file(reading, line.value), target, reading.findings, line.origin)
    if not rules:
        for user in target.users:
            target.give_role("users", user)
        roles = {"users", *([ANONYMOUS] if anonymous else [])}
        target.permit("#", dict.fromkeys(_EVERYTHING, roles), origin)


def _read_passwords(reading: _Reading, line: _Line) -> None:
    path = _file(reading, line.value)
    try:
        lines = read_text(path).splitlines()
    except ConfigError as error:
        reading.tell(
            line, Outcome.DROPPED, f"{path} {error.problems[0].message}; write users with `artemis-py user hash`"
        )
        return
    for number, text in enumerate(lines, 1):
        if not text.strip() or text.startswith("#"):
            continue
        user, separator, stored = text.strip().partition(":")
        origin = Origin(path, number, user if separator else "line")
        if not separator or not user:
            reading.findings.add(origin, Outcome.DROPPED, "is not of the form user:hash")
            continue
        try:
            parse_hash(f"ENC({stored})")
        except ValueError:
            text = "the password is not hashed in a way that is known here; set it anew: `artemis-py user hash`"
            reading.findings.add(origin, Outcome.DROPPED, text)
            continue
        reading.target.users[user] = f"ENC({stored})"
        reading.findings.add(origin, Outcome.KEPT, "the user, with the same hash")


def _make_acceptors(reading: _Reading) -> None:
    listeners = [listener for listener in reading.listeners if listener.port]
    port, bound = reading.default.options.get("port"), reading.default.options.get("bind_address")
    if port is not None or bound is not None or not reading.listeners:
        first = reading.default
        first.origin = port.origin if port else bound.origin if bound else Origin(reading.path, 0, "listener")
        if port is not None and port.value.isdecimal() and int(port.value) <= 65535:
            first.port = int(port.value)
        first.host = bound.value if bound else "0.0.0.0" if port else "127.0.0.1"
        if port is None and bound is None:
            text = "there is none: as mosquitto 2, the broker listens on this machine only"
            reading.findings.add(first.origin, Outcome.KEPT, text)
        listeners = [first, *listeners]
    for number, listener in enumerate(listeners, 1):
        listener.number = f"-{number}" if number > 1 else ""
        _make_acceptor(reading, listener)


def _make_acceptor(reading: _Reading, listener: _Listener) -> None:
    acceptor = Acceptor(f"mqtt{listener.number}", listener.host, listener.port, listener.origin, {"protocols": "MQTT"})
    if any(each.port == listener.port for each in reading.target.acceptors):
        reading.findings.add(listener.origin, Outcome.DROPPED, f"port {listener.port} is taken already")
        return
    limit = listener.options.get("max_connections")
    if limit is not None and limit.value.isdecimal() and int(limit.value) > 0:
        acceptor.parameters["connectionsAllowed"] = limit.value
    alias = listener.options.get("max_topic_alias")
    if alias is not None and alias.value.isdecimal():
        acceptor.parameters["topicAliasMaximum"] = alias.value
    acceptor.parameters |= reading.shared
    if not _add_tls(reading, listener, acceptor):
        return
    reading.target.acceptors.append(acceptor)
    if listener.origin.element == "listener" and listener.origin.line:
        reading.findings.add(listener.origin, Outcome.KEPT, f"`acceptor` for MQTT on port {listener.port}")


def _add_tls(reading: _Reading, listener: _Listener, acceptor: Acceptor) -> bool:
    """Add the parameters of TLS; False if a file is missing, because the acceptor would be open without it."""
    options = listener.options
    if not {"certfile", "keyfile", "psk_file", "psk_hint"} & options.keys():
        return True
    wanted = {"certfile": "keyStorePath", "keyfile": "privateKeyPath"}
    needs = "require_certificate" in options and options["require_certificate"].value == "true"
    if needs:
        wanted["cafile"] = "trustStorePath"
    for name, parameter in wanted.items():
        line = options.get(name)
        text = f"{name} is missing" if line is None else ""
        if line is not None:
            try:
                content = read_bytes(_file(reading, line.value))
            except ConfigError as error:
                text = f"{_file(reading, line.value)} {error.problems[0].message}"
        if text or line is None:
            text = f"{text}; the acceptor is left out, not opened without TLS"
            reading.findings.add(line.origin if line else listener.origin, Outcome.DROPPED, text)
            return False
        file = unique_file_name(reading.target, f"{acceptor.name}-{name.removesuffix('file')}.pem")
        reading.target.files[file] = content
        acceptor.parameters[parameter] = file
    acceptor.parameters |= {"sslEnabled": "true", "needClientAuth": "true" if needs else "false"}
    if "use_subject_as_username" in options and options["use_subject_as_username"].value == "true":
        acceptor.parameters["saslMechanisms"] = "EXTERNAL,PLAIN,ANONYMOUS"
    return True


def _file(reading: _Reading, name: str) -> Path:
    """Return a file that the configuration names.

    A path of the old machine or container may not exist here; then the file of this name beside the old file counts.
    """
    path = Path(name)
    beside = reading.path.parent / path.name
    if path.is_absolute():
        return path if path.exists() or not beside.exists() else beside
    return reading.path.parent / path
