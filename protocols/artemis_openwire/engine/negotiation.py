"""What both sides agree on before anything else: WireFormatInfo (openwire §2).

Each side sends its offer, and the smaller one counts. This broker offers neither tight encoding, nor the cache, nor
stack traces, nor frames without a size; because a flag counts only if both sides set it, none of them is ever used.
"""

from typing import Final

from attrs import frozen

from artemis_openwire.engine.commands import WireFormatInfo
from artemis_openwire.engine.limits import ConnectionLimits
from artemis_openwire.engine.values import Long, read_map, write_map
from artemis_py.errors import MalformedFrame, ProtocolError

MAGIC: Final = b"ActiveMQ"
_HEAD: Final = b"\x01" + MAGIC
"""What follows the size of the first frame."""

_MAX_PROPERTIES: Final = 256
"""Values in an offer. Clients send some fifteen, and take at most 64 from us."""

PROVIDER: Final = "artemis_py"


@frozen(kw_only=True)
class Agreement:
    """What counts for the rest of a connection."""

    version: int
    max_frame_size: int
    """Largest frame that the client takes, without the four octets of its size."""
    max_inactivity_s: float
    """Silence after which a side counts as gone; 0: never."""
    initial_delay_s: float
    host: str
    """Host name to which the client thinks it is connected; empty if it does not say."""
    provider: str
    """Name and version of the client library, for people."""


def matches(head: bytes) -> bool | None:
    """Tell whether the first octets of a connection are those of OpenWire; None: more are needed.

    They are the size of the frame, which is small enough for two zeros at its beginning, the code of WireFormatInfo and
    the magic.
    """
    if any(head[:2]):
        return False
    found = head[4 : 4 + len(_HEAD)]
    if not _HEAD.startswith(found):
        return False
    return True if found == _HEAD else None


def offer(limits: ConnectionLimits) -> WireFormatInfo:
    """Return our side's offer. The types of the values matter: the Java client takes no int for a long."""
    properties = {
        "TightEncodingEnabled": False,
        "CacheEnabled": False,
        "SizePrefixDisabled": False,
        "StackTraceEnabled": False,
        "TcpNoDelayEnabled": True,
        "CacheSize": 1024,
        "MaxInactivityDuration": Long(limits.max_inactivity_ms),
        "MaxInactivityDurationInitalDelay": Long(limits.initial_delay_ms),
        "MaxFrameSize": Long(limits.max_frame_size),
        "MaxFrameSizeEnabled": True,
        "ProviderName": PROVIDER,
    }
    return WireFormatInfo(magic=MAGIC, version=limits.version, marshalled_properties=write_map(properties))


def agree(limits: ConnectionLimits, theirs: WireFormatInfo) -> Agreement:
    """Return what our offer and the client's lead to. Raises ProtocolError if the client's cannot be used."""
    if theirs.magic != MAGIC:
        raise ProtocolError("WireFormatInfo without the magic of OpenWire")
    properties = read_map(theirs.marshalled_properties, _MAX_PROPERTIES)
    inactivity_ms = _smaller(limits.max_inactivity_ms, _number(properties, "MaxInactivityDuration"))
    delay_ms = _smaller(limits.initial_delay_ms, _number(properties, "MaxInactivityDurationInitalDelay"))
    frame_size = _number(properties, "MaxFrameSize")
    return Agreement(
        version=limits.version if theirs.version <= 0 else min(limits.version, theirs.version),
        max_frame_size=limits.max_frame_size if frame_size <= 0 else min(limits.max_frame_size, frame_size),
        max_inactivity_s=inactivity_ms / 1000,
        initial_delay_s=delay_ms / 1000,
        host=_text(properties, "Host"),
        provider=f"{_text(properties, 'ProviderName')} {_text(properties, 'ProviderVersion')}".strip(),
    )


def _smaller(ours: int, theirs: int) -> int:
    """Return the smaller of two times, either of which may be 0 or missing: then there is none."""
    return max(0, min(ours, theirs))


def _number(properties: dict[str, object], name: str) -> int:
    value = properties.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise MalformedFrame(f"{name} in WireFormatInfo is not a number")
    return value


def _text(properties: dict[str, object], name: str) -> str:
    value = properties.get(name, "")
    return value if isinstance(value, str) else ""
