# SPDX-License-Identifier: MIT
"""Lock of redis-py (Debian: python3-redis)."""
import os

import rival

try:
    import redis
except ImportError:
    rival.absent("python3-redis")

plan = rival.Plan()
client = redis.Redis(host=os.environ["BENCH_HOST"], port=int(os.environ["BENCH_PORT"]),
                     password=os.environ["BENCH_PASSWORD"] or None)


def make(name):
    lock = client.lock(name, timeout=30)
    return lock.acquire, lock.release


rival.Crew(plan, make).run()
