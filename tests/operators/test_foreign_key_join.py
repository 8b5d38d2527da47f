"""Foreign-key joins: the five nodes over real stores, messages carried by hand from one to the next."""

from __future__ import annotations

from typing import Any

import pytest
from one_shard import OneShard

from penstock.operators.foreign_key_join import (
    ForeignTableUpdate,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from penstock.operators.table import TableSource
from penstock.operators.views import StoreView
from penstock.record import Change
from penstock.serde import Serdes
from penstock.serde.foreign_key import CombinedKey, CombinedKeySerde, Instruction, SubscriptionWrapperSerde
from penstock.serde.murmur3 import murmur3_128
from penstock.state.spec import StoreKind, Stores

STAY, TELL_ALWAYS = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE, Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
LEAVE, LEAVE_AND_RESPOND = Instruction.DELETE_KEY_NO_PROPAGATE, Instruction.DELETE_KEY_AND_PROPAGATE


def first_letter(value: str) -> str | None:
    return None if value.startswith("-") else value[0]


def joined(left: Any, right: Any) -> str:
    return f"{left}+{right}"


class Join:
    """Left rows name a right row by their first letter. ``hold`` keeps messages until ``deliver``: a hand-made race."""

    def __init__(self, *, left: bool) -> None:
        subscriptions = CombinedKeySerde(Serdes.string, Serdes.string)
        self.shard = OneShard(
            Stores.key_value("L", timestamped=True, cached=False),
            Stores.key_value("R", timestamped=True, cached=False),
            Stores.key_value(
                "S", key=subscriptions, value=SubscriptionWrapperSerde(Serdes.string), timestamped=True, cached=False
            ),
        )
        self.hold = False
        self._held: list[Any] = []
        respond = self._carrier(
            self.shard.chain(ResponseJoin(StoreView("L", StoreKind.KEY_VALUE), joined, Serdes.string, left))
        )
        subscribe = self._carrier(
            self.shard.chain(
                SubscriptionReceive("S"), SubscriptionJoin(StoreView("R", StoreKind.KEY_VALUE)), end=respond
            )
        )
        send = SubscriptionSend(extract=first_letter, foreign_key=Serdes.string, value=Serdes.string, left=left)
        self.left = self.shard.chain(TableSource("L", send_old=True), send, end=subscribe)
        self.right = self.shard.chain(TableSource("R", send_old=True), ForeignTableUpdate("S"), end=respond)

    def _carrier(self, to: Any) -> Any:
        def carry(*message: Any) -> None:
            if self.hold:
                self._held.append((to, message))
            else:
                to(*message)

        return carry

    def deliver(self) -> list[Any]:
        """Let the held messages arrive."""
        self.hold, held = False, self._held
        self._held = []
        before = len(self.shard.results)
        for to, message in held:
            to(*message)
        return self.shard.results[before:]

    def subscriptions(self) -> list[CombinedKey[str, str]]:
        return [key for key, _ in self.shard.stores["S"].all()]


def test_a_left_row_joins_the_right_row_that_it_names():
    join = Join(left=False)
    assert join.left("1", "a1", 10) == []
    assert join.right("a", "A", 5) == [("1", "a1+A", 5)]
    assert join.left("2", "a2", 3) == [("2", "a2+A", 5)]
    assert join.subscriptions() == [("a", "1"), ("a", "2")]


def test_a_right_update_reaches_all_its_subscribers_in_the_order_of_their_keys_with_its_own_timestamp():
    join = Join(left=False)
    join.left("2", "a2", 100)
    join.left("1", "a1", 100)
    join.left("3", "ab", 100)
    join.left("4", "b", 100)
    assert join.right("a", "A", 5) == [("1", "a1+A", 5), ("2", "a2+A", 5), ("3", "ab+A", 5)]
    assert join.right("a", None, 6) == [("1", None, 6), ("2", None, 6), ("3", None, 6)]


def test_a_changed_foreign_key_moves_the_subscription():
    join = Join(left=False)
    join.right("a", "A", 1)
    join.left("1", "a1", 2)
    assert join.left("1", "b1", 3) == [("1", None, 3)]
    assert join.subscriptions() == [("b", "1")]
    assert join.right("b", "B", 4) == [("1", "b1+B", 4)]
    assert join.right("a", "A2", 5) == []


def test_a_deleted_left_row_unsubscribes_and_deletes_the_result():
    join = Join(left=False)
    join.right("a", "A", 1)
    join.left("1", "a1", 2)
    assert join.left("1", None, 3) == [("1", None, 3)]
    assert join.subscriptions() == []
    assert join.left("1", None, 4) == []


def test_an_inner_join_drops_a_row_without_a_foreign_key_and_deletes_the_result():
    join = Join(left=False)
    join.right("a", "A", 1)
    join.left("1", "a1", 2)
    assert join.left("1", "-", 3) == [("1", None, 3)]
    assert join.left("2", "-", 4) == []
    assert join.shard.dropped == ["null_foreign_key"] * 2
    assert join.subscriptions() == []


def test_a_left_join_gives_a_result_without_a_right_row_and_without_a_foreign_key():
    join = Join(left=True)
    assert join.left("1", "a1", 2) == [("1", "a1+None", 2)]
    assert join.left("2", "-", 3) == [("2", "-+None", 3)]
    assert join.right("a", "A", 4) == [("1", "a1+A", 4)]
    assert join.right("a", None, 5) == [("1", "a1+None", 5)]
    assert join.left("1", "-", 6) == [("1", "-+None", 6)]
    assert join.left("1", None, 7) == [("1", None, 7)]
    assert join.left("1", None, 8) == []
    assert join.subscriptions() == []


def test_a_response_to_an_older_left_row_is_dropped_as_stale():
    join = Join(left=False)
    join.right("a", "A", 1)
    join.hold = True
    join.left("1", "a1", 2)
    join.left("1", "a2", 3)
    assert join.deliver() == [("1", "a2+A", 3)]
    assert join.shard.dropped == ["stale_response"]


def test_a_foreign_key_that_changes_and_changes_back_gives_the_present_result():
    join = Join(left=False)
    join.right("a", "A", 1)
    join.left("1", "a1", 2)
    join.hold = True
    join.left("1", "b1", 3)
    join.left("1", "a1", 4)
    assert join.deliver() == [("1", "a1+A", 4)]
    assert join.subscriptions() == [("a", "1")]


@pytest.mark.parametrize(
    ("left", "old", "new", "expected"),
    [
        (False, None, "a", [("a", STAY)]),
        (False, "a1", "a2", [("a", STAY)]),
        (False, "a", "b", [("a", LEAVE), ("b", TELL_ALWAYS)]),
        (False, "a", "-", [("a", LEAVE_AND_RESPOND)]),
        (False, "-", "a", [("a", STAY)]),
        (False, "-", "-", []),
        (False, "a", None, [("a", LEAVE_AND_RESPOND)]),
        (False, "-", None, []),
        (False, None, None, []),
        (True, None, "a", [("a", TELL_ALWAYS)]),
        (True, "a1", "a2", [("a", TELL_ALWAYS)]),
        (True, "a", "b", [("a", LEAVE), ("b", TELL_ALWAYS)]),
        (True, "a", "-", [("a", LEAVE), (None, TELL_ALWAYS)]),
        (True, "-", "a", [("a", TELL_ALWAYS)]),
        (True, None, "-", [(None, TELL_ALWAYS)]),
        (True, "a", None, [("a", LEAVE), (None, TELL_ALWAYS)]),
        (True, "-", None, [(None, TELL_ALWAYS)]),
        (True, None, None, []),
    ],
)
def test_instructions(left, old, new, expected):
    shard = OneShard()
    operator = SubscriptionSend(extract=first_letter, foreign_key=Serdes.string, value=Serdes.string, left=left)
    sent = shard.chain(operator)("1", Change(new, old), 5)
    assert [(key, subscription.instruction) for key, subscription, _ in sent] == expected
    fingerprint = None if new is None else murmur3_128(new.encode())
    assert all(wrapper == (fingerprint, wrapper.instruction, "1", 1, 0) for _, wrapper, _ in sent)


def test_whether_the_foreign_key_changed_is_decided_on_its_bytes():
    shard = OneShard()
    operator = SubscriptionSend(extract=float, foreign_key=Serdes.json, value=Serdes.string, left=False)
    assert [w.instruction for _, w, _ in shard.chain(operator)("1", Change("1.0", "1.00"), 5)] == [STAY]


def test_the_extractor_may_ask_for_the_key():
    shard = OneShard()
    operator = SubscriptionSend(
        extract=lambda key, value: key + value,
        foreign_key=Serdes.string,
        value=Serdes.string,
        left=False,
        with_key=True,
    )
    assert shard.chain(operator)("k", Change("v"), 5)[0][0] == "kv"


def test_out_of_order_updates_of_versioned_tables_are_dropped():
    join = Join(left=False)
    operator = SubscriptionSend(
        extract=first_letter, foreign_key=Serdes.string, value=Serdes.string, left=False, versioned=True
    )
    assert join.shard.chain(operator)("k", Change("a", None, False), 5) == []
    assert join.shard.chain(ForeignTableUpdate("S", versioned=True))("a", Change("A", None, False), 5) == []
    assert join.shard.dropped == ["out_of_order"] * 2


def test_records_without_a_key_are_dropped_by_the_right_side():
    join = Join(left=False)
    assert join.shard.chain(ForeignTableUpdate("S"))(None, Change("A"), 5) == []
    assert join.shard.dropped == ["null_key"]
