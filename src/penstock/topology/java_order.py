"""The order in which Java's hash sets and tree sets hand out names: part of the text that ``describe()`` must equal.

Kafka Streams keeps store and topic names in hash sets, and a node's neighbours in a tree set whose comparator looks at
sizes that still change while the set is filled. Neither order is written down anywhere but in these two algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode``, unsigned.

    >>> string_hash("ab") == 31 * ord("a") + ord("b")
    True
    """
    result = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        result = (31 * result + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return result


def grown_order(names: Collection[str]) -> list[str]:
    """Return names in the order of a hash table that grew as they were put in."""
    capacity = 16
    while len(names) > capacity * 3 // 4:
        capacity *= 2
    return _by_bucket(names, capacity)


def copied_order(names: Collection[str]) -> list[str]:
    """Return names in the order of a hash set that was made from a collection.

    >>> copied_order(["store-b", "store-a"])
    ['store-a', 'store-b']
    """
    wanted = max(int(len(names) / 0.75) + 1, 16)
    return _by_bucket(names, 1 << (wanted - 1).bit_length())


def _by_bucket(names: Collection[str], capacity: int) -> list[str]:
    def bucket(name: str) -> int:
        code = string_hash(name)
        return (code ^ code >> 16) & (capacity - 1)

    return sorted(dict.fromkeys(names), key=bucket)


class _Entry(Generic[T]):
    __slots__ = ("item", "left", "parent", "red", "right")

    def __init__(self, item: T, parent: _Entry[T] | None) -> None:
        self.item = item
        self.parent = parent
        self.left: _Entry[T] | None = None
        self.right: _Entry[T] | None = None
        self.red = True


class TreeSet(Generic[T]):
    """A red-black tree, balanced as Java's is: with a comparator that changes its mind, the shape decides the order."""

    def __init__(self, compare: Callable[[T, T], int]) -> None:
        self._compare = compare
        self._root: _Entry[T] | None = None

    def __iter__(self) -> Iterator[T]:
        return self._walk(self._root)

    def _walk(self, entry: _Entry[T] | None) -> Iterator[T]:
        if entry is not None:
            yield from self._walk(entry.left)
            yield entry.item
            yield from self._walk(entry.right)

    def add(self, item: T) -> None:
        """Insert an item unless the search meets its equal."""
        parent, entry, order = None, self._root, 0
        while entry is not None:
            order = self._compare(item, entry.item)
            if order == 0:
                return
            parent, entry = entry, entry.left if order < 0 else entry.right
        new = _Entry(item, parent)
        if parent is None:
            self._root = new
        elif order < 0:
            parent.left = new
        else:
            parent.right = new
        self._balance(new)

    def _balance(self, entry: _Entry[T]) -> None:
        while (parent := entry.parent) is not None and parent.red:
            grandparent = parent.parent
            if grandparent is None:
                break
            on_left = parent is grandparent.left
            uncle = grandparent.right if on_left else grandparent.left
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grandparent.red = True
                entry = grandparent
                continue
            if entry is (parent.right if on_left else parent.left):
                entry = parent
                self._rotate(entry, left=on_left)
            inner = entry.parent
            if inner is not None:
                inner.red = False
            grandparent.red = True
            self._rotate(grandparent, left=not on_left)
        if self._root is not None:
            self._root.red = False

    def _rotate(self, entry: _Entry[T], *, left: bool) -> None:
        """Put a child in the place of ``entry``: the right one when turning left, else the left one."""
        child = entry.right if left else entry.left
        if child is None:
            return
        moved = child.left if left else child.right
        if left:
            entry.right, child.left = moved, entry
        else:
            entry.left, child.right = moved, entry
        if moved is not None:
            moved.parent = entry
        parent = child.parent = entry.parent
        if parent is None:
            self._root = child
        elif parent.left is entry:
            parent.left = child
        else:
            parent.right = child
        entry.parent = child
