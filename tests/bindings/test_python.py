# SPDX-License-Identifier: MIT
"""Does the Python package dlock do what its texts say, also beside forks, threads and signals?

    test_python.py SOURCE-DIR C-COMPILER REDIS-PORT
"""

import _thread
import copy
import ctypes
import gc
import inspect
import math
import multiprocessing
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import typing
import unittest
import unittest.mock

import dlock
import tap
from dlock import _attempt, _errors, _library

SOURCE, COMPILER, PORT = sys.argv[1:4]
FOLDER = tempfile.TemporaryDirectory()
REDIS = f"redis://127.0.0.1:{PORT}?restart_guard=0"  # SQLite cannot be used in a process and in its fork
URI = f"sqlite://{FOLDER.name}/locks.db"
os.environ["DLOCK_URI"] = URI


def in_child(work):
    """Runs work in a forked child. Returns its text, or the name of what it raised."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(work())
        except BaseException as error:
            text = type(error).__name__
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def until(condition):
    end = tap.Within(30)
    while not condition():
        end.check()
        time.sleep(0.005)


class Locks(unittest.TestCase):
    def test_on_expiry(self):
        """a lock may end the process at the end of its lease, and does not after the unlock (C25)"""
        with self.assertRaises(ValueError):
            dlock.Lock("expiry", on_expiry="die")
        with dlock.Lock("expiry", on_expiry="kill", ttl=0.3, timeout=10) as lock:
            self.assertTrue(lock.held)
        time.sleep(0.4)

    def test_with(self):
        """a with block holds the lock, and unlocks at its end"""
        with dlock.Lock("with", timeout=10) as lock:
            first = lock.fence
            self.assertTrue(lock.held)
            self.assertEqual(lock.state, dlock.HELD)
            self.assertGreater(lock.remaining, 0)
            self.assertRegex(lock.token, "^[0-9a-f]{32}$")
            lock.check()
        self.assertEqual(lock.state, dlock.FREE)
        with dlock.Lock("with") as lock:
            self.assertGreater(lock.fence, first)

    def test_excluded(self):
        """another owner gets Busy at once, and Timeout after its timeout"""
        with dlock.Lock("excluded"):
            other = dlock.Lock("excluded", timeout=0)
            self.assertRaises(dlock.Busy, other.acquire)
            self.assertFalse(other.try_acquire())
            start = time.monotonic()
            with self.assertRaises(TimeoutError) as caught:
                other.acquire(timeout=0.2)
            self.assertGreater(time.monotonic() - start, 0.19)
            self.assertEqual((caught.exception.name, caught.exception.status), ("TIMEOUT", 2))
        self.assertTrue(other.try_acquire())
        other.release()

    def test_slow_try(self):
        """an acquire whose first try takes all of its time is a Timeout, too, and not Busy"""
        functions = _library.functions_of("dlock_")
        acquire = functions.acquire

        def slow(*arguments):
            acquire(*arguments)
            time.sleep(0.02)

        with dlock.Lock("slow"), unittest.mock.patch.object(functions, "acquire", slow):
            self.assertRaises(dlock.Timeout, dlock.Lock("slow").acquire, 0.01)

    def test_not_held(self):
        """check, release and renew of a free lock raise NotHeld; a second acquire raises Already"""
        lock = dlock.Lock("free")
        for call in (lock.check, lock.release, lock.renew):
            self.assertRaises(dlock.NotHeld, call)
        with lock:
            self.assertRaises(dlock.Already, lock.acquire)
            self.assertTrue(lock.held)

    def test_lost(self):
        """check raises Lost after a loss, and so does the end of the block"""
        client = dlock.Client(URI)
        with self.assertRaises(dlock.Lost):
            with dlock.Lock("lost", client=client) as lock:
                client.break_lock("lost")
                self.assertRaises(dlock.Lost, lock.renew)
                self.assertRaises(dlock.Lost, lock.check)
        self.assertEqual(lock.state, dlock.FREE)
        with self.assertRaises(ZeroDivisionError):  # not hidden by the loss
            with lock:
                client.break_lock("lost")
                self.assertRaises(dlock.Lost, lock.renew)
                raise ZeroDivisionError

    def test_options(self):
        """ttl, label and uri reach the store; inspect shows the holder"""
        client = dlock.Client(URI)
        with dlock.Lock("options", ttl=60, label="job 7", client=client) as lock:
            self.assertGreater(lock.remaining, 40)
            holder, = client.inspect("options")
            self.assertEqual((holder.owner, holder.fence), (lock.token, lock.fence))
            self.assertIn("job 7", holder.label)
            self.assertFalse(holder.shared)
            self.assertEqual(holder.data, b"")
            lock.renew(ttl=120)
            self.assertGreater(lock.remaining, 80)
        self.assertEqual(client.inspect("options"), [])
        with dlock.Lock("options", data=b"http://h\0\xff", client=client):
            self.assertEqual(client.inspect("options")[0].data, b"http://h\0\xff")
        self.assertRaises(dlock.Error, dlock.Lock("options", data="x" * 1025).acquire)
        lock = dlock.Lock("max", max_hold=0.2, ttl=60).acquire()
        until(lambda: lock.state == dlock.LOST)
        self.assertRaises(dlock.Lost, lock.release)

    def test_stats(self):
        """stats counts acquires, unlocks and losses; metrics writes them with labels"""
        with dlock.Client(URI) as client:
            with dlock.Lock("job:1", client=client):
                self.assertEqual(client.stats()["held"], 1)
            with self.assertRaises(dlock.Lost):
                with dlock.Lock("job:1", client=client):
                    client.break_lock("job:1")
            stats = client.stats()
            self.assertEqual(stats["acquisitions"], {"OK": 2})
            self.assertEqual(stats["unlocks"], {"OK": 1, "LOST": 1})
            self.assertEqual(stats["losses"], {"taken": 1})
            self.assertEqual((stats["held"], stats["waits"][0], stats["holds"][0]), (0, 2, 2))
            text = client.metrics(job="x\"y")
            self.assertIn('dlock_losses_total{job="x\\"y",class="job",reason="taken"} 1\n', text)
            self.assertTrue(text.endswith("# EOF\n"))
            self.assertRaises(dlock.Error, client.metrics, le="1")

    def test_shared(self):
        """readers share, a writer is kept out, a downgrade lets readers in"""
        with dlock.Lock("table", shared=True), dlock.Lock("table", shared=True, timeout=5):
            self.assertFalse(dlock.Lock("table").try_acquire())
        with dlock.Lock("table", timeout=5) as writer:
            writer.downgrade()
            self.assertTrue(dlock.Lock("table", shared=True).try_acquire())

    def test_names(self):
        """a name may be bytes; an empty name raises Error"""
        with dlock.Lock(b"\x00\xff"):
            self.assertFalse(dlock.Lock(b"\x00\xff").try_acquire())
        with self.assertRaises(dlock.Error) as caught:
            dlock.Lock("").acquire()
        self.assertEqual(caught.exception.name, "INVALID")
        for name in (5, None, ["a"], 1.5, bytearray(b"a")):
            self.assertRaises(TypeError, dlock.Lock, name)
            self.assertRaises(TypeError, dlock.Client(URI).inspect, name)
            self.assertRaises(TypeError, dlock.LockSet, [name])
        self.assertRaises(TypeError, dlock.LockSet, "ab")
        self.assertRaises(TypeError, dlock.Lock, "x", data=5)

    def test_times(self):
        """a time that makes no sense raises ValueError; inf waits forever, and so does 1e300"""
        for timeout in (-1, -0.001, math.nan, -math.inf):
            self.assertRaises(ValueError, dlock.Lock, "times", timeout=timeout)
            self.assertRaises(ValueError, dlock.Lock("times").acquire, timeout)
        for seconds in (0, -1, math.nan, math.inf):
            self.assertRaises(ValueError, dlock.Lock, "times", ttl=seconds)
            self.assertRaises(ValueError, dlock.Lock, "times", max_hold=seconds)
        with self.assertRaises(dlock.Error) as caught:
            dlock.Lock("times", ttl=1e17).acquire()
        self.assertEqual(caught.exception.name, "INVALID")
        for timeout in (math.inf, 1e300):
            holder = dlock.Lock("times").acquire()
            releaser = threading.Timer(0.05, holder.release)
            releaser.start()
            with dlock.Lock("times", timeout=timeout):
                releaser.join()

    def test_copies(self):
        """a copy, or what was pickled, is an owner of its own, and holds nothing"""
        with dlock.Lock("copies", timeout=0, ttl=77, label="a", data=b"\xff") as lock:
            for other in (copy.copy(lock), copy.deepcopy(lock), pickle.loads(pickle.dumps(lock))):
                self.assertEqual((other.name, other.held), ("copies", False))
                self.assertRaises(dlock.Busy, other.acquire)
                self.assertRaises(dlock.NotHeld, other.release)
                del other
                gc.collect()
                self.assertTrue(lock.held)
        with pickle.loads(pickle.dumps(dlock.Lock("copies", ttl=77))) as other:
            self.assertGreater(other.remaining, 50)
        with dlock.Client(URI) as client:
            self.assertRaises(TypeError, pickle.dumps, client)
            self.assertRaises(TypeError, copy.copy, client)
            self.assertRaises(TypeError, pickle.dumps, dlock.Lock("copies", client=client))
            with copy.copy(dlock.Lock("copies", client=client)):
                self.assertEqual(client.stats()["held"], 1)

    def test_store(self):
        """a store that is not there raises Unavailable, and a wrong URI Error"""
        with self.assertRaises(dlock.Unavailable):
            dlock.Lock("x", uri="redis://127.0.0.1:1", timeout=0).acquire()
        with self.assertRaises(dlock.Error) as caught:
            dlock.Client("nothing://x")
        self.assertIn("unknown scheme", str(caught.exception))

    def test_collected(self):
        """a lock that is collected unlocks"""
        lock = dlock.Lock("collected").acquire()
        del lock
        gc.collect()
        self.assertTrue(dlock.Lock("collected").try_acquire())

    def test_closed_client(self):
        """a closed client unlocks, and its locks raise CLOSED"""
        with dlock.Client(URI) as client:
            lock = dlock.Lock("closed", client=client).acquire()
        self.assertTrue(dlock.Lock("closed").try_acquire())
        with self.assertRaises(dlock.Error) as caught:
            lock.acquire(0)
        self.assertEqual(caught.exception.name, "CLOSED")

    def test_with_acquire(self):
        """`with lock.acquire():` holds the lock, and leaves nothing held"""
        lock = dlock.Lock("acquire")
        with lock.acquire() as inside:
            self.assertIs(inside, lock)
            self.assertTrue(lock.held)
            self.assertRaises(dlock.Already, lock.acquire)
            with self.assertRaises(dlock.Already):
                with lock:
                    pass
            self.assertTrue(lock.held)
        self.assertFalse(lock.held)
        with self.assertRaises(ZeroDivisionError):
            with lock.acquire(timeout=1):
                raise ZeroDivisionError
        self.assertTrue(dlock.Lock("acquire").try_acquire())

    def test_acquired_is_held(self):
        """what acquire returned is for one block, which never runs without the lock"""
        lock = dlock.Lock("stale")

        def has_no_block(acquired, kind):
            with self.assertRaises(kind):
                with acquired:
                    self.fail("the block runs")

        acquired = lock.acquire()
        lock.release()
        has_no_block(acquired, dlock.NotHeld)
        acquired = lock.acquire()
        with acquired:
            has_no_block(acquired, dlock.NotHeld)
        has_no_block(acquired, dlock.NotHeld)
        with lock:
            has_no_block(acquired, dlock.NotHeld)
            self.assertTrue(lock.held)
        acquired = lock.acquire()
        with dlock.Client() as client:
            client.break_lock("stale")
        self.assertRaises(dlock.Lost, lock.renew)
        has_no_block(acquired, dlock.Lost)
        lock.acquire().release()

    def test_says_who(self):
        """Busy and Timeout say who holds the lock"""
        with dlock.Lock("who", label="job 7") as lock:
            for timeout, kind in ((0, dlock.Busy), (0.05, dlock.Timeout)):
                with self.assertRaisesRegex(kind, f"held by .*:{os.getpid()}.*:job 7") as caught:
                    dlock.Lock("who").acquire(timeout)
                self.assertEqual([each.owner for each in caught.exception.holders], [lock.token])
            self.assertRaisesRegex(dlock.Busy, "job 7", dlock.LockSet(["free", "who"]).acquire, 0)

    def test_hierarchy(self):
        """exceptions are those of the standard library, have public names, and can be pickled"""
        for kind, base in ((dlock.Timeout, TimeoutError), (dlock.Unavailable, ConnectionError),
                           (dlock.NoQuorum, dlock.Unavailable), (dlock.Busy, BlockingIOError),
                           (dlock.Refused, PermissionError), (dlock.Invalid, ValueError),
                           (dlock.NotHeld, RuntimeError), (dlock.NoStore, FileNotFoundError),
                           (dlock.Unsupported, NotImplementedError), (dlock.NoMemory, MemoryError)):
            self.assertTrue(issubclass(kind, base) and issubclass(kind, dlock.Error))
        for error in [kind() for kind in _errors.CLASSES.values()] + [dlock.Error("x", 10)]:
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), again.status, again.name, str(again)),
                             (type(error), error.status, error.name, str(error)))
        for name in dlock.__all__:
            self.assertEqual(getattr(getattr(dlock, name), "__module__", "dlock"), "dlock")

    def test_semaphore(self):
        """a semaphore has permits, and lets no more owners in"""
        first, second = dlock.Semaphore("seats", 2), dlock.Semaphore("seats", 2)
        with first, second:
            self.assertEqual({first.permit, second.permit}, {0, 1})
            self.assertFalse(dlock.Semaphore("seats", 2).try_acquire())
            self.assertEqual({each.permit for each in dlock.Client(URI).inspect("seats")}, {0, 1})
            self.assertEqual(copy.copy(first)._options.limit, 2)
        self.assertRaises(dlock.Invalid, dlock.Semaphore("seats", 5000).acquire)
        self.assertRaises(ValueError, dlock.Semaphore, "seats", 0)  # it would be a lock

    def test_set(self):
        """a set holds all of its names or none, in any order"""
        with dlock.LockSet(["b", "a"], timeout=5) as both:
            names = {each.name for each in dlock.Client(URI).list()}
            self.assertLessEqual({b"a", b"b"}, names)
            self.assertEqual([each.name for each in dlock.Client(URI).list("a")], [b"a"])
            for index, name in enumerate(("b", "a")):
                self.assertEqual(dlock.Client(URI).inspect(name)[0].fence, both.fences[index])
                self.assertFalse(dlock.Lock(name).try_acquire())
            both.check()
            both.renew()
            self.assertGreater(both.remaining, 0)
        self.assertEqual(both.state, dlock.FREE)
        with dlock.Lock("b"):
            self.assertRaises(dlock.Timeout, both.acquire, 0.1)
            self.assertTrue(dlock.Lock("a").try_acquire())
        with pickle.loads(pickle.dumps(both)), self.assertRaises(dlock.Busy):
            both.acquire(0)

    def test_kept(self):
        """a kept name stays taken after the release, by nobody"""
        client = dlock.Client(URI)
        with dlock.Lock("kept", keep=60):
            pass
        self.assertTrue(client.inspect("kept")[0].kept)
        self.assertFalse(dlock.Lock("kept").try_acquire())
        with dlock.Lock("kept here") as lock:
            lock.keep(60)
        self.assertFalse(dlock.Lock("kept here").try_acquire())
        with dlock.Lock("kept not", keep=60) as lock:
            lock.keep(0)
        self.assertTrue(dlock.Lock("kept not").try_acquire())

    def test_observe(self):
        """observe returns the next holder, none after a release, and Timeout if nothing changed"""
        client, lock = dlock.Client(URI), dlock.Lock("observed", data="here")
        self.assertRaises(dlock.Timeout, client.observe, "observed", timeout=0.05)
        timer = threading.Timer(0.1, lock.acquire)
        timer.start()
        holder, = client.observe("observed")
        timer.join()
        self.assertEqual((holder.fence, holder.data), (lock.fence, b"here"))
        self.assertRaises(dlock.Timeout, client.observe, "observed", lock.fence, 1.2)
        lock.release()
        self.assertEqual(client.observe("observed", holder.fence), [])

    def test_waiters(self):
        """waiters are listed in the order in which they are served"""
        client = dlock.Client(REDIS)
        with dlock.Lock("queue", uri=REDIS) as lock:
            threads = []
            for label in ("first", "second"):
                other = dlock.Lock("queue", client=dlock.Client(REDIS), label=label)
                threads.append(threading.Thread(target=lambda other=other: other.acquire().release()))
                threads[-1].start()
                until(lambda: len(client.waiters("queue")) == len(threads))
            found = client.waiters("queue")
            self.assertEqual([each.position for each in found], [0, 1])
            self.assertEqual([each.label[-6:] for each in found], [":first", "second"])
            lock.check()
        for thread in threads:
            thread.join()

    def test_cancel(self):
        """cancel ends the wait of another thread"""
        lock, raised = dlock.Lock("cancel"), []

        def waits():
            try:
                lock.acquire()
            except dlock.Canceled as error:
                raised.append(error.name)

        with dlock.Lock("cancel"):
            thread = threading.Thread(target=waits)
            thread.start()
            until(lambda: lock._pointer is not None)
            lock.cancel()
            thread.join()
        self.assertEqual(raised, ["CANCELED"])

    def test_adopt(self):
        """a lease is taken over by its token"""
        program = ("import dlock, os\nlock = dlock.Lock('adopted', end='ttl')\nlock.acquire()\n"
                   "print(lock.token, flush=True)\nos._exit(0)")
        token = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                               check=True).stdout.strip()
        lock = dlock.Lock("adopted")
        self.assertFalse(lock.try_acquire())
        lock.adopt(token)
        self.assertEqual(lock.token, token)
        lock.release()
        self.assertRaises(dlock.NotHeld, lock.adopt, token)

    def test_no_store(self):
        """create=False raises NoStore for a store that does not exist"""
        self.assertRaises(dlock.NoStore, dlock.Client, f"sqlite://{FOLDER.name}/none.db", create=False)


class Processes(unittest.TestCase):
    def test_made_before_fork(self):
        """a lock made before a fork works in the child, as in the workers of gunicorn"""
        lock = dlock.Lock("preloaded", timeout=10, uri=REDIS)
        with lock:
            pass

        def work():
            with lock:
                return lock.fence

        first, second = int(in_child(work)), int(in_child(work))
        self.assertLess(first, second)
        with lock:
            self.assertGreater(lock.fence, second)

    def test_fork_while_opening(self):
        """a fork while a thread opens the store of a lock: the child can use the lock"""
        listener = socket.create_server(("127.0.0.1", 0))
        lock, raised = dlock.Lock("opening", timeout=10), []

        def opens():
            try:
                lock.acquire()
            except dlock.Error as error:
                raised.append(error)

        def uses():
            signal.alarm(30)
            os.environ["DLOCK_URI"] = REDIS
            with lock:
                return lock.held

        os.environ["DLOCK_URI"] = f"redis://127.0.0.1:{listener.getsockname()[1]}?op_timeout=20s"
        try:
            thread = threading.Thread(target=opens)
            thread.start()
            connection = listener.accept()[0]
            self.assertEqual(in_child(uses), "True")
        finally:
            os.environ["DLOCK_URI"] = URI
        listener.close()
        connection.close()
        thread.join()
        self.assertEqual(len(raised), 1)

    def test_held_across_fork(self):
        """a lock held across a fork is the parent's: the child has NotHeld and Forked"""
        with dlock.Lock("forked", uri=REDIS) as lock:
            self.assertEqual(in_child(lock.check), "NotHeld")
            self.assertEqual(in_child(lock.release), "Forked")
            self.assertEqual(in_child(lambda: lock.state), "free")
            self.assertEqual(in_child(lambda: lock.acquire(0)), "Busy")
            self.assertEqual(in_child(dlock.Client(REDIS).close), "None")
            lock.check()
            lock.renew()

    def test_child_exits(self):
        """what runs at the exit of a child leaves the parent's lock alone"""
        with dlock.Lock("exit") as lock:
            def leave():
                dlock._client._close_all()
                lock.__del__()

            self.assertEqual(in_child(leave), "None")
            lock.renew()

    def test_sqlite_after_fork(self):
        """SQLite says that it was used before the fork; without such a use the child may use it"""
        program = ("import dlock, os, sys\n"
                   "lock = dlock.Lock('x')\n"
                   "if len(sys.argv) > 1: lock.acquire().release()\n"
                   "child = os.fork()\n"
                   "if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
                   "try: lock.acquire().release()\n"
                   "except dlock.Forked: os._exit(7)\n")
        codes = [subprocess.run([sys.executable, "-c", program] + more, check=False).returncode
                 for more in ([], ["used"])]
        self.assertEqual(codes, [0, 7])

    def test_threads(self):
        """threads with a lock each exclude each other"""
        inside, together, total = [], [], []

        def work():
            for _ in range(10):
                with dlock.Lock("threads", timeout=60):
                    inside.append(1)
                    together.append(len(inside))
                    total.append(1)
                    inside.pop()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((max(together), len(total)), (1, 40))

    def test_interrupt(self):
        """SIGINT ends a wait of the main thread, and the lock is not taken"""
        program = ("import dlock, sys\n"
                   "print('waiting', flush=True)\n"
                   "try: dlock.Lock('int').acquire()\n"
                   "except KeyboardInterrupt: print('interrupted')\n")
        client = dlock.Client(URI)
        with dlock.Lock("int", client=client):
            child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                                     text=True)
            child.stdout.readline()
            until(lambda: client.inspect("int")[0].waiters)
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.communicate(timeout=60)[0], "interrupted\n")
        self.assertTrue(dlock.Lock("int").try_acquire())

    def test_interrupts(self):
        """1,000 interrupts of the main thread at random moments, some of them twice: nothing is held"""
        for rounds, owner in ((1000, "Lock('interrupts'"), (200, "LockSet(['interrupts']")):
            said = subprocess.run([sys.executable, "-c", INTERRUPTS, str(rounds), owner],
                                  stdout=subprocess.PIPE, text=True, check=True,
                                  timeout=120).stdout.split()
            self.assertEqual(said, [str(rounds), "left=0"])

    def test_without_a_thread(self):
        """an acquire of a lock makes no thread, also if it waits; that of a set does if it waits"""
        made, make = [], _thread.start_new_thread
        _attempt._thread = types.SimpleNamespace(
            allocate_lock=_thread.allocate_lock,
            start_new_thread=lambda *arguments: made.append(1) or make(*arguments))
        try:
            with dlock.Lock("threadless", timeout=10) as lock:
                self.assertRaises(dlock.Timeout, dlock.Lock("threadless").acquire, 0.05)
                with dlock.LockSet(["threadless 2"]):
                    self.assertEqual(made, [])
                self.assertRaises(dlock.Timeout, dlock.LockSet(["threadless"]).acquire, 0.05)
                self.assertEqual(made, [1])
                self.assertTrue(lock.held)
        finally:
            _attempt._thread = _thread

    def test_spawned(self):
        """a lock goes to a process that multiprocessing spawns"""
        lock = dlock.Lock("spawned", timeout=0, uri=URI)  # the child makes a folder of its own
        context = multiprocessing.get_context("spawn")
        with lock, context.Pool(1) as pool:
            self.assertFalse(pool.apply(dlock.Lock.try_acquire, (lock,)))
        with context.Pool(1) as pool:
            self.assertTrue(pool.apply(dlock.Lock.try_acquire, (lock,)))


    def test_signal_at_an_opening(self):
        """the handler of a signal ends the opening of a store that does not answer"""
        class Interrupt(BaseException):
            pass

        def interrupt(*_):
            raise Interrupt

        old = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, old)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            for owner in dlock.Client, lambda uri: dlock.Lock("opening", uri=uri).acquire():
                end = tap.Within(10)
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                self.assertRaises(Interrupt, owner, f"redis://127.0.0.1:{silent.getsockname()[1]}?connect_timeout=60s")
                end.check()

    def test_signal_at_a_look(self):
        """the handler of a signal may raise while inspect, list and waiters wait for the store"""
        class Interrupt(BaseException):
            pass

        def interrupt(*_):
            raise Interrupt

        old = signal.signal(signal.SIGALRM, interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, old)
        with dlock.Client(REDIS) as client, dlock.Lock("look", client=client), \
                socket.create_connection(("127.0.0.1", int(PORT))) as server:
            for look in client.inspect, client.list, client.waiters:
                server.sendall(b"CLIENT PAUSE 300\r\n")
                self.assertEqual(server.recv(100), b"+OK\r\n")
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                self.assertRaises(Interrupt, look, "look")
            self.assertEqual(len(client.inspect("look")), 1)


