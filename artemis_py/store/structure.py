"""Reads LMDB's file without LMDB: checks that every page is what its place says, and finds what can be read if not.

LMDB maps the file and trusts it. A file that was cut ends the process with SIGBUS, a damaged page with SIGABRT, and
neither can be caught. This module reads with `pread` and checks every offset, so that no content of a file can harm the
process.

    page      u64 number, u16 unused, u16 flags, u16 lower, u16 upper, then the offset of each node as u16; the nodes
              stand from `upper` to the end. An overflow page has u32 pages in place of lower and upper, then octets
    node      u32 size, u16 flags, u16 length of the key, key, data. In a branch size and flags are the child's number
    meta      pages 0 and 1, written in turn: u32 magic, u32 version, u64 address, u64 size of the map, the tree of free
              pages, the main tree, u64 last page, u64 transaction
    tree      u32 page size (in the first), u16 flags, u16 depth, u64 branch, leaf and overflow pages, u64 entries,
              u64 root. A named database is a tree in the data of a node of the main tree

Numbers are in the machine's byte order; the layout is that of 64 bits and little-endian (`IS_READABLE`).
"""

import struct
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from struct import Struct
from typing import Final

from artemis_py.store.page_file import (
    BRANCH,
    HEAD_BYTES,
    LEAF,
    LONGEST_KEY,
    META,
    META_PAGES,
    NO_PAGE,
    OVERFLOW,
    PAGE_HEAD,
    TREE,
    Meta,
    PageFile,
    Tree,
    is_tree,
)

BIG: Final = 0x01
"""Flag of a node whose data is the number of the first overflow page."""
NAMED: Final = 0x02
"""Flag of a node whose data is the tree of a named database."""

FREE: Final = "free pages"
"""Name of the tree of free pages in a problem."""
MAIN: Final = "names"


NODE_BYTES: Final = 8

_OVERFLOW_HEAD: Final = Struct("<QHHI")
_NODE: Final = Struct("<IHH")
_CHILD: Final = Struct("<IH")
_U64: Final = Struct("<Q")

IN_USE: Final = 1
FREED: Final = 2
"""Marks of pages: found in a tree, or in a list of free pages."""

# If every page of a file is wrong, more lines than this are of no use.
MAX_PROBLEMS: Final = 1000


class Branch:
    """Branch page on the way down: its children, and the bounds of their keys."""

    def __init__(self, children: list[int], bounds: list[bytes]) -> None:
        self.children: list[int] = children
        self.bounds: list[bytes] = bounds
        """Bounds of the children's keys, one more than children; an empty one at an end is no bound."""
        self.index: int = 0


