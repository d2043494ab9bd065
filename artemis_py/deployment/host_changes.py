"""The changes that a plan can make to virtual hosts."""

from attrs import frozen

from artemis_py.core.settings.virtual_host_config import VIRTUAL_HOST_OPTIONS, VirtualHostConfig
from artemis_py.deployment.changes import Change, text_of


@frozen(kw_only=True)
class HostChange(Change):
    """A virtual host is new, has other options, or is no longer in the file."""

    name: str
    before: VirtualHostConfig | None
    after: VirtualHostConfig | None

    @property
    def element(self) -> str:
        return f'virtual-host "{self.name}"'

    @property
    def consequence(self) -> str:
        before, after = self.before, self.after
        if after is None:
            return "is stopped; what it has stays until it is deleted"
        if before is None:
            return "is created"
        texts = [
            f"{option.name} {text_of(getattr(before, option.attribute))} becomes "
            f"{text_of(getattr(after, option.attribute))}"
            for option in VIRTUAL_HOST_OPTIONS
            if getattr(before, option.attribute) != getattr(after, option.attribute)
        ]
        return ", ".join(texts) or "is declared in the file from now on"


@frozen(kw_only=True)
class InHost(Change):
    """A change of what a virtual host contains."""

    host: str
    change: Change

    @property
    def element(self) -> str:
        return f'virtual-host "{self.host}", {self.change.element}'

    @property
    def consequence(self) -> str:
        return self.change.consequence
