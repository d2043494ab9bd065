"""Runs `artemis-py migrate` on a text or a folder, and reads what came out."""

from pathlib import Path
from typing import Final

from attrs import frozen
from click.testing import CliRunner

from artemis_py.cli import main
from artemis_py.cli.check import examine
from artemis_py.config import BrokerConfig
from artemis_py.config.broker_config import MAIN_OPTIONS
from artemis_py.config.reader import load
from artemis_py.core.settings.address_settings import ADDRESS_SETTINGS
from artemis_py.core.settings.broker_settings import BROKER_OPTIONS
from artemis_py.security.users import UserFiles, Users

SPRING: Final = """<?xml version="1.0" encoding="UTF-8"?>
<beans xmlns="http://www.springframework.org/schema/beans">
{beans}
<broker xmlns="http://activemq.apache.org/schema/core" {attributes}>
{content}
</broker>
</beans>
"""


@frozen
class Migrated:
    """The result of a migration that was written."""

    folder: Path
    exit_code: int
    report: str
    config: BrokerConfig
    """What the broker would start with; it has passed the check."""

    @property
    def users(self) -> Users:
        """Who may log in."""
        etc = self.folder / "etc"
        return UserFiles(etc / "artemis-users.properties", etc / "artemis-roles.properties").load()

    def outcome(self, element: str) -> str:
        """The outcome and text of the only finding about an element."""
        (line,) = [line for line in self.report.splitlines() if f": {element}: " in line]
        return line.partition(f": {element}: ")[2]

    def setting(self, match: str, name: str) -> object:
        """An address setting as the file has it; None if it has none."""
        settings = self.config.address_settings.get(match)
        (attribute,) = [option.attribute for option in ADDRESS_SETTINGS if option.name == name]
        return None if settings is None else getattr(settings, attribute)

    def option(self, name: str) -> object:
        """An option of the broker by its name in broker.xml."""
        for owner, options in ((self.config, MAIN_OPTIONS), (self.config.settings, BROKER_OPTIONS)):
            for option in options:
                if option.name == name:
                    return getattr(owner, option.attribute)
        raise KeyError(name)


def migrate(place: Path, to: Path, *arguments: str) -> Migrated:
    """Migrate a file or folder; what comes out must pass `artemis-py check`."""
    result = CliRunner().invoke(main, ["migrate", str(place), "--to", str(to), *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 1), result.output
    report = (to / "etc" / "migration-report.txt").read_text(encoding="utf-8")
    made = to / "etc" / "broker.xml"
    assert examine(made).problems == []
    return Migrated(to, result.exit_code, report, load(made))


def migrate_broker(folder: Path, content: str = "", attributes: str = "", beans: str = "", *arguments: str) -> Migrated:
    """Migrate an activemq.xml with these parts."""
    file = folder / "activemq.xml"
    file.write_text(SPRING.format(content=content, attributes=attributes, beans=beans), encoding="utf-8")
    return migrate(file, folder / "new", *arguments)


def policies(*entries: str) -> str:
    """A destinationPolicy with these entries."""
    text = "".join(entries)
    return f"<destinationPolicy><policyMap><policyEntries>{text}</policyEntries></policyMap></destinationPolicy>"


def connectors(*uris: str) -> str:
    """Transport connectors with these URIs."""
    made = "".join(f'<transportConnector name="c{number}" uri="{uri}"/>' for number, uri in enumerate(uris, 1))
    return f"<transportConnectors>{made}</transportConnectors>"
