# SPDX-License-Identifier: MIT
"""Does `async with dlock.Lock(...)` lock without a thread, and does a cancelled task leave nothing?

    test_asyncio.py SOURCE-DIR REDIS-PORT
"""

import asyncio
import os
import random
import re
import subprocess
import sys
import threading
import unittest

import dlock
import tap

SOURCE, PORT = sys.argv[1:3]
URI = f"redis://127.0.0.1:{PORT}?restart_guard=0"
os.environ["DLOCK_URI"] = URI


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

    def test_page(self):
        """the asyncio program of docs/bindings.md works"""
        with open(f"{SOURCE}/docs/bindings.md", encoding="utf-8") as page:
            code = re.findall("```python\n(.*?)```", page.read(), re.S)[1]
        said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
        self.assertEqual(sorted(re.findall("page .", said)), ["page 1", "page 2", "page 3"])


if __name__ == "__main__":
    tap.main()
