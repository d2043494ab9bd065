"""Plugins: users and roles, permissions, redelivery, time stamps."""

from typing import Final

from artemis_py.config.foreign_xml import ForeignElement
from artemis_py.migrate.activemq.permissions import permit_everything, read_authorization
from artemis_py.migrate.activemq.reading import Reading, match_of
from artemis_py.migrate.activemq.table import TABLE
from artemis_py.migrate.findings import Origin, Outcome
from artemis_py.migrate.jaas import read_login_config
from artemis_py.security.passwords import hash_password

_OWN_CODE: Final = "org.apache.activemq."
_EVERYBODY: Final = "everybody"


def read_plugins(reading: Reading, broker: ForeignElement) -> None:
    """Read `plugins` of a broker."""
    holder = broker.find("plugins")
    plugins = holder.children if holder is not None else []
    logs_in = False
    for plugin in plugins:
        match plugin.name:
            case "simpleAuthenticationPlugin":
                _read_simple(reading, plugin)
            case "jaasAuthenticationPlugin" | "jaasDualAuthenticationPlugin":
                _read_jaas(reading, plugin)
            case "jaasCertificateAuthenticationPlugin":
                _set_anonymous(reading, "NOWHERE", reading.origin(plugin))
            case "timeStampingBrokerPlugin":
                _read_time_stamping(reading, plugin)
            case "redeliveryPlugin":
                _read_redelivery(reading, plugin)
            case "discardingDLQBrokerPlugin":
                _read_discarding(reading, plugin)
            case "runtimeConfigurationPlugin":
                period = reading.number(plugin, "checkPeriod")
                if period:
                    origin = reading.origin(plugin, "checkPeriod")
                    reading.target.core.put("configuration-file-refresh-period", str(period), origin)
        logs_in = logs_in or "uthentication" in plugin.name
    if "plugins" in broker.attributes or any(_is_foreign_guard(plugin) for plugin in plugins):
        if reading.target.login.find("anonymous-access") is None:
            _set_anonymous(reading, "NOWHERE", reading.origin(holder or broker))
        logs_in = True
    authorization = next((plugin for plugin in plugins if plugin.name == "authorizationPlugin"), None)
    if authorization is not None:
        read_authorization(reading, authorization)
    elif logs_in:
        roles = _roles_of_all(reading)
        permit_everything(reading, roles, reading.origin(holder or broker))
    if not logs_in and authorization is None:
        origin = reading.origin(broker)
        reading.target.core.put("security-enabled", "false", origin)
        reading.findings.add(
            origin, Outcome.KEPT, "there is no plugin for logins, so everybody may do everything (`security-enabled`)"
        )


def _is_foreign_guard(plugin: ForeignElement) -> bool:
    """Tell whether a plugin may decide about logins in a way that cannot be read here.

    Of code from elsewhere nobody knows; the code of ActiveMQ itself says it by its name.
    """
    if plugin.name != "bean":
        return TABLE.find(plugin.name) is None
    kind = plugin.attributes.get("class", "")
    return not kind.startswith(_OWN_CODE) or any(word in kind.lower() for word in ("auth", "secur", "jaas"))


def _set_anonymous(reading: Reading, access: str, origin: Origin) -> None:
    reading.target.login.put("anonymous-access", access, origin)


def _read_simple(reading: Reading, plugin: ForeignElement) -> None:
    reading.tell(plugin)
    allowed = reading.flag(plugin, "anonymousAccessAllowed")
    _set_anonymous(reading, "EVERYWHERE" if allowed else "NOWHERE", reading.origin(plugin, "anonymousAccessAllowed"))
    group = reading.text(plugin, "anonymousGroup") or ("anonymous" if allowed else "")
    reading.target.login.put("anonymous-roles", group, reading.origin(plugin, "anonymousGroup"))
    holder = plugin.find("users")
    for user in holder.children if holder is not None else ():
        if user.name != "authenticationUser":
            continue
        name = reading.text(user, "username")
        password = reading.text(user, "password", is_told=False)
        groups = reading.text(user, "groups") or ""
        if name is None:
            continue
        if password:
            reading.target.users[name] = hash_password(password)
            reading.tell(user, "password")
        elif "password" not in user.attributes:
            reading.tell(user, "", Outcome.DROPPED, "has no password; set one with `artemis-py user hash`")
        for group in filter(None, map(str.strip, groups.split(","))):
            reading.target.give_role(group, name)


