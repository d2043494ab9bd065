"""Rules for the names of addresses, queues and other bindings."""

from artemis_py.core.names.syntax import is_unicode
from artemis_py.errors import InvalidRequest

# Long enough for any name a person or a client library chooses, short enough to be a dictionary key and a log field.
MAX_NAME_LENGTH = 4096


def check_name(kind: str, name: str) -> None:
    """Raise InvalidRequest for a name that is not allowed; `kind` is the word for the named thing in the text."""
    if not name:
        raise InvalidRequest(f"the name of {'an' if kind == 'address' else 'a'} {kind} may not be empty")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidRequest(f"the name of the {kind} has {len(name)} characters; {MAX_NAME_LENGTH} are allowed")
    if not is_unicode(name):
        raise InvalidRequest(f"the name of the {kind} has half of a surrogate pair, which cannot be stored: {name!r}")


def check_address_name(name: str) -> None:
    """Raise InvalidRequest for a name that an address may not have."""
    check_name("address", name)
    if "::" in name:
        raise InvalidRequest(f"'{name}' names a queue of an address; an address may not contain '::'")


def check_queue_name(name: str, is_stored: bool) -> None:
    """Raise InvalidRequest for a name that a queue may not have."""
    check_name("queue", name)
    if "::" in name and not is_stored:
        # A queue that was stored before such names were refused keeps its name.
        raise InvalidRequest(f"the name of queue '{name}' may not contain '::', which ends an address")
