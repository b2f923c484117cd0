# SPDX-License-Identifier: MIT
"""A client process of dlock-torture for the locks of another library: see README.md."""
import os
import random
import signal
import struct
import sys
import threading
import time
import urllib.parse

INV_LOCK, RET_LOCK, INV_UNLOCK, RET_UNLOCK = 0, 3, 6, 7  # history.h
OK, TIMEOUT, LOST, UNKNOWN = 0, 2, 4, 6  # types.h
WAITS = 1
TIMEOUTS_MS = (0, 0, 0, 1, 20, 100, 500, 1000, 3000, 3000, 8000, 8000)


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Plan:
    """The words of the command line; crew.c gives the last nine."""

    def __init__(self):
        words = sys.argv[-9:]
        self.uri, self.directory, self.seed = words[0], words[1], words[2]
        self.ttl_ms, self.think_us = int(words[3]), int(words[4])
        self.number, self.generation = int(words[5]), int(words[6])
        self.threads, self.names = int(words[7]), int(words[8])
        self.op_timeout_ms = max(self.ttl_ms // 4, 250)  # that of dlock's clients

    def servers(self):
        """The (host, port) of each server of the URI, and the service; None without sentinels."""
        uri = urllib.parse.urlsplit(self.uri)
        servers = [host.rsplit(":", 1) for host in uri.netloc.split(",")]
        service = uri.path[1:] if uri.scheme == "redis+sentinel" else None
        return [(host, int(port)) for host, port in servers], service


class Log:
    """A file as log.h has it. Each record is there before the call that it tells of."""

    HEADER = struct.Struct("<QQQQ32x")
    RECORD = struct.Struct("<QqiiIBBHQQqIIQ")
    MAGIC = 0x31474F4C544C44
    RECORDS = 1 << 20

    def __init__(self, plan):
        path = "%s/client-%02d-%03d.log" % (plan.directory, plan.number, plan.generation)
        self.pid = plan.number * 100000 + plan.generation + 1  # member_number
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self.guard = threading.Lock()
        self.used, self.attempts = 0, 0
        os.ftruncate(self.file, self.HEADER.size + self.RECORDS * self.RECORD.size)
        self.header()

    def header(self):
        os.pwrite(self.file, self.HEADER.pack(self.MAGIC, self.RECORD.size, self.RECORDS, self.used), 0)

    def attempt(self):
        with self.guard:
            self.attempts += 1
            return self.pid << 40 | self.attempts

    def write(self, event, name, attempt, status=0, until_ns=0):
        with self.guard:
            place = self.HEADER.size + self.used * self.RECORD.size
            self.used += 1
            os.pwrite(self.file, self.RECORD.pack(
                self.used, now_ns(), self.pid, threading.get_native_id(), name, 0, event, status,
                attempt, 0, until_ns, 0, 0, 0), place)
            self.header()


class Actor:
    """A thread that takes, holds and gives back names as actor.c does."""

    def __init__(self, client, index):
        plan = client.plan
        self.client, self.plan, self.log = client, plan, client.log
        self.chance = random.Random("%s %d %d %d" % (plan.seed, plan.number, plan.generation, index))
        self.locks = [client.make("torture-%d" % name) for name in range(plan.names)]

    def think(self):
        most = 2 * self.plan.think_us / 1e6
        time.sleep(self.chance.uniform(0, 3 * most if self.chance.randrange(3) == 0 else most))

    def hold(self):
        ttl, way = self.plan.ttl_ms / 1e3, self.chance.randrange(1000)
        most = 500e-6 if way < 650 else 10e-3 if way < 960 else ttl / 5 if way < 995 else 2 * ttl
        time.sleep(self.chance.uniform(0, most))

    def take(self, name, attempt):
        """True: it has the name. The lease counts from before the request that got it."""
        limit_ns = now_ns() + self.chance.choice(TIMEOUTS_MS) * 1000000
        status, until_ns = None, 0
        self.log.write(INV_LOCK, name, attempt, WAITS)
        while status is None:
            sent_ns = now_ns()
            try:
                if self.locks[name].take():
                    status, until_ns = OK, sent_ns + self.plan.ttl_ms * 1000000
                elif now_ns() >= limit_ns or self.client.stopping():
                    status = TIMEOUT
                else:
                    time.sleep(self.client.pause_s)
            except self.client.errors:
                status = UNKNOWN
        self.log.write(RET_LOCK, name, attempt, status, until_ns)
        if status == UNKNOWN:
            time.sleep(self.client.pause_s)
        return status == OK

    def give(self, name, attempt):
        self.log.write(INV_UNLOCK, name, attempt)
        try:
            status = OK if self.locks[name].give() else LOST
        except self.client.errors:
            status = UNKNOWN
        self.log.write(RET_UNLOCK, name, attempt, status)

    def run(self):
        while not self.client.stopping():
            name = 0 if self.chance.randrange(2) == 0 else self.chance.randrange(self.plan.names)
            self.think()
            attempt = self.log.attempt()
            if self.take(name, attempt):
                self.hold()
                self.give(name, attempt)


class Client:
    """make(name): an object with take(), true if the name was free, and give(), false if the name was
    not held any more. Both raise one of `errors` if the outcome is not known. pause_s: between two
    requests for a name that is taken."""

    def __init__(self, plan, make, errors, pause_s):
        self.plan, self.make, self.errors, self.pause_s = plan, make, errors, pause_s
        self.leaving = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self.leaving.set())
        self.shared = os.open(plan.directory + "/shared", os.O_RDONLY)
        self.log = Log(plan)
        self.failed = []

    def stopping(self):
        """The first word of struct shared says that the run is over."""
        return self.leaving.is_set() or os.pread(self.shared, 4, 0) != bytes(4)

    def thread(self, index):
        try:
            Actor(self, index).run()
        except BaseException:
            self.failed.append(index)
            self.leaving.set()
            raise

    def run(self):
        threads = [threading.Thread(target=self.thread, args=(i,)) for i in range(self.plan.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.1)
        sys.exit(1 if self.failed else 0)
