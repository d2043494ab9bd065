"""LMDB's file as pages: its meta pages, and every page read with `pread`. The layout is drawn in `structure`."""

import os
import struct
import sys
from pathlib import Path
from struct import Struct
from typing import Final

IS_READABLE: Final = sys.byteorder == "little" and struct.calcsize("P") == 8
"""Whether this machine has the layout that is read here; on others nothing can be told about a file."""
MAGIC: Final = 0xBEEFC0DE
VERSION: Final = 1
META_PAGES: Final = 2
NO_PAGE: Final = (1 << 64) - 1
BRANCH: Final = 0x01
LEAF: Final = 0x02
OVERFLOW: Final = 0x04
META: Final = 0x08
LONGEST_KEY: Final = 511
MAX_DEPTH: Final = 32
"""Limit of a tree's depth, as in LMDB."""
HEAD_BYTES: Final = 16
PAGE_HEAD: Final = Struct("<QHHHH")
TREE: Final = Struct("<IHHQQQQQ")
_META: Final = Struct("<IIQQ")
_META_END: Final = Struct("<QQ")
_FREE_OFFSET: Final = HEAD_BYTES + _META.size
_MAIN_OFFSET: Final = _FREE_OFFSET + TREE.size
_END_OFFSET: Final = _MAIN_OFFSET + TREE.size
META_BYTES: Final = _END_OFFSET + _META_END.size
SMALLEST_PAGE: Final = 512
LARGEST_PAGE: Final = 65536


class Tree:
    """Root of a database, and the numbers of pages and entries that the database states for itself."""

    def __init__(self, data: bytes, offset: int) -> None:
        fields: tuple[int, ...] = TREE.unpack_from(data, offset)
        self.page_size: int = fields[0]
        self.flags: int = fields[1]
        self.depth: int = fields[2]
        self.branch_pages: int = fields[3]
        self.leaf_pages: int = fields[4]
        self.overflow_pages: int = fields[5]
        self.entries: int = fields[6]
        self.root: int = fields[7]


class Meta:
    """One of the two meta pages: the file as one commit left it."""

    def __init__(self, page: bytes) -> None:
        """Read the fields of a page that `is_meta` accepted."""
        self.free: Tree = Tree(page, _FREE_OFFSET)
        self.main: Tree = Tree(page, _MAIN_OFFSET)
        last_page, transaction = _META_END.unpack_from(page, _END_OFFSET)
        self.last_page: int = last_page
        self.transaction: int = transaction
        self.page_size: int = self.free.page_size


def is_meta(page: bytes, number: int) -> bool:
    """Tell whether this can be the meta page of this number."""
    if len(page) < META_BYTES:
        return False
    head: tuple[int, ...] = PAGE_HEAD.unpack_from(page)
    magic, version, _, _ = _META.unpack_from(page, HEAD_BYTES)
    if head[0] != number or head[2] != META or magic != MAGIC or version != VERSION:
        return False
    meta = Meta(page)
    size = meta.page_size
    is_page_size = SMALLEST_PAGE <= size <= LARGEST_PAGE and size & (size - 1) == 0
    # Transaction 0 is the empty file; each later one writes the meta page that the one before it did not write.
    is_in_turn = meta.transaction & 1 == number or meta.transaction == 0
    return is_page_size and is_in_turn and is_tree(meta.free, meta) and is_tree(meta.main, meta)


def is_tree(tree: Tree, meta: Meta) -> bool:
    """Tell whether a tree can belong to the file that `meta` describes."""
    if tree.root == NO_PAGE:
        return tree.depth == 0 and tree.entries == 0
    return 0 < tree.depth <= MAX_DEPTH and META_PAGES <= tree.root <= meta.last_page


class PageFile:
    """LMDB file that is open for reading."""

    def __init__(self, path: Path) -> None:
        """Open the file and read its meta pages. Raises OSError."""
        self._file: int = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size: int = os.fstat(self._file).st_size
        self.page_size: int = 0
        self.metas: list[Meta] = []
        """Sound meta pages, the newest first."""
        self.broken_metas: list[int] = []
        """Numbers of the other meta pages."""
        # The first meta page states the page size; without it, the offset of the second one gives it.
        first = self._read(0, META_BYTES)
        if is_meta(first, 0):
            self.page_size = Meta(first).page_size
        else:
            for shift in range(9, 17):
                second = self._read(1 << shift, META_BYTES)
                if is_meta(second, 1) and Meta(second).page_size == 1 << shift:
                    self.page_size = 1 << shift
        if self.page_size:
            self._read_metas()

    def _read_metas(self) -> None:
        for number in range(META_PAGES):
            page = self._read(number * self.page_size, META_BYTES)
            if is_meta(page, number) and Meta(page).page_size == self.page_size:
                self.metas.append(Meta(page))
            else:
                self.broken_metas.append(number)
        if len(self.metas) == 2 and self.metas[1].transaction > self.metas[0].transaction:
            self.metas.reverse()

    def is_short(self, meta: Meta) -> bool:
        """Tell whether the file ends before its last page; LMDB leaves out free pages at the end."""
        return self.size < (meta.last_page + 1) * self.page_size

    def page(self, number: int) -> bytes:
        """Return a page; shorter, or empty, if it is missing or cannot be read."""
        return self._read(number * self.page_size, self.page_size)

    def head(self, number: int) -> bytes:
        """Return the octets that a page begins with."""
        return self._read(number * self.page_size, HEAD_BYTES)

    def overflow(self, number: int, size: int) -> bytes:
        """Return `size` octets of a value that begins on this page."""
        return self._read(number * self.page_size + HEAD_BYTES, size)

    def ahead(self, first: int, count: int) -> None:
        """Have the system read pages in advance while others are checked."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file, first * self.page_size, count * self.page_size, os.POSIX_FADV_WILLNEED)

    def _read(self, offset: int, size: int) -> bytes:
        try:
            return os.pread(self._file, size, offset)
        except (OSError, OverflowError):
            return b""

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
