# SPDX-License-Identifier: MIT
"""`etcdctl lock` (Debian: etcd-client): a process takes the lock, says so and waits for a signal."""
import os
import shutil
import signal
import subprocess
import sys

import rival

if shutil.which("etcdctl") is None:
    rival.absent("etcd-client")

plan = rival.Plan()
command = ["etcdctl", "--endpoints=http://{BENCH_HOST}:{BENCH_PORT}".format(**os.environ), "lock"]
os.environ["ETCDCTL_API"] = "3"


def make(name):
    held = []

    def lock():
        held.append(subprocess.Popen(command + [name], stdout=subprocess.PIPE))
        return held[-1].stdout.readline() != b""

    def unlock():
        process = held.pop()
        process.send_signal(signal.SIGINT)
        process.communicate()

    return lock, unlock


rival.Crew(plan, make).run()
sys.stdout.flush()
os._exit(0)
