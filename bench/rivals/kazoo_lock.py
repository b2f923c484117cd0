# SPDX-License-Identifier: MIT
"""Lock of kazoo (Debian: python3-kazoo)."""
import os
import sys

import rival

try:
    from kazoo.client import KazooClient
except ImportError:
    rival.absent("python3-kazoo")

plan = rival.Plan()


def client():
    made = KazooClient(hosts=os.environ["BENCH_NODES"])
    made.start()
    return made


shared = client()


def make(name):
    # Contenders for one name have a session each, as programs of their own have.
    lock = (client() if plan.one_name else shared).Lock("/rivals/" + name)
    return lock.acquire, lock.release


rival.Crew(plan, make).run()
sys.stdout.flush()
os._exit(0)
