# SPDX-License-Identifier: MIT
"""Does `async with dlock.Lock(...)` lock without a thread, and does a cancelled task leave nothing?

    test_asyncio.py SOURCE-DIR REDIS-PORT
"""

import asyncio
import gc
import os
import random
import socket
import sys
import threading
import time
import unittest
from unittest import mock

import dlock
import tap

SOURCE, PORT = sys.argv[1:3]
URI = f"redis://127.0.0.1:{PORT}?restart_guard=0"
os.environ["DLOCK_URI"] = URI


def until(condition):
    end = tap.Within(60)
    while not condition():
        end.check()
        time.sleep(0.005)


class Silent:
    """A server that accepts and says nothing, until it is closed."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"redis://127.0.0.1:{self.listener.getsockname()[1]}?op_timeout=20s"
        self.connection = None

    def accept(self):
        self.connection = self.listener.accept()[0]

    def close(self):
        self.listener.close()
        self.connection.close()


class Ended:
    """A loop that is closed while a task of it acquires a lock that another client has."""

    def __init__(self, name):
        gc.collect()
        self.before = descriptors()
        self.client, self.holder_client = dlock.Client(URI), dlock.Client(URI)
        self.lock = dlock.Lock(name, client=self.client, ttl=60)
        self.other = dlock.Lock(name, client=self.holder_client)
        self.other.acquire()
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda *_: None)  # it tells of tasks that are pending
        self.task = self.loop.create_task(self.lock.acquire_async())
        self.loop.run_until_complete(asyncio.sleep(0.05))

    def grant(self):
        """The task's lock is granted, and its loop does not know it."""
        self.other.release()
        until(lambda: self.client.stats()["held"] == 1)

    def drop(self):
        self.task = self.loop = None
        gc.collect()

    def check(self):
        """Nobody has the lock, both objects can be used, and no descriptor is left."""
        until(lambda: self.client.stats()["held"] == 0)
        until(self.other.try_acquire)
        self.other.release()

        def again():
            try:
                return self.lock.try_acquire()
            except dlock.Already:  # until the thread that undoes the acquire has seen its end
                return False

        until(again)
        self.lock.release()
        self.drop()
        self.client.close()
        self.holder_client.close()
        self.lock = self.other = None
        until(lambda: descriptors() == self.before)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


