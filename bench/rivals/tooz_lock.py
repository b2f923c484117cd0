# SPDX-License-Identifier: MIT
"""Locks of tooz (Debian: python3-tooz, python3-redis, python3-pymysql,
python3-psycopg2): redis, mysql, postgresql or file."""
import os
import sys

import rival

try:
    from tooz import coordination
except ImportError:
    rival.absent("python3-tooz")

plan = rival.Plan()
driver = sys.argv[1]
place = os.environ
urls = {
    "redis": "redis://{BENCH_HOST}:{BENCH_PORT}?timeout=30",
    "mysql": "mysql://{BENCH_USER}:{BENCH_PASSWORD}@{BENCH_HOST}:{BENCH_PORT}/{BENCH_DATABASE}",
    "postgresql": "postgresql://{BENCH_USER}:{BENCH_PASSWORD}@{BENCH_HOST}:{BENCH_PORT}/{BENCH_DATABASE}",
    "file": "file://{BENCH_FILE}-tooz",
}


def coordinator(member):
    made = coordination.get_coordinator(urls[driver].format(**place), member)
    made.start(start_heart=False)
    return made


try:
    shared = coordinator(b"member")
except ModuleNotFoundError as missing:  # of the driver
    rival.absent("python3-" + missing.name)
made = [shared]


def make(name):
    # GET_LOCK and advisory locks belong to a connection, and so do the coordinator's locks there.
    if plan.workers > 1 and driver != "redis":
        made.append(coordinator(b"member-%d" % len(made)))
    lock = made[-1].get_lock(name.encode())
    return lock.acquire, lock.release


rival.Crew(plan, make).run()
sys.stdout.flush()
os._exit(0)
