"""The catalog: of every operator its kernel, or the reason why it has none. `explain()` prints the reasons."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.kernels import (
    aggregate,
    foreign_key,
    foreign_key_responses,
    join_window,
    outer_join,
    rowwise,
    session,
    table_join,
    table_source,
    window,
)
from penstock.kernels.kernel import JoinKernel, Kernel
from penstock.operators.aggregate import StreamAggregate, StreamCount, StreamReduce, TablePassThrough
from penstock.operators.async_map import AsyncMapValues
from penstock.operators.base import Operator
from penstock.operators.deduplicate import Deduplicate
from penstock.operators.foreign_key_join import (
    ForeignTableUpdate,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from penstock.operators.process import Process, ProcessValues
from penstock.operators.session import SessionWindowAggregate
from penstock.operators.sliding import SlidingWindowAggregate
from penstock.operators.stateless import (
    Branch,
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Map,
    MapValues,
    PassThrough,
    Peek,
    Print,
    SelectKey,
)
from penstock.operators.stream_join import JoinWindow, StreamStreamJoin, StreamStreamSelfJoin
from penstock.operators.stream_table_join import StreamGlobalTableJoin, StreamTableJoin
from penstock.operators.suppress import Suppress
from penstock.operators.table import TableFilter, TableMapValues, TableToStream, TableTransformValues
from penstock.operators.table_aggregate import TableAggregate, TableReduce, TableRepartitionMap
from penstock.operators.table_join import TableJoinMerge, TableTableJoin
from penstock.operators.table_source import PunctualTableSource, TableSource
from penstock.operators.windowed import WindowAggregate

_EFFECT = "its function is called for what it does, which must happen between the records before and after"
_USER_CODE = "code of the user decides what happens to each record, with stores and timers"
_CHANGE = "an update of a table with its old value has no kernel here"

KERNELS: Mapping[type[Operator], Kernel | JoinKernel | str] = {
    # rowwise
    Filter: rowwise.FILTER,
    SelectKey: rowwise.SELECT_KEY,
    Map: rowwise.MAP,
    FlatMap: rowwise.FLAT_MAP,
    MapValues: rowwise.MAP_VALUES,
    FlatMapValues: rowwise.FLAT_MAP_VALUES,
    PassThrough: rowwise.PASS_THROUGH,
    TableToStream: rowwise.TO_STREAM,
    Peek: _EFFECT,
    Foreach: _EFFECT,
    Print: _EFFECT,
    Branch: "each record goes to another child",
    AsyncMapValues: "records wait for calls",
    # aggregations
    StreamAggregate: aggregate.AGGREGATE,
    StreamCount: aggregate.COUNT,
    StreamReduce: aggregate.REDUCE,
    WindowAggregate: window.WINDOWS,
    SessionWindowAggregate: session.SESSIONS,
    SlidingWindowAggregate: "the windows of a record depend on the records before it",
    Deduplicate: "whether a record is new depends on the records before it",
    # tables
    TableSource: table_source.TABLE_SOURCE,
    PunctualTableSource: "the table takes no late records: each is asked for its time",
    TablePassThrough: _CHANGE,
    TableFilter: _CHANGE,
    TableMapValues: _CHANGE,
    TableAggregate: _CHANGE,
    TableReduce: _CHANGE,
    TableRepartitionMap: _CHANGE,
    TableTransformValues: _USER_CODE,
    Suppress: "rows wait for their time, and a row that leaves may depend on how many wait",
    # joins
    StreamTableJoin: table_join.TABLE_JOIN,
    StreamGlobalTableJoin: table_join.GLOBAL_TABLE_JOIN,
    JoinWindow: join_window.JOIN_WINDOW,
    StreamStreamJoin: outer_join.STREAM_JOIN,
    StreamStreamSelfJoin: "a record meets itself and those before it, in an order of its own",
    TableTableJoin: _CHANGE,
    TableJoinMerge: _CHANGE,
    SubscriptionSend: foreign_key.SEND,
    SubscriptionReceive: foreign_key.RECEIVE,
    SubscriptionJoin: foreign_key_responses.ANSWER,
    ForeignTableUpdate: foreign_key_responses.UPDATE,
    ResponseJoin: foreign_key_responses.RESPONSE,
    # user code
    Process: _USER_CODE,
    ProcessValues: _USER_CODE,
}