def _read_jaas(reading: Reading, plugin: ForeignElement) -> None:
    entry = reading.text(plugin, "configuration") or "activemq"
    if plugin.name == "jaasDualAuthenticationPlugin":
        reading.tell(plugin)
        if "sslConfiguration" in plugin.attributes:
            reading.tell(plugin, "sslConfiguration", Outcome.DROPPED, "users with certificates are not carried over")
    else:
        reading.tell(plugin)
    file = reading.path("login.config")
    found = read_login_config(reading.target, reading.findings, file, entry, reading.origin(plugin))
    _set_anonymous(reading, "EVERYWHERE" if found.guests else "NOWHERE", reading.origin(plugin))
    reading.target.login.put("anonymous-roles", ",".join(found.guests), reading.origin(plugin))


def _roles_of_all(reading: Reading) -> set[str]:
    """Return roles that cover everybody that can log in; users without a group get one."""
    target = reading.target
    members = {user for users in target.roles.values() for user in users}
    for user in target.users:
        if user not in members:
            target.give_role(_EVERYBODY, user)
    anonymous = target.login.find("anonymous-roles")
    guests = {role for role in (anonymous.text.split(",") if anonymous is not None else ()) if role}
    return {*target.roles, *guests}


def _read_time_stamping(reading: Reading, plugin: ForeignElement) -> None:
    reading.tell(plugin)
    for attribute, name in (("zeroExpirationOverride", "expiry-delay"), ("ttlCeiling", "max-expiry-delay")):
        number = reading.number(plugin, attribute)
        if number:
            reading.target.setting("#", name, str(number), reading.origin(plugin, attribute))


def _read_discarding(reading: Reading, plugin: ForeignElement) -> None:
    if reading.flag(plugin, "dropAll") is not False:
        for name in ("dead-letter-address", "expiry-address"):
            reading.target.setting("#", name, "", reading.origin(plugin, "dropAll"))


def _read_redelivery(reading: Reading, plugin: ForeignElement) -> None:
    reading.tell(plugin)
    for element in _below(plugin):
        if element.name == "redeliveryPolicy" and (element.attributes or not element.children):
            _read_redelivery_policy(reading, element)


def _read_redelivery_policy(reading: Reading, element: ForeignElement) -> None:
    pattern = reading.text(element, "queue") or reading.text(element, "topic") or ">"
    match = match_of(pattern)
    target, origin = reading.target, reading.origin(element)
    attempts = reading.number(element, "maximumRedeliveries")
    if attempts is not None:
        target.setting(match, "max-delivery-attempts", str(attempts + 1 if attempts >= 0 else -1), origin)
    first, later = reading.number(element, "initialRedeliveryDelay"), reading.number(element, "redeliveryDelay")
    delay = later if first is None else first
    if delay is not None:
        target.setting(match, "redelivery-delay", str(delay), origin)
    multiplier = reading.text(element, "backOffMultiplier")
    if reading.flag(element, "useExponentialBackOff"):
        target.setting(match, "redelivery-delay-multiplier", multiplier or "5.0", origin)
    longest = reading.number(element, "maximumRedeliveryDelay")
    if longest is not None and longest >= 0:
        target.setting(match, "max-redelivery-delay", str(longest), origin)
    percent = reading.number(element, "collisionAvoidancePercent")
    if reading.flag(element, "useCollisionAvoidance"):
        share = 15 if percent is None else percent
        target.setting(match, "redelivery-collision-avoidance-factor", str(share / 100), origin)


def _below(element: ForeignElement) -> list[ForeignElement]:
    return [part for child in element.children for part in (child, *_below(child))]
