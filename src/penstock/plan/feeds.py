"""Feeds: which sources move the clock of a node, and how far behind them its records may be.

Every processor node is fed by the sources whose records can reach it, through repartition topics too. A node that holds results back
until their time has come (windows emitted on close, suppress, unmatched rows of joins) gives them out when they are old: what
comes behind it *holds* so far behind the sources, or its windows would be closed before the results arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.topology.node import ProcessorNode, SinkNode, SourceNode
from penstock.topology.topology import Topology


class Feed(NamedTuple):
    """The sources that move a clock, by name, and how many milliseconds it stays behind them."""

    sources: frozenset[str] = frozenset()
    hold: int = 0
    #: the longest window behind which the node is
    span: int = 0

    @property
    def group(self) -> str:
        """The name of the sources together: nodes that the same sources feed have the same time."""
        return "+".join(sorted(self.sources))

    def joined(self, other: Feed) -> Feed:
        """Return what both are fed by."""
        return Feed(self.sources | other.sources, max(self.hold, other.hold), max(self.span, other.span))


def find_feeds(topology: Topology) -> dict[str, Feed]:
    """Return the feed of every processor node by its name, and of clocks that nodes share by theirs.

    >>> from penstock import StreamsBuilder, Suppressed, TimeWindows
    >>> builder = StreamsBuilder()
    >>> counts = builder.stream("in", name="in").group_by_key().windowed_by(TimeWindows(10, grace=2)).count(name="counts")
    >>> last = counts.suppress(Suppressed.until_window_closes(name="last")).to_stream(name="stream")
    >>> feeds = find_feeds(builder.build())
    >>> sorted(feeds["counts"].sources), feeds["counts"].hold, feeds["stream"].hold
    (['in'], 0, 12)
    """
    writers: dict[str, list[str]] = {}
    for name, node in topology.nodes.items():
        if isinstance(node, SinkNode) and node.internal and node.topic is not None:
            writers.setdefault(node.topic, []).append(name)
    found: dict[str, Feed] = {}

    def feed_of(name: str) -> Feed:
        if name not in found:
            found[name] = Feed()  # a cycle of repartition topics ends here
            found[name] = _feed(name)
        return found[name]

    def _feed(name: str) -> Feed:
        node = topology.nodes[name]
        if isinstance(node, SourceNode) and not node.internal:
            return Feed(frozenset((name,)) if node.topics or node.pattern else frozenset())
        parents = node.parents
        if isinstance(node, SourceNode):
            parents = tuple(writer for topic in node.topics for writer in writers.get(topic, ()))
        feed = Feed()
        for parent in parents:
            feed = feed.joined(_behind(topology, parent, feed_of(parent)))
        return feed

    feeds = {name: feed_of(name) for name, node in topology.nodes.items() if isinstance(node, ProcessorNode)}
    shared: dict[str, Feed] = {}
    for name, node in topology.nodes.items():
        if isinstance(node, ProcessorNode) and node.operator.shared_clock is not None:
            clock = node.operator.shared_clock
            shared[clock] = feeds[name].joined(shared.get(clock, Feed()))
    return feeds | shared


def feed_of_store(topology: Topology, feeds: Mapping[str, Feed], store: str) -> Feed:
    """Return what moves the time of a store: the feeds of the nodes that write to it."""
    feed = Feed()
    for name, node in topology.nodes.items():
        if isinstance(node, ProcessorNode) and store in topology.stores_of(name) and node.operator.writes_to(store):
            feed = feed.joined(feeds[name])
    return feed


def _behind(topology: Topology, name: str, feed: Feed) -> Feed:
    """Return what the children of a node are fed by."""
    node = topology.nodes[name]
    if not isinstance(node, ProcessorNode):
        return feed
    operator = node.operator
    return Feed(feed.sources, feed.hold + operator.delay(feed.span), max(feed.span, operator.span))


def forwarded_at_once(topology: Topology) -> frozenset[str]:
    """Return the stores whose updates reach a node that acts on time, also through repartition topics: no update may wait in a cache.

    What such a node gives out is final, and must not depend on where an epoch was cut.
    """
    readers: dict[str, list[str]] = {}
    for name, node in topology.nodes.items():
        if isinstance(node, SourceNode) and node.internal:
            for topic in node.topics:
                readers.setdefault(topic, []).append(name)

    def acts_on_time(name: str, seen: set[str]) -> bool:
        node = topology.nodes[name]
        below = list(topology.children(name))
        if isinstance(node, SinkNode) and node.internal and node.topic is not None:
            below += readers.get(node.topic, [])
        for child in below:
            if child in seen:
                continue
            seen.add(child)
            found = topology.nodes[child]
            if (isinstance(found, ProcessorNode) and found.operator.gives_final) or acts_on_time(child, seen):
                return True
        return False

    writers = [
        (name, store)
        for name, node in topology.nodes.items()
        if isinstance(node, ProcessorNode)
        for store in topology.stores_of(name)
        if node.operator.writes_to(store)
    ]
    return frozenset(store for name, store in writers if acts_on_time(name, set()))