class Async(unittest.TestCase):
    def test_with(self):
        """a block holds the lock and unlocks at its end; asyncio.run may come again"""
        lock, fences = dlock.Lock("with", timeout=10), []

        async def work():
            async with lock:
                lock.check()
                self.assertTrue(lock.held)
                self.assertFalse(dlock.Lock("with").try_acquire())
                await lock.renew_async()
                fences.append(lock.fence)
            self.assertEqual(lock.state, dlock.FREE)

        asyncio.run(work())
        asyncio.run(work())
        self.assertLess(fences[0], fences[1])

    def test_many(self):
        """200 tasks wait in one thread, exclude each other, and leave no descriptor"""
        inside, together, threads = [], [], set()
        before = descriptors()

        async def work(client, number):
            async with dlock.Lock(f"many:{number % 20}", client=client, timeout=120):
                inside.append(number % 20)
                together.append(inside.count(number % 20))
                threads.add(threading.active_count())
                await asyncio.sleep(0.001)
                inside.remove(number % 20)

        async def main():
            with dlock.Client(URI) as client:
                await asyncio.gather(*(work(client, i) for i in range(200)))

        asyncio.run(main())
        self.assertEqual((len(together), max(together), threads), (200, 1, {1}))
        self.assertEqual(descriptors(), before)

    def test_excluded(self):
        """Busy at once, Timeout after the timeout, and the loop goes on meanwhile"""
        async def main():
            async with dlock.Lock("excluded"):
                with self.assertRaises(dlock.Busy):
                    await dlock.Lock("excluded", timeout=0).acquire_async()
                waiting = asyncio.create_task(dlock.Lock("excluded").acquire_async(0.5))
                turns = 0
                while not waiting.done():
                    await asyncio.sleep(0.01)
                    turns += 1
                with self.assertRaises(dlock.Timeout):
                    await waiting
                return turns

        self.assertGreater(asyncio.run(main()), 3)

    def test_lost(self):
        """check raises Lost after a loss, and so does the end of the block"""
        async def main():
            with dlock.Client(URI) as client:
                with self.assertRaises(dlock.Lost):
                    async with dlock.Lock("lost", client=client) as lock:
                        client.break_lock("lost")
                        with self.assertRaises(dlock.Lost):
                            await lock.renew_async()
                        self.assertRaises(dlock.Lost, lock.check)
                with self.assertRaises(ZeroDivisionError):  # not hidden by the loss
                    async with lock:
                        client.break_lock("lost")
                        raise ZeroDivisionError

        asyncio.run(main())

    def test_misuse(self):
        """a lock that another task acquires raises Already, a free one NotHeld"""
        async def main():
            lock = dlock.Lock("misuse", timeout=10)
            with self.assertRaises(dlock.NotHeld):
                await lock.release_async()
            async with dlock.Lock("misuse"):
                waiting = asyncio.create_task(lock.acquire_async())
                await asyncio.sleep(0.05)
                with self.assertRaises(dlock.Already):
                    await lock.acquire_async()
            await waiting
            await lock.release_async()

        asyncio.run(main())

    def test_cancelled(self):
        """a cancelled wait ends, has not the lock, and the object can be used again"""
        async def main():
            lock = dlock.Lock("cancelled")
            async with dlock.Lock("cancelled"):
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(lock.acquire_async(), 0.2)
            async with lock:
                lock.check()

        asyncio.run(main())

    def test_cancelled_at_random(self):
        """tasks that are cancelled at any moment leave no lock behind"""
        draw = random.Random(7)
        outcomes = {"held": 0, "cancelled": 0}

        async def work(client):
            async with dlock.Lock("random", client=client, ttl=60):
                outcomes["held"] += 1

        async def main():
            with dlock.Client(URI) as client:
                for _ in range(150):
                    tasks = [asyncio.create_task(work(client)) for _ in range(3)]
                    await asyncio.sleep(draw.random() * 0.003)
                    for task in tasks:
                        task.cancel()
                    for task in tasks:
                        try:
                            await task
                        except asyncio.CancelledError:
                            outcomes["cancelled"] += 1
                self.assertTrue(dlock.Lock("random").try_acquire())

        asyncio.run(main())
        self.assertGreater(outcomes["cancelled"], 0)
        self.assertGreater(outcomes["held"], 0)

    def test_cancelled_beside(self):
        """a task that is cancelled after Already leaves the acquire of another task alone"""
        async def main():
            lock = dlock.Lock("beside")
            async with dlock.Lock("beside"):
                waiting = asyncio.create_task(lock.acquire_async())
                await asyncio.sleep(0.05)
                refused = asyncio.create_task(lock.acquire_async())
                await asyncio.sleep(0)
                refused.cancel()
                with self.assertRaises((dlock.Already, asyncio.CancelledError)):
                    await refused
            await waiting
            lock.check()
            await lock.release_async()

        asyncio.run(main())

    def test_together(self):
        """two tasks that use a lock first, on a store that is not open, have one handle"""
        lock, outcomes = dlock.Lock("together", uri=URI + "&ttl=61s", timeout=10), []

        async def work():
            try:
                async with lock:
                    outcomes.append("held")
                    await asyncio.sleep(0.2)
            except dlock.Already:
                outcomes.append("already")

        async def main():
            await asyncio.gather(work(), work())

        def slow(uri, client=dlock._owner.shared_client):
            time.sleep(0.3)  # both threads are on the way to a handle
            return client(uri)

        with mock.patch("dlock._owner.shared_client", slow), \
                mock.patch("dlock._library.call", wraps=dlock._library.call) as calls:
            asyncio.run(main())
        self.assertEqual([call.args[0] for call in calls.call_args_list].count("dlock_new"), 1)
        self.assertTrue(dlock.Lock("together", timeout=10).acquire())
        self.assertIn(sorted(outcomes), (["already", "held"], ["held", "held"]))

    def test_opening(self):
        """the loop uses an open store while a thread opens another, which says nothing"""
        silent = Silent()

        async def main():
            async with dlock.Lock("opening"):
                pass
            opening = asyncio.create_task(dlock.Lock("x", uri=silent.uri).acquire_async())
            await asyncio.get_running_loop().run_in_executor(None, silent.accept)
            async with dlock.Lock("opening too"):
                self.assertFalse(opening.done())
            silent.close()
            with self.assertRaises(dlock.Error):
                await opening

        asyncio.run(main())

    def test_loop_ends_before_grant(self):
        """a loop that is closed withdraws its acquires, also if the tasks are kept"""
        for kept in (False, True):
            case = Ended(f"before:{kept}")
            case.loop.close()
            if not kept:
                case.drop()
            case.other.release()
            case.check()

    def test_loop_ends_after_grant(self):
        """a lock that is granted to a loop that is closed is released, also if the task is kept"""
        for kept in (False, True):
            case = Ended(f"after:{kept}")
            case.grant()
            case.loop.close()
            if not kept:
                case.drop()
            case.check()

    def test_loop_ends_beside(self):
        """a grant that another loop has taken, and its own has not seen, is released"""
        for kept in (False, True):
            case = Ended(f"beside:{kept}")
            case.grant()

            async def other():
                async with dlock.Lock("beside other", client=case.client):
                    pass

            asyncio.run(other())
            case.loop.close()
            if not kept:
                case.drop()
            case.check()

    def test_loop_ends_held(self):
        """a block that is collected after its loop unlocks, also while it renews, or by another loop"""
        async def work(lock, renews):
            async with lock:
                asyncio.get_running_loop().stop()
                if renews:
                    await lock.renew_async()
                await asyncio.sleep(3600)

        async def collects(case):
            case.drop()  # the unlock is begun in this loop, and cannot be awaited
            end = tap.Within(60)
            while True:
                try:
                    await case.lock.acquire_async()
                    return await case.lock.release_async()
                except dlock.Already:
                    end.check()
                    await asyncio.sleep(0.005)
                gc.collect()  # of the block, which the first collection has only ended

        for renews, elsewhere in ((False, False), (True, False), (False, True)):
            case = Ended(f"held:{renews}:{elsewhere}")
            case.other.release()
            case.loop.run_until_complete(case.task)
            case.loop.run_until_complete(case.lock.release_async())
            case.task = case.loop.create_task(work(case.lock, renews))
            case.loop.run_forever()  # until the block, or the renewal, has begun
            self.assertTrue(case.lock.held)
            with mock.patch("sys.unraisablehook", lambda _: None):
                with case.client.notices._mutex:  # no other thread takes the end of the renewal
                    case.loop.close()
                    if elsewhere:
                        asyncio.run(collects(case))
                    case.drop()
            case.check()

    def test_closed_coroutine(self):
        """a coroutine that is closed while it acquires withdraws, and the loop goes on"""
        case = Ended("coroutine")
        case.task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            case.loop.run_until_complete(case.task)

        async def main():
            work = case.lock.acquire_async()
            work.send(None)
            work.close()
            case.other.release()
            end = tap.Within(60)
            while case.client.stats()["waiting"] or case.client.stats()["held"]:
                end.check()
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)

        case.loop.run_until_complete(main())
        case.loop.close()
        case.check()

    def test_loops(self):
        """loops of two threads share a client, and each gets its own answers"""
        client, total = dlock.Client(URI), []

        async def work(name):
            for _ in range(20):
                async with dlock.Lock(name, client=client, timeout=60) as lock:
                    total.append((name, lock.fence))

        async def main():
            await asyncio.gather(work("loops"), work(threading.current_thread().name))

        threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()
        self.assertEqual((len(total), len(set(total))), (80, 80))

    def test_main_beside_loop(self):
        """waits of the main thread and of a loop in another thread share a client"""
        client, total = dlock.Client(URI), []

        async def work(number):
            for _ in range(20):
                async with dlock.Lock("beside main", client=client, timeout=60) as lock:
                    total.append(lock.fence)

        async def main():
            await asyncio.gather(*(work(number) for number in range(3)))

        thread = threading.Thread(target=lambda: asyncio.run(main()))
        thread.start()
        for _ in range(20):
            with dlock.Lock("beside main", client=client, timeout=60) as lock:
                total.append(lock.fence)
        thread.join()
        client.close()
        self.assertEqual((len(total), len(set(total))), (80, 80))

    def test_main_is_told(self):
        """the main thread knows at once that it has the lock, also if a loop's thread takes the notice"""
        client = dlock.Client(URI)

        async def waits():
            async with dlock.Lock("told by a loop", client=client, timeout=60):
                pass

        with dlock.Lock("told by a loop"):
            thread = threading.Thread(target=lambda: asyncio.run(waits()))
            thread.start()
            for _ in range(60):
                released, holder = [], dlock.Lock("told")
                holder.acquire()

                def release():
                    time.sleep(0.02)  # the main thread waits, most of the time
                    released.append(tap.Within(0.5))
                    holder.release()

                other = threading.Thread(target=release)
                other.start()
                with dlock.Lock("told", client=client, timeout=60):
                    released[0].check()
                other.join()
        thread.join()
        client.close()

    def test_closed(self):
        """a client that is closed ends the waits of its tasks"""
        async def main():
            client = dlock.Client(URI)
            async with dlock.Lock("closed"):
                waiting = asyncio.create_task(dlock.Lock("closed", client=client).acquire_async())
                await asyncio.sleep(0.05)
                client.close()
                with self.assertRaises(dlock.Error) as caught:
                    await waiting
                self.assertEqual(caught.exception.name, "CLOSED")

        asyncio.run(main())

    def test_store(self):
        """a store that is not there raises Unavailable, from the thread that opens it"""
        async def main():
            async with dlock.Lock("x", uri="redis://127.0.0.1:1"):
                pass

        with self.assertRaises(dlock.Unavailable):
            asyncio.run(main())

    def test_fork(self):
        """a lock that was used before a fork works in a loop of the child"""
        lock = dlock.Lock("forked", timeout=10)

        async def work():
            async with lock:
                return 0 if lock.fence else 1

        self.assertEqual(asyncio.run(work()), 0)
        child = os.fork()
        if child == 0:
            try:
                os._exit(asyncio.run(work()))
            finally:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(asyncio.run(work()), 0)


if __name__ == "__main__":
    tap.main()
