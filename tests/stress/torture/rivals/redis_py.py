# SPDX-License-Identifier: MIT
"""Locks on redis-py (Debian: python3-redis).

redis_py.py lock          its Lock
redis_py.py wait N        SET NX and WAIT in one pipeline, given back unless N replicas confirm
redis_py.py wait seen     the same for all replicas that INFO names; given back if none of them confirms,
                          and not if there is none: the rule of Redisson's locks
redis_py.py none          no lock at all: does the checker see?
"""
import sys
import uuid

import redis
import redis.sentinel

import rival

GIVE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class Lock:
    def __init__(self, client, name, plan):
        self.lock = client.lock(name, timeout=plan.ttl_ms / 1e3, blocking=False)

    def take(self):
        return self.lock.acquire()

    def give(self):
        try:
            self.lock.release()
        except redis.exceptions.LockNotOwnedError:
            return False
        return True


class Wait:
    def __init__(self, client, name, plan, replicas):
        self.client, self.name, self.replicas = client, name, replicas
        self.ttl_ms, self.wait_ms = plan.ttl_ms, plan.op_timeout_ms // 2
        self.token = None

    def wanted(self):
        """How many replicas are waited for, and how many of them have to confirm."""
        if self.replicas != "seen":
            return int(self.replicas), int(self.replicas)
        seen = self.client.info("replication")["connected_slaves"]
        return seen, min(seen, 1)

    def take(self):
        replicas, least = self.wanted()
        self.token = uuid.uuid4().hex
        pipeline = self.client.pipeline(transaction=False)
        pipeline.set(self.name, self.token, nx=True, px=self.ttl_ms)
        pipeline.execute_command("WAIT", replicas, self.wait_ms)
        taken, confirmed = pipeline.execute()
        if taken and confirmed < least:
            self.give()
            return False
        return bool(taken)

    def give(self):
        return self.client.eval(GIVE, 1, self.name, self.token) == 1


class Nothing:
    def take(self):
        return True

    def give(self):
        return True


def connect(plan):
    servers, service = plan.servers()
    timeout = plan.op_timeout_ms / 1e3
    if service is None:
        return redis.Redis(*servers[0], socket_timeout=timeout)
    sentinels = redis.sentinel.Sentinel(servers, socket_timeout=timeout)
    return sentinels.master_for(service, socket_timeout=timeout)


def main():
    plan, words = rival.Plan(), sys.argv[1:-9]
    client = connect(plan)
    kinds = {
        "lock": lambda name: Lock(client, name, plan),
        "wait": lambda name: Wait(client, name, plan, words[1]),
        "none": lambda name: Nothing(),
    }
    errors = (redis.exceptions.RedisError, OSError)
    rival.Client(plan, kinds[words[0]], errors, pause_s=0.1).run()


main()
