#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""by_kazoo.py SERVER PATH TURNS LOCK COMMAND...: runs COMMAND so many times, each time under a lock of
kazoo, in one session. LOCK is Lock, WriteLock, ReadLock, or Lock and the ends of names that are
contenders, too: "Lock,-lock-".

by_kazoo.py SERVER PATH TURNS children: waits until the node has TURNS children.

With GATE=FILE in the environment, its first turn waits for FILE, and FILE.PID says that it does.
"""
import os
import subprocess
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

server, path, turns, kind = sys.argv[1:5]
command = sys.argv[5:]


def children(client):
    try:
        return len(client.get_children(path))
    except NoNodeError:
        return 0


def await_children(client, wanted):
    end = time.monotonic() + 30
    while (count := children(client)) != wanted:
        if time.monotonic() > end:
            sys.exit("%s has %d children, not %d" % (path, count, wanted))
        time.sleep(0.02)


def await_gate():
    gate = os.environ.get("GATE")
    if gate:
        open("%s.%d" % (gate, os.getpid()), "w").close()
        while not os.path.exists(gate):
            time.sleep(0.002)


def take_turns(client):
    name, *patterns = kind.split(",")
    # Only Lock knows the option, and only kazoo of 2.7.1 and later.
    options = {"extra_lock_patterns": patterns} if patterns else {}
    lock = getattr(client, name)(path, "kazoo", **options)
    # A node that is no container: the servers do not delete it between two turns.
    client.ensure_path(path)
    await_gate()
    for _ in range(int(turns)):
        with lock:
            subprocess.run(command, check=True)


client = KazooClient(hosts=server)
client.start()
if kind == "children":
    await_children(client, int(turns))
else:
    take_turns(client)
client.stop()
