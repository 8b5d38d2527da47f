"""Random programs: the same seed says the same thing to either side's builder."""

from random import Random
from typing import Any

from topologies import TEXT, Transformer, Upper, add, both, fold, merge_sessions, pair, same, start, value_of, yes

from penstock import (
    Buffer,
    EmitStrategy,
    JoinWindows,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    Suppressed,
    TimeWindows,
)


class Program:
    """A program that grows by one random statement at a time."""

    def __init__(self, builder: Any, random: Random) -> None:
        self.builder = builder
        self.random = random
        self.streams: list[Any] = []
        self.tables: list[Any] = []
        self.windowed: list[Any] = []
        self.count = 0
        self.statements = [
            *[self.stateless] * 3, self.new_stream, self.new_table, self.aggregate, self.windows, self.table_operation,
            self.stream_join, self.table_join, self.stream_table_join, self.to_stream, self.group_table, self.sink,
            self.branch, self.to_table, self.process, self.cogroup, self.suppress, self.foreign_key,
        ]  # fmt: skip
        self.new_stream()
        self.new_table()

    def say(self, statements: int) -> None:
        """Add so many statements."""
        for _ in range(statements):
            self.random.choice(self.statements)()

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}-{self.count}"

    def maybe(self, prefix: str) -> str | None:
        return self.fresh(prefix) if self.random.random() < 0.3 else None

    def a_stream(self) -> Any:
        return self.random.choice(self.streams)

    def a_table(self) -> Any:
        return self.random.choice(self.tables)

    def new_stream(self) -> None:
        topic = self.random.choice(("in-a", "in-b", self.fresh("topic")))
        self.streams.append(self.builder.stream(topic, **TEXT, name=None))

    def new_table(self) -> None:
        table = self.builder.table(self.fresh("table"), **TEXT, store=self.maybe("store"), name=self.maybe("source"))
        self.tables.append(table)

    def stateless(self) -> None:
        s, name = self.a_stream(), self.maybe("node")
        kind = self.random.randrange(7)
        if kind == 0:
            result = s.filter(yes, name=name)
        elif kind == 1:
            result = s.map_values(same, name=name)
        elif kind == 2:
            result = s.select_key(value_of, name=name)
        elif kind == 3:
            result = s.map(pair, name=name)
        elif kind == 4:
            result = s.merge(self.a_stream(), name=name)
        elif kind == 5:
            result = s.peek(yes, name=name)
        else:
            result = s.repartition(**TEXT, name=name)
        self.streams.append(result)

    def grouped(self) -> Any:
        if self.random.random() < 0.5:
            return self.a_stream().group_by_key(**TEXT, name=self.maybe("group"))
        return self.a_stream().group_by(value_of, **TEXT, name=self.maybe("group"))

    def aggregate(self) -> None:
        group = self.grouped()
        for _ in range(self.random.choice((1, 1, 2))):
            how = {"store": self.maybe("store"), "name": self.maybe("agg")}
            kind = self.random.randrange(3)
            if kind == 0:
                self.tables.append(group.count(**how))
            elif kind == 1:
                self.tables.append(group.reduce(add, **how, **TEXT))
            else:
                self.tables.append(group.aggregate(start, fold, **how, **TEXT))

    def windows(self) -> None:
        windows = self.random.choice((TimeWindows(10), SlidingWindows(10), SessionWindows(10)))
        group = self.grouped().windowed_by(windows)
        if self.random.random() < 0.3:
            group = group.emit(EmitStrategy.on_window_close)
        how = {"store": self.maybe("store"), "name": self.maybe("window")}
        kind = self.random.randrange(3)
        if kind == 0:
            result = group.count(**how)
        elif kind == 1:
            result = group.reduce(add, **how, **TEXT)
        elif isinstance(windows, SessionWindows):
            result = group.aggregate(start, fold, merge_sessions, **how, **TEXT)
        else:
            result = group.aggregate(start, fold, **how, **TEXT)
        self.windowed.append(result)

    def cogroup(self) -> None:
        first = self.a_stream().group_by_key(**TEXT, name=self.fresh("group"))
        second = self.a_stream().group_by_key(**TEXT, name=self.fresh("group"))
        groups = first.cogroup(fold).cogroup(second, fold)
        self.tables.append(groups.aggregate(start, store=self.maybe("store"), name=self.maybe("co"), **TEXT))

    def table_operation(self) -> None:
        t, how = self.a_table(), {"store": self.maybe("store"), "name": self.maybe("table-node")}
        if self.random.random() < 0.2:
            how["value"] = Serdes.string
        kind = self.random.randrange(3)
        if kind == 0:
            result = t.filter(yes, **how)
        elif kind == 1:
            result = t.map_values(same, **how)
        else:
            result = t.transform_values(Transformer, **how)
        self.tables.append(result)

    def stream_join(self) -> None:
        method = self.random.choice(("join", "left_join", "outer_join"))
        how = {"store": self.maybe("store"), "name": self.maybe("join")}
        join = getattr(self.a_stream(), method)
        self.streams.append(join(self.a_stream(), both, window=JoinWindows(10), **how, **TEXT))

    def stream_table_join(self) -> None:
        method = self.random.choice(("join", "left_join"))
        self.streams.append(getattr(self.a_stream(), method)(self.a_table(), both, name=self.maybe("join"), **TEXT))

    def table_join(self) -> None:
        method = self.random.choice(("join", "left_join", "outer_join"))
        how = {"store": self.maybe("store"), "name": self.maybe("join")}
        self.tables.append(getattr(self.a_table(), method)(self.a_table(), both, **how))

    def foreign_key(self) -> None:
        method = self.random.choice(("join", "left_join"))
        how = {"store": self.maybe("store"), "name": self.maybe("fk")}
        self.tables.append(getattr(self.a_table(), method)(self.a_table(), both, foreign_key=same, **how))

    def group_table(self) -> None:
        group = self.a_table().group_by(pair, **TEXT, name=self.maybe("group"))
        for _ in range(self.random.choice((1, 1, 2))):
            how = {"store": self.maybe("store"), "name": self.maybe("agg")}
            kind = self.random.randrange(3)
            if kind == 0:
                self.tables.append(group.count(**how))
            elif kind == 1:
                self.tables.append(group.reduce(add, add, **how))
            else:
                self.tables.append(group.aggregate(start, fold, fold, **how, **TEXT))

    def suppress(self) -> None:
        if self.windowed and self.random.random() < 0.5:
            t = self.random.choice(self.windowed)
            self.windowed.append(t.suppress(Suppressed.until_window_closes(), name=self.maybe("final")))
        else:
            limit = Suppressed.until_time_limit(10, Buffer.unbounded())
            self.tables.append(self.a_table().suppress(limit, name=self.maybe("held")))

    def to_stream(self) -> None:
        key = value_of if self.random.random() < 0.3 else None
        source = self.random.choice(self.tables + self.windowed)
        self.streams.append(source.to_stream(key, name=self.maybe("changes")))

    def to_table(self) -> None:
        how = {"store": self.maybe("store"), "name": self.maybe("as-table")}
        self.tables.append(self.a_stream().to_table(**how, **TEXT))

    def process(self) -> None:
        stores = [Stores.key_value(self.fresh("state"), **TEXT)] if self.random.random() < 0.5 else []
        name = self.maybe("processor")
        if self.random.random() < 0.5:
            self.streams.append(self.a_stream().process(Upper, stores=stores, name=name))
        else:
            self.streams.append(self.a_stream().process_values(Upper, stores=stores, name=name))

    def branch(self) -> None:
        split = self.a_stream().split(self.maybe("split")).branch(yes).branch(yes, name=self.maybe("-b"))
        found = split.default(name=self.maybe("-rest")) if self.random.random() < 0.5 else split.no_default()
        self.streams += [found[name] for name in sorted(found)]

    def sink(self) -> None:
        self.a_stream().to(self.fresh("out"), **TEXT, name=self.maybe("sink"))
