"""LIKE: a pattern of literal characters, `_` (one character) and `%` (any number of them).

Regular expressions are not used, because `%a%a%a%b` must not try every division of the value. The pattern is cut at
each `%` into parts. The first part is compared at the start of the value, the last one at its end, and each part
between is searched from the end of the one before it. The leftmost match is always right, because a later one never
leaves more room. So each character of the value is read once.

A part without `_` is searched by `str.find`, which is linear. A part with `_` inside is searched by a bit-parallel
automaton: one integer whose bit i means "the last i+1 characters fit the first i+1 of the part". A step costs the
part's length divided by the machine's word, which `GAP_PART_LIMIT` bounds, so the worst case is a constant
(about 9 words) per character of the value.
"""

from typing import Final

GAP_PART_LIMIT: Final = 256
"""Length limit of a part between two `%` with a `_` inside, from its first to its last literal character."""

ANY_CHARACTER: Final = ""
"""Element of a parsed part that stands for `_`; every other element is one literal character."""

Part = list[str]


class LikePattern:
    """One compiled pattern; immutable except for its counter."""

    __slots__ = ("_first", "_last", "_middle", "steps")

    def __init__(self, pattern: str, escape: str | None) -> None:
        """Raise ValueError, with a text for the client, for a trailing escape or a part that is too long."""
        parts = _split(pattern, escape)
        self.steps: int = 0
        """Characters read by the automaton in all matches so far, which tests count instead of time."""
        self._first: _Anchored = _Anchored(parts[0])
        self._middle: list[_Floating] = [_Floating(part) for part in parts[1:-1] if part]
        self._last: _Anchored | None = _Anchored(parts[-1]) if len(parts) > 1 else None

    def matches(self, value: str) -> bool:
        """Tell whether the whole of `value` fits."""
        first = self._first
        last = self._last
        if last is None:
            return len(value) == first.length and first.fits(value, 0)
        offset = first.length
        end = len(value) - last.length
        if offset > end or not first.fits(value, 0) or not last.fits(value, end):
            return False
        for part in self._middle:
            found = part.find(value, offset, end)
            self.steps += part.steps
            if found < 0:
                return False
            offset = found
        return True


class _Anchored:
    """A part whose position is known."""

    __slots__ = ("length", "literals")

    def __init__(self, part: Part) -> None:
        self.length: int = len(part)
        self.literals: list[tuple[int, str]] = _literals(part)

    def fits(self, value: str, offset: int) -> bool:
        """Tell whether the part fits at `offset`; the caller has made sure that `length` characters are left."""
        return all(value.startswith(literal, offset + start) for start, literal in self.literals)


class _Floating:
    """A part that may be anywhere between two offsets."""

    __slots__ = ("_after", "_before", "_final", "_length", "_literal", "_masks", "_other", "steps")

    def __init__(self, part: Part) -> None:
        literals = [index for index, element in enumerate(part) if element != ANY_CHARACTER]
        # `_` at the ends need no search, only room.
        begin, end = (literals[0], literals[-1] + 1) if literals else (len(part), len(part))
        core = part[begin:end]
        self.steps: int = 0
        """Characters read by the automaton in the latest search."""
        self._before: int = begin
        self._after: int = len(part) - end
        self._length: int = len(core)
        self._literal: str | None = None if ANY_CHARACTER in core else "".join(core)
        self._masks: dict[str, int] = {}
        self._other: int = 0
        self._final: int = 0
        if self._literal is None:
            self._build(core)

    def _build(self, core: Part) -> None:
        if len(core) > GAP_PART_LIMIT:
            raise ValueError(f"a part of a LIKE pattern with _ in it may have at most {GAP_PART_LIMIT} characters")
        for index, element in enumerate(core):
            if element == ANY_CHARACTER:
                self._other |= 1 << index
        for index, element in enumerate(core):
            if element != ANY_CHARACTER:
                self._masks[element] = self._masks.get(element, self._other) | 1 << index
        self._final = 1 << len(core) - 1

    def find(self, value: str, start: int, end: int) -> int:
        """Return the offset after the leftmost occurrence within `value[start:end]`, or -1."""
        self.steps = 0
        start += self._before
        end -= self._after
        if end - start < self._length:
            return -1
        if self._literal is not None:
            found = value.find(self._literal, start, end)
            return -1 if found < 0 else found + self._length + self._after
        state = 0
        masks = self._masks
        for index in range(start, end):
            state = (state << 1 | 1) & masks.get(value[index], self._other)
            if state & self._final:
                self.steps = index + 1 - start
                return index + 1 + self._after
        self.steps = end - start
        return -1


def _split(pattern: str, escape: str | None) -> list[Part]:
    """Split a pattern at each `%`; there is one part more than there are `%`."""
    parts: list[Part] = [[]]
    escaped = False
    for character in pattern:
        if not escaped and character == escape:
            escaped = True
            continue
        if not escaped and character == "%":
            parts.append([])
        else:
            parts[-1].append(ANY_CHARACTER if character == "_" and not escaped else character)
        escaped = False
    if escaped:
        raise ValueError("the LIKE pattern ends with its escape character")
    return parts


def _literals(part: Part) -> list[tuple[int, str]]:
    """Return the runs of literal characters of a part, with their offsets."""
    runs: list[tuple[int, str]] = []
    start = 0
    for index in range(len(part) + 1):
        if index == len(part) or part[index] == ANY_CHARACTER:
            if index > start:
                runs.append((start, "".join(part[start:index])))
            start = index + 1
    return runs
