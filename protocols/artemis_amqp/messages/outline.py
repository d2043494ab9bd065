"""Check of a message's body as a sequence of sections, while its octets pass by (AMQP 1.0 §3.2).

    00 descriptor | constructor, size | content       data: any number; amqp-sequence: any number; amqp-value: one;
                                                       then perhaps a footer

For a body that is never in memory as a whole: only the head of a section that is cut between two pieces is kept. The
checks are those of `arrival.split_sections` for a message in memory.
"""

from struct import Struct
from typing import Final

from artemis_amqp.engine.types import MalformedValue
from artemis_amqp.messages.sections import DATA, FOOTER, SEQUENCE, section_at

_U32: Final = Struct(">I")

# Octets of a value behind its constructor, by the constructor's upper half; -1 and -4: a size of 1 or 4 octets first.
_WIDTHS: Final = {
    0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16, 0xA: -1, 0xB: -4, 0xC: -1, 0xD: -4, 0xE: -1, 0xF: -4,
}  # fmt: skip

# Constructors that a section's value may have; an amqp-value may have any.
_CONSTRUCTORS: Final = {DATA: (0xA0, 0xB0), SEQUENCE: (0x45, 0xC0, 0xD0), FOOTER: (0xC1, 0xD1)}

# The longest descriptor that names a section is a symbol of 31 octets, with three in front.
_LONGEST_DESCRIPTOR: Final = 34


class BodyOutline:
    """Position in the body of a message that arrives in pieces."""

    def __init__(self) -> None:
        self._section = 0
        """Code of the current or last section; 0 before the first."""
        self._values = 0
        """Values of this section that have not begun; a described value counts as two."""
        self._skip = 0
        """Octets left of the current value."""
        self._head = b""
        """Octets of a descriptor or constructor that is cut between two pieces."""

    def follow(self, data: bytes) -> None:
        """Check the next octets of the body. Raises MalformedValue for octets that no body may have."""
        offset = 0
        end = len(data)
        while offset < end:
            step = min(self._skip, end - offset)
            if step:
                self._skip -= step
                offset += step
                continue
            kept = len(self._head)
            head = self._head + data[offset : offset + _LONGEST_DESCRIPTOR]
            size = self._constructor(head) if self._values else self._descriptor(head)
            if size > len(head):
                self._head = head
                return
            self._head = b""
            offset += size - kept

    def finish(self) -> None:
        """Raise MalformedValue if the body ends here and is incomplete."""
        if self._skip or self._values or self._head:
            raise MalformedValue("the body is cut short")

    def _descriptor(self, head: bytes) -> int:
        """Read the descriptor of a section; return its size, which exceeds `head` if the descriptor is cut."""
        if len(head) < 3:
            return 3
        code = head[1]
        size = 3 if code == 0x53 else 10 if code == 0x80 else 3 + head[2] if code == 0xA3 else _LONGEST_DESCRIPTOR + 1
        if head[0] != 0 or size > _LONGEST_DESCRIPTOR:
            raise MalformedValue("no section of a body begins where one should")
        if size > len(head):
            return size
        self._begin(section_at(head[:size] + b"\x40", 0, size + 1)[0])
        self._values = 1
        return size

    def _begin(self, section: int) -> None:
        last = self._section
        if section < DATA or section > FOOTER:
            raise MalformedValue(f"0x{section:x} is not a section of a body")
        if section <= last and (section != last or section not in (DATA, SEQUENCE)):
            raise MalformedValue(f"the section 0x{section:x} is repeated or out of order")
        if DATA <= last < section < FOOTER:
            raise MalformedValue(f"the body section 0x{section:x} follows one of another kind")
        self._section = section

    def _constructor(self, head: bytes) -> int:
        """Read the constructor of a value, with the value's size; return as `_descriptor`."""
        code = head[0]
        allowed = _CONSTRUCTORS.get(self._section)
        if allowed is not None and code not in allowed:
            raise MalformedValue(f"format code 0x{code:02x} does not fit section 0x{self._section:x}")
        if code == 0:
            self._values += 1
            return 1
        width = _WIDTHS.get(code >> 4)
        if width is None:
            raise MalformedValue(f"0x{code:02x} is not a format code")
        if width >= 0:
            size, self._skip = 1, width
        elif width == -1:
            if len(head) < 2:
                return 2
            size, self._skip = 2, head[1]
        else:
            if len(head) < 5:
                return 5
            size, self._skip = 5, _U32.unpack_from(head, 1)[0]
        self._values -= 1
        return size