# Each round is interrupted at a random moment, and again soon after. The holder comes and goes: an
# acquire has to wait or not. Prints how many rounds were interrupted, and how many left the lock.
INTERRUPTS = """
import _thread, dlock, random, signal, sys, threading, time

class Interrupt(BaseException): pass

def interrupt(*_):
    global interrupted
    if armed:
        interrupted = True
        raise Interrupt

def holder():
    lock = dlock.Lock("interrupts", client=dlock.Client())
    while not stop:
        if busy:
            with lock: time.sleep(random.random() * 0.003)
        time.sleep(random.random() * 0.003)

armed = interrupted = stop = busy = False
left = count = 0
signal.signal(signal.SIGALRM, interrupt)
thread = threading.Thread(target=holder)
thread.start()
client = dlock.Client()
while count < int(sys.argv[1]):
    busy = count % 2 == 1
    lock, got, interrupted = eval("dlock." + sys.argv[2] + ", client=client)"), False, False
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.random() * (0.006 if busy else 0.0003) + 1e-6,
                         random.choice((0, 0.0002)))
        lock.acquire(5)
        got = True
        armed = False
    except Interrupt:
        armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    count += interrupted
    if got:
        lock.release()
    end = time.monotonic() + 30  # a set that was interrupted twice is undone by its thread, soon
    while _thread._count() > 1 and time.monotonic() < end:
        time.sleep(0.001)
    left += client.stats()["held"]
stop = True
thread.join()
print(count, f"left={left}")
"""


