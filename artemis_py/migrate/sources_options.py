"""Names of values that the command line gives to the readers, beside those for `${name}`."""

from typing import Final

VIRTUAL_HOST: Final = "--virtual-host"
"""Virtual host to migrate, of a broker that has several. No `${name}` can be called so."""