class Walk:
    """Walk through all pages of one commit: each is read once, and what is wrong is noted.

    Problems are lines of text, in the order in which they were found.
    """

    def __init__(
        self,
        file: PageFile,
        meta: Meta,
        key_lengths: Mapping[str, Collection[int]],
        doubtful: set[int] | None = None,
    ) -> None:
        """Prepare. `key_lengths` is by database, where keys have certain lengths only; `doubtful` pages are skipped."""
        self._key_lengths: Mapping[str, Collection[int]] = key_lengths
        self._file: PageFile = file
        self._meta: Meta = meta
        self._page_size: int = file.page_size
        # Pages beyond the end of the file do not exist, so a damaged number takes no memory.
        self._pages: int = min(meta.last_page, file.size // file.page_size) + 1
        self._used: bytearray = bytearray(self._pages)
        self.problems: list[str] = []
        self.databases: dict[str, Tree] = {}
        """Named databases, by name."""
        self.doubtful: set[int] = set() if doubtful is None else doubtful
        """Pages that are in use and also in a sound list of free pages: one of the two is of another time."""
        self.damaged: set[str] = set()
        """Names of the trees in which something was wrong."""
        self._entries: int = 0
        self._branch_pages: int = 0
        self._leaf_pages: int = 0
        self._overflow_pages: int = 0

    def run(self) -> bool:
        """Check everything; return whether the file is sound."""
        self.read_names()
        for name, tree in self.databases.items():
            self._check_tree(name, tree)
        free: list[bytes] = []
        for page in self.leaves(FREE, self._meta.free):
            for _, value in self.entries(FREE, page):
                free.append(value)
        self._compare(FREE, self._meta.free)
        for ids in free:
            self._check_free(ids)
        return not self.problems

    def read_names(self) -> None:
        """Find the named databases."""
        for page in self.leaves(MAIN, self._meta.main):
            for offset in self._nodes(page):
                size, flags, key_length = _NODE.unpack_from(page, offset)
                start = offset + NODE_BYTES + key_length
                name = page[offset + NODE_BYTES : start].decode("utf-8", "replace")
                if not flags & NAMED or size != TREE.size:
                    self._say(MAIN, f"'{name}' is not a database")
                    continue
                tree = Tree(page, start)
                if tree.flags or not is_tree(tree, self._meta):
                    self._say(name, "the page it begins with is not known")
                    continue
                self.databases[name] = tree
        self._compare(MAIN, self._meta.main)

    def _check_tree(self, name: str, tree: Tree) -> None:
        for _ in self.leaves(name, tree):
            pass
        self._compare(name, tree)

    def _compare(self, name: str, tree: Tree) -> None:
        """Compare what was found in the tree that `leaves` read last with what the tree itself states."""
        if name in self.damaged:
            return
        found = (self._entries, self._branch_pages, self._leaf_pages, self._overflow_pages)
        if found != (tree.entries, tree.branch_pages, tree.leaf_pages, tree.overflow_pages):
            self._say(name, f"it has {self._entries} entries, {tree.entries} were counted, or pages of another time")

    def _check_free(self, ids: bytes) -> None:
        """Check a list of free pages: a page that is free and in use would be overwritten."""
        count = _U64.unpack_from(ids)[0] if len(ids) >= _U64.size else 0
        if len(ids) < _U64.size * (count + 1):
            self._say(FREE, "a list is cut short")
            return
        numbers: tuple[int, ...] = struct.unpack_from(f"<{count}Q", ids, _U64.size)
        if any(one <= other for one, other in pairwise(numbers)):
            self._say(FREE, "a list is not in order")
            return
        for number in numbers:
            if not META_PAGES <= number <= self._meta.last_page:
                self._say(FREE, f"page {number} does not exist")
            elif number < self._pages:
                if self._used[number]:
                    self._say(FREE, f"page {number} is in use")
                    if self._used[number] != FREED:
                        self.doubtful.add(number)
                self._used[number] = FREED

    # -- one tree ----------------------------------------------------------------------------------------------

    def leaves(self, name: str, tree: Tree) -> Iterator[bytes]:
        """Yield the leaf pages of a tree, in the order of their keys; of a damaged tree those that can be read."""
        self._entries = self._branch_pages = self._leaf_pages = self._overflow_pages = 0
        if tree.root == NO_PAGE:
            return
        way = [Branch([tree.root], [b"", b""])]
        while way:
            branch = way[-1]
            index = branch.index
            if index == len(branch.children):
                way.pop()
                continue
            branch.index = index + 1
            number = branch.children[index]
            page = self._take(name, number, LEAF if len(way) == tree.depth else BRANCH)
            if not page:
                continue
            if len(way) == tree.depth:
                self._leaf_pages += 1
                reason = self._check_leaf(name, page, branch.bounds[index], branch.bounds[index + 1])
                if reason:
                    self._say(name, f"page {number}: {reason}")
                yield page
            else:
                self._branch_pages += 1
                below = self._branch(name, number, page, branch.bounds[index], branch.bounds[index + 1])
                way.append(below)
                if len(way) == tree.depth:
                    self._read_ahead(below.children)

    def stray_leaves(self) -> Iterator[bytes]:
        """Yield all leaf pages of the file that stand at their own number, whether anything leads to them or not."""
        for number in range(META_PAGES, self._pages):
            head = self._file.head(number)
            if len(head) == HEAD_BYTES and PAGE_HEAD.unpack(head)[2] == LEAF:
                page = self._page("", number, LEAF)
                if page:
                    yield page

    def _take(self, name: str, number: int, flags: int) -> bytes:
        """Return a page that belongs here; empty if it does not, or if it was read before."""
        if 0 <= number < self._pages and (self._used[number] or number in self.doubtful):
            self._say(name, f"page {number} is in use elsewhere")
            return b""
        page = self._page(name, number, flags)
        if page:
            self._used[number] = IN_USE
        return page

    def _page(self, name: str, number: int, flags: int) -> bytes:
        """Return a page of this kind; empty if it is none."""
        if not META_PAGES <= number < self._pages:
            self._say(name, f"page {number} is beyond the end of the file")
            return b""
        page = self._file.page(number)
        if len(page) != self._page_size:
            self._say(name, f"page {number} cannot be read")
            return b""
        head: tuple[int, ...] = PAGE_HEAD.unpack_from(page)
        if head[0] != number or head[2] != flags:
            self._say(name, f"page {number} is {_kind(head[2])} {head[0]}, and should be {_kind(flags)} {number}")
            return b""
        lower, upper = head[3], head[4]
        if lower < HEAD_BYTES or lower & 1 or lower > upper or upper > self._page_size:
            self._say(name, f"page {number} has a damaged header")
            return b""
        return page

    def find(self, name: str, key: bytes) -> bytes | None:
        """Return the value under a key of a named database; None if it is missing or cannot be read."""
        tree = self.databases.get(name)
        if tree is None or tree.root == NO_PAGE:
            return None
        number = tree.root
        for _ in range(tree.depth - 1):
            page = self._page(name, number, BRANCH)
            below = self._branch(name, number, page, b"", b"") if page else Branch([], [])
            if not below.children:
                return None
            number = below.children[bisect_right(below.bounds, key, 1, len(below.children)) - 1]
        page = self._page(name, number, LEAF)
        for found, value in self.entries(name, page) if page else ():
            if found == key:
                return value
        return None

    def _branch(self, name: str, number: int, page: bytes, low: bytes, high: bytes) -> Branch:
        """Return the children that can be recognized, and the bounds of their keys."""
        children: list[int] = []
        bounds: list[bytes] = []
        before = low
        offsets = _offsets(page)
        ends: list[int] = []
        is_free = name == FREE
        # LMDB ends the process at a branch page of a named database that has a single child.
        if len(offsets) < (1 if is_free else 2):
            self._say(name, f"page {number} has too few children")
        for index, offset in enumerate(offsets):
            if offset < HEAD_BYTES or offset + NODE_BYTES > self._page_size:
                self._say(name, f"page {number}: a node is outside of it")
                continue
            low_part, high_part, key_length = _NODE.unpack_from(page, offset)
            end = offset + NODE_BYTES + key_length
            ends.append(end + (end & 1))
            key = page[offset + NODE_BYTES : end]
            if is_free:
                key = key[::-1]
            if index == 0:
                key = low
            elif len(key) != key_length or key_length > LONGEST_KEY or key <= before or (high and key >= high):
                self._say(name, f"page {number}: its keys are not in order")
                continue
            children.append(low_part | high_part << 32)
            bounds.append(key)
            before = key
        if not _is_filled(offsets, ends, PAGE_HEAD.unpack_from(page)[4], self._page_size):
            self._say(name, f"page {number}: its nodes are not contiguous")
        bounds.append(high)
        return Branch(children, bounds)

    def _check_leaf(self, name: str, page: bytes, low: bytes, high: bytes) -> str:
        """Return what is wrong with a leaf page, never more than one thing; empty if it is sound.

        Long because it is one list of checks, each of which relies on those before it.
        """
        offsets = _offsets(page)
        if not offsets:
            return "it is empty"
        self._entries += len(offsets)
        page_size = self._page_size
        is_free = name == FREE
        lengths = self._key_lengths.get(name)
        upper: int = PAGE_HEAD.unpack_from(page)[4]
        before = b""
        ends: list[int] = []
        for offset in offsets:
            if offset < upper or offset + NODE_BYTES > page_size:
                return "a node is outside of it"
            size, flags, key_length = _NODE.unpack_from(page, offset)
            end = offset + NODE_BYTES + key_length
            key = page[offset + NODE_BYTES : end]
            if is_free:
                key = key[::-1]
            if not 0 < key_length <= LONGEST_KEY or key <= before:
                return "its keys are not in order"
            before = key
            if lengths is not None and key_length not in lengths:
                return "a key has an impossible length"
            if flags & BIG:
                end += _U64.size
                if end > page_size:
                    return "a node is outside of it"
                reason = self._check_overflow(_U64.unpack_from(page, end - _U64.size)[0], size)
                if reason:
                    return reason
            elif flags & ~NAMED or (flags and name != MAIN):
                return "a node is of an unknown kind"
            else:
                end += size
            ends.append(end + (end & 1))
        if not _is_filled(offsets, ends, upper, page_size):
            return "its nodes are not contiguous"
        first = self._key(name, page, offsets[0])
        if first < low or (high and before >= high):
            return "its keys belong elsewhere"
        return ""

    def _key(self, name: str, page: bytes, offset: int) -> bytes:
        _, _, key_length = _NODE.unpack_from(page, offset)
        key = page[offset + NODE_BYTES : offset + NODE_BYTES + key_length]
        return key[::-1] if name == FREE else key

    def _check_overflow(self, number: int, size: int) -> str:
        """Return what is wrong with the pages of a long value, and mark them as used; empty if they are sound."""
        needed = (HEAD_BYTES + size + self._page_size - 1) // self._page_size
        if number < META_PAGES or number + needed > self._pages:
            return f"page {number} is beyond the end of the file"
        head = self._file.head(number)
        if len(head) != HEAD_BYTES:
            return f"page {number} cannot be read"
        found: tuple[int, ...] = _OVERFLOW_HEAD.unpack(head)
        # A shorter value may have taken the place of a longer one.
        if found[0] != number or found[2] != OVERFLOW or found[3] < needed:
            return f"page {number} is {_kind(found[2])} {found[0]}, and should be {_kind(OVERFLOW)} {number}"
        pages = found[3]
        if number + pages > self._meta.last_page + 1:
            return f"page {number} continues beyond the end of the file"
        if any(self._used[number : number + pages]):
            return f"page {number} is in use elsewhere"
        stop = min(number + pages, self._pages)
        self._used[number:stop] = b"\x01" * (stop - number)
        self._overflow_pages += pages
        return ""

    def _read_ahead(self, numbers: list[int]) -> None:
        """Have the system read leaf pages in advance; those that stand side by side are requested together."""
        first = count = 0
        for number in numbers:
            if number == first + count:
                count += 1
                continue
            if 0 < first < self._pages:
                self._file.ahead(first, count)
            first, count = number, 1
        if 0 < first < self._pages:
            self._file.ahead(first, count)

    # -- what a page holds -------------------------------------------------------------------------------------

    def _nodes(self, page: bytes) -> list[int]:
        """Return the offsets of the nodes of a leaf that lie within it."""
        found: list[int] = []
        for offset in _offsets(page):
            if HEAD_BYTES <= offset <= self._page_size - NODE_BYTES:
                size, flags, key_length = _NODE.unpack_from(page, offset)
                length = _U64.size if flags & BIG else size
                if 0 < key_length <= LONGEST_KEY and offset + NODE_BYTES + key_length + length <= self._page_size:
                    found.append(offset)
        return found

    def entries(self, name: str, page: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys and values of a leaf page that `leaves` yielded, as far as they can be read."""
        lengths = self._key_lengths.get(name)
        for offset in self._nodes(page):
            size, flags, key_length = _NODE.unpack_from(page, offset)
            start = offset + NODE_BYTES + key_length
            key = page[offset + NODE_BYTES : start]
            if lengths is not None and key_length not in lengths:
                continue
            if not flags & BIG:
                yield key, page[start : start + size]
                continue
            value = self.overflow(_U64.unpack_from(page, start)[0], size)
            if value is not None:
                yield key, value
            else:
                self._say(name, f"the value of {key.hex()} cannot be read")

    def overflow(self, number: int, size: int) -> bytes | None:
        """Return a long value; None if its pages are missing."""
        head = self._file.head(number) if META_PAGES <= number < self._pages else b""
        if len(head) != HEAD_BYTES:
            return None
        found: tuple[int, ...] = _OVERFLOW_HEAD.unpack(head)
        if found[0] != number or found[2] != OVERFLOW:
            return None
        value = self._file.overflow(number, size)
        return value if len(value) == size else None

    def _say(self, name: str, problem: str) -> None:
        self.damaged.add(name)
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{name}: {problem}")


def _is_filled(starts: tuple[int, ...], ends: list[int], upper: int, page_size: int) -> bool:
    """Tell whether nodes stand side by side from `upper` to the end: LMDB moves them together by their sizes."""
    return [*sorted(starts), page_size] == [upper, *sorted(ends)]


def _offsets(page: bytes) -> tuple[int, ...]:
    """Return the offsets of the nodes, from the start of the page."""
    lower: int = PAGE_HEAD.unpack_from(page)[3]
    return struct.unpack_from(f"<{(lower - HEAD_BYTES) >> 1}H", page, HEAD_BYTES)


def _kind(flags: int) -> str:
    """Return what a page says it is."""
    kinds = {BRANCH: "a branch", LEAF: "a leaf", OVERFLOW: "an overflow page", META: "a meta page"}
    return kinds.get(flags, "no page") + ","
