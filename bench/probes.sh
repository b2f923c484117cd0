#!/bin/bash
# SPDX-License-Identifier: MIT
# What do the static probes (core/sys/probe.h) cost while nobody traces? Builds the library with and without them, and
# counts by callgrind (Debian: valgrind) the instructions of a lock and its unlock of a free name in the store memory,
# with its three probes acquire_start, granted and unlock. Any machine may be busy meanwhile.
#
#     bench/probes.sh
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d "${TMPDIR:-/tmp}/dlock-probes.XXXXXX")
trap 'rm -rf "$work"' EXIT

cat >"$work/pairs.c" <<'END'
#include <dlock/dlock.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;

    if (argc != 2 || dlock_client_open("memory://probes", NULL, &client, NULL) != DLOCK_OK ||
        dlock_new(client, "job", 3, NULL, &lock, NULL) != DLOCK_OK)
        return 1;
    for (int left = atoi(argv[1]); left > 0; left--)
        if (dlock_trylock(lock, NULL) != DLOCK_OK || dlock_unlock(lock, NULL) != DLOCK_OK)
            return 1;
    dlock_free(lock);
    dlock_client_close(client);
    return 0;
}
END

# instructions BUILD PAIRS
instructions() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$work/$1/pairs" "$2" 2>&1 | sed -n 's/.*Collected : //p'
}

for probes in ON OFF; do
    cmake --preset release -B "$work/$probes" -DDLOCK_TESTS=OFF -DDLOCK_BENCH=OFF -DDLOCK_PLUGINS=memory \
        -DDLOCK_PROBES="$probes" >/dev/null
    ninja -C "$work/$probes" --quiet dlock dlock_plugin_memory
    found=$(readelf -n "$work/$probes/lib/libdlock.so" | grep -c 'Provider: dlock' || true)
    cc -o "$work/$probes/pairs" -Iinclude "$work/pairs.c" -L"$work/$probes/lib" -ldlock -Wl,-rpath,"$work/$probes/lib"
    few=$(instructions "$probes" 1000)
    many=$(instructions "$probes" 21000)
    awk -v probes="$probes" -v found="$found" -v n="$((many - few))" \
        'BEGIN { printf "DLOCK_PROBES=%s: %d places, %.1f instructions a pair\n", probes, found, n / 20000 }'
done
