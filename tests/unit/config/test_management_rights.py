"""Permissions of management in broker.xml: files that were made for Artemis, and what is said of mistakes."""

from typing import Final

import pytest

from artemis_py.config import BrokerConfig
from artemis_py.core.names.syntax import FQQN_SEPARATOR
from artemis_py.core.runtime.access import Permission, Subject
from artemis_py.security.permissions import AccessRules
from tests.unit.config.samples import mistakes, read

ON: Final = "<management-message-rbac>true</management-message-rbac>"

# The three examples of Artemis' manual: management, "JMX authorization in broker.xml" and "Fine grained RBAC on
# management messages". One of them has a type `update`, which no release of Artemis knows.
OF_THE_MANUAL: Final = """
<security-setting match="mops.queue.*.getID">
   <permission type="view" roles="dataImport" />
   <permission type="manage" roles="dataImport" />
</security-setting>
<security-setting match="mops.#">
   <permission type="view" roles="admin" />
   <permission type="update" roles="admin" />
   <permission type="manage" roles="admin" />
</security-setting>
<security-setting match="mops.address.activemq.management.*">
   <permission type="view" roles="managerRole"/>
</security-setting>
<security-setting match="mops.broker.forceFailover">
   <permission type="edit" roles=""/>
</security-setting>
"""

# As users of its console write them.
OF_USERS: Final = """
<security-setting match="mops.#">
  <permission roles="admin,tester" type="view"/><permission roles="admin" type="edit"/>
</security-setting>
<security-setting match="mops.queue.#">
  <permission roles="admin" type="view"/><permission roles="admin" type="edit"/>
</security-setting>
<security-setting match="mops.*.ExpiryQueue.#">
  <permission roles="admin" type="view"/><permission roles="admin" type="edit"/>
</security-setting>
<security-setting match="mops.mbeanserver.queryNames"><permission roles="admin,tester" type="view"/></security-setting>
<security-setting match="mops.queue.my.test.queue3.#">
  <permission roles="admin,tester" type="view"/><permission roles="admin,tester" type="edit"/>
</security-setting>
"""


def allowed(config: BrokerConfig, role: str, permission: str, name: str) -> bool:
    """Whether a role has a permission."""
    assert FQQN_SEPARATOR not in name
    rules = AccessRules(config.security_settings, config.settings)
    return rules.allows(Subject("u", frozenset((role,))), Permission(permission), name)


def in_settings(text: str, before: str = ON) -> str:
    """The core of a broker.xml."""
    return f"{before}<security-settings>{text}</security-settings>"


@pytest.mark.parametrize(
    ("role", "permission", "name", "is_allowed"),
    [
        ("dataImport", "view", "mops.queue.orders.getID", True),
        ("dataImport", "view", "mops.queue.orders.getName", False),
        ("admin", "view", "mops.queue.orders.getName", True),
        ("admin", "view", "mops.queue.a.b.getID", True),
        # The most specific match counts alone, in Artemis as here.
        ("admin", "view", "mops.queue.orders.getID", False),
        ("managerRole", "view", "mops.address.activemq.management.getQueueNames", True),
        ("managerRole", "view", "mops.address.activemq.management", False),
        ("admin", "edit", "mops.broker.forceFailover", False),
        ("admin", "edit", "mops.queue.orders.pause", False),
    ],
)
def test_examples_of_artemis_manual_mean_what_they_mean_there(
    role: str, permission: str, name: str, is_allowed: bool
) -> None:
    """Unchanged, and nothing of them is an error."""
    config = read(in_settings(OF_THE_MANUAL))

    assert allowed(config, role, permission, name) is is_allowed
    assert [each.element for each in config.warnings] == ["permission"]


@pytest.mark.parametrize(
    ("role", "permission", "name", "is_allowed"),
    [
        ("tester", "view", "mops.broker.listQueues", True),
        ("tester", "edit", "mops.broker.createQueue", False),
        ("tester", "view", "mops.queue.orders", False),
        ("tester", "view", "mops.address.orders.getQueueNames", True),
        ("tester", "view", "mops.address.ExpiryQueue.getQueueNames", False),
        ("tester", "edit", "mops.queue.my.test.queue3.pause", True),
        ("admin", "edit", "mops.queue.orders.pause", True),
        ("admin", "edit", "mops.queue.ExpiryQueue.pause", True),
    ],
)
def test_settings_of_users_mean_what_they_mean_in_artemis(
    role: str, permission: str, name: str, is_allowed: bool
) -> None:
    config = read(in_settings(OF_USERS))

    assert allowed(config, role, permission, name) is is_allowed
    assert config.warnings == ()


def test_permissions_that_nothing_asks_for_are_named() -> None:
    """Artemis asks for them without the option, too, if its console is started with a guard of Java's management."""
    for before in ("", "<management-message-rbac>false</management-message-rbac>"):
        (warning,) = read(in_settings(OF_USERS, before)).warnings

        assert "view and edit are asked for only with <management-message-rbac>true" in str(warning)
        assert str(warning).startswith("broker.xml:6: permission: attribute type: ")


def test_an_option_that_leaves_nobody_able_to_do_anything_is_named() -> None:
    settings = '<security-setting match="#"><permission type="manage" roles="r"/></security-setting>'
    (warning,) = read(in_settings(settings, ON + "<management-rbac-prefix>mm</management-rbac-prefix>")).warnings

    assert str(warning).startswith("broker.xml:4: management-message-rbac: no permission view or edit is granted")
    assert 'for "mm.#"' in str(warning)


def test_a_pattern_that_is_none_is_refused_with_its_line() -> None:
    """Patterns of Java that Python does not know as well."""
    (mistake,) = mistakes("<view-permission-method-match-pattern>^(get.*$</view-permission-method-match-pattern>")

    assert mistake.startswith('broker.xml:4: view-permission-method-match-pattern: "^(get.*$" is not a regular expr')


def test_a_prefix_is_not_empty() -> None:
    assert "is empty" in mistakes("<management-rbac-prefix></management-rbac-prefix>")[0]