class Layout(unittest.TestCase):
    def test_structures(self):
        """structures have the sizes and offsets that the C compiler gives them"""
        structures = {"dlock_error": _library.Error, "dlock_options": _library.Options,
                      "dlock_client_options": _library.ClientOptions,
                      "dlock_holder": _library.Holder, "dlock_notice": _library.Notice,
                      "dlock_waiter": _library.Waiter, "dlock_stats": _library.Stats}
        lines, wanted = [], []
        for name, structure in structures.items():
            for field, _ in structure._fields_:
                lines.append(f'printf("{name}.{field} %zu\\n", offsetof(struct {name}, {field}));')
                wanted.append(f"{name}.{field} {getattr(structure, field).offset}")
        source = ("#include <dlock/metrics.h>\n#include <stdio.h>\nint main(void) {"
                  + "\n".join(lines) + "}")
        program = f"{FOLDER.name}/layout"
        subprocess.run([COMPILER, "-x", "c", f"-I{SOURCE}/include", "-o", program, "-"],
                       input=source, text=True, check=True)
        said = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(said.splitlines(), wanted)

    def test_types(self):
        """what the package has in public is annotated, as py.typed says"""
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(dlock.__file__), "py.typed")))
        for kind in (dlock.Lock, dlock.Semaphore, dlock.LockSet, dlock.Client):
            for name, member in inspect.getmembers(kind):
                function = member.fget if isinstance(member, property) else member
                if isinstance(function, types.FunctionType) and not name.startswith("_"):
                    hints = typing.get_type_hints(function)
                    self.assertIn("return", hints, f"{kind.__name__}.{name}")
                    wanted = set(inspect.signature(function).parameters) - {"self"}
                    self.assertLessEqual(wanted, set(hints), f"{kind.__name__}.{name}")

    def test_constants(self):
        """states and statuses are those of the C headers"""
        names = {each.status: each(str()).name for each in
                 (dlock.Busy, dlock.Timeout, dlock.Lost, dlock.NotHeld, dlock.Unknown,
                  dlock.Unavailable, dlock.Already, dlock.Forked)}
        with open(f"{SOURCE}/include/dlock/types.h", encoding="utf-8") as header:
            statuses = dict(re.findall(r"X\((\w+), (\d+), [A-Z]+, ", header.read()))
        for status, name in names.items():
            self.assertEqual(int(statuses[name]), status)
        self.assertEqual(ctypes.sizeof(ctypes.c_bool), 1)


if __name__ == "__main__":
    tap.main()
