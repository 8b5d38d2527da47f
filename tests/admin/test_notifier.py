"""What happens in the engine, as the event loop of the server hears of it: waiting for a barrier, streams, and those too slow for one."""

import asyncio

import pytest

from penstock.admin import notifier as module
from penstock.admin.answers import HttpError
from penstock.admin.notifier import Notifier, Subscriber
from penstock.errors import NotUpToBound
from penstock.query.barriers import Barrier, Barriers

FIRST, SECOND = Barrier(1, {("in", 0): 9}), Barrier(2, {("in", 0): 19})


class Application:
    """Its barriers, and who listens to its state."""

    def __init__(self):
        self.barriers, self.listeners = Barriers(), []
        self.barriers.publish(FIRST)

    def on_state_change(self, f):
        self.listeners.append(f)


def served(test):
    """Run a test in an event loop, with a notifier of an application."""

    async def run():
        app = Application()
        await test(app, Notifier(app))

    asyncio.run(run())


async def published(app, *barriers):
    """Publish as the thread of the loop does."""
    for barrier in barriers:
        await asyncio.to_thread(app.barriers.publish, barrier)
    await asyncio.sleep(0)


def test_a_request_waits_until_its_position_is_part_of_a_barrier():
    async def test(app, notifier):
        assert await notifier.wait({("in", 0): 9}, 0, 0) == FIRST
        waiting = [asyncio.create_task(notifier.wait(*asked, 30_000)) for asked in (({("in", 0): 19}, 0), (None, 2))]
        await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        await published(app, SECOND)
        assert await asyncio.gather(*waiting) == [SECOND, SECOND]
        with pytest.raises(NotUpToBound):
            await notifier.wait(None, 3, 1)

    served(test)


def test_the_end_lets_go_of_whoever_waits_and_of_all_streams():
    async def test(app, notifier):
        waiting = asyncio.create_task(notifier.wait(None, 7, 30_000))
        async with notifier.subscribed() as subscriber:
            await asyncio.sleep(0)
            notifier.close()
            assert await subscriber.queue.get() is None
            for _ in range(10):  # turns of the event loop
                await asyncio.sleep(0)
            assert waiting.done(), "long before its time"
            with pytest.raises(NotUpToBound):
                await waiting
            with pytest.raises(HttpError, match="the application ends"):
                notifier.check_room()

    served(test)


def test_barriers_and_states_come_in_their_order_while_somebody_listens():
    async def test(app, notifier):
        async with notifier.subscribed() as subscriber:
            await published(app, SECOND, Barrier(3, {}))
            for listener in app.listeners:
                await asyncio.to_thread(listener, "ERROR", "RUNNING")
            await asyncio.sleep(0)
            found = [subscriber.queue.get_nowait() for _ in range(subscriber.queue.qsize())]
            assert notifier.subscribers == 1
        assert [kind for kind, _ in found] == ["epoch", "epoch", "state"]
        assert [data.epoch for kind, data in found if kind == "epoch"] == [2, 3]
        assert found[-1][1] == {"state": "ERROR", "before": "RUNNING"}
        assert notifier.subscribers == 0
        assert app.barriers._listeners == {}, "nobody is told what nobody wants to know"

    served(test)


def test_a_follower_hears_of_a_barrier_before_the_streams_do():
    heard = []

    class Follower:
        def reach(self, barrier):
            heard.append(("follower", barrier.epoch))

    async def test(app, notifier):
        follower = Follower()
        notifier.listen_for(follower)
        async with notifier.subscribed() as subscriber:
            subscriber.put = lambda event: heard.append(("stream", event[1].epoch))
            await published(app, SECOND)
            notifier.listen_no_more(follower)
            await published(app, Barrier(3, {}))

    served(test)
    assert heard == [("follower", 2), ("stream", 2), ("stream", 3)]


def test_who_is_too_slow_gets_what_waits_and_then_the_end(monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 3)

    async def test(app, notifier):
        subscriber = Subscriber()
        for number in range(10):
            subscriber.put(("epoch", number))
        assert subscriber.lost
        found = [subscriber.queue.get_nowait() for _ in range(subscriber.queue.qsize())]
        assert found == [("epoch", 0), ("epoch", 1), ("epoch", 2), None]

    served(test)


def test_there_are_only_so_many_streams(monkeypatch):
    monkeypatch.setattr(module, "MOST_SUBSCRIBERS", 1)

    async def test(app, notifier):
        notifier.check_room()
        async with notifier.subscribed():
            with pytest.raises(HttpError, match="1 streams already"):
                notifier.check_room()
        notifier.check_room()

    served(test)
