#!/bin/bash
# SPDX-License-Identifier: MIT
# Do the Debian packages build, install, work and go without a trace? Builds them in a copy of the sources,
# and installs them in a copy of this system: an overlay whose changes are in memory. Needs root, and the
# packages of scripts/packages of the kind "packages". Takes minutes.
#
#     test_packages.sh SOURCE-DIR [DIRECTORY-OF-PACKAGES]
set -u
# A mount space of its own: what is mounted here goes with this program.
[ -n "${DLOCK_TEST_MOUNTS-}" ] || DLOCK_TEST_MOUNTS=own exec unshare --mount --propagation private "$0" "$@"
source_dir=$(realpath "$1")
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
root=$tap_tmp/root
trap 'umount -l "$root/dev" "$root/proc" "$root" "$tap_tmp/changes" 2>/dev/null; rm -rf --one-file-system "$tap_tmp"' EXIT # never into the /dev of this system
cd "$tap_tmp" || exit 1

builds() {
    mkdir -p "$tap_tmp/built/dlock" || return
    (cd "$source_dir" && git ls-files -co --exclude-standard | tar cf - -T -) | tar xf - -C "$tap_tmp/built/dlock"
    (cd "$tap_tmp/built/dlock" && dpkg-buildpackage -b -uc -us)
}
debs=${2-}
if [ -z "$debs" ]; then
    debs=$tap_tmp/built
    check "dpkg-buildpackage builds" builds
fi

versions_agree() {
    same "$(awk '/^#define DLOCK_VERSION_(MAJOR|MINOR|PATCH)/ { printf "%s%s", dot, $3; dot = "." }' \
        "$source_dir/include/dlock/version.h")" "$(dpkg-deb -f "$debs"/libdlock0_*.deb Version)"
}
all_are_there() {
    same "dlock dlock-testing libdlock-dev libdlock-etcd libdlock-mysql libdlock-postgresql libdlock-redis libdlock-zookeeper libdlock0 python3-dlock" \
        "$(cd "$debs" && printf '%s\n' *.deb | grep -v dbgsym | sed 's/_.*//' | LC_ALL=C sort | xargs)"
}
mapfile -t files < <(find "$debs" -maxdepth 1 -name '*.deb' ! -name '*dbgsym*')
check "their version is that of version.h" versions_agree
check "the ten packages are built" all_are_there
check "lintian finds no error" lintian --allow-root --fail-on error "${files[@]}"

makes_root() {
    mkdir -p "$root" "$tap_tmp/changes" && mount -t tmpfs none "$tap_tmp/changes" &&
        mkdir "$tap_tmp/changes/upper" "$tap_tmp/changes/work" &&
        mount -t overlay -o "lowerdir=/,upperdir=$tap_tmp/changes/upper,workdir=$tap_tmp/changes/work" overlay "$root" &&
        mount --bind /dev "$root/dev" && mount -t proc proc "$root/proc" && mkdir -p "$root/debs" && rm -rf "$root/var/lib/dlock" &&
        cp "${files[@]}" "$source_dir/examples/hello.c" "$tap_tmp/page.cpp" "$root/debs/"
}
inside() {
    env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 chroot "$root" bash -euc "$1"
}
listing() {
    (cd "$tap_tmp/changes/upper" && find . \( -name '*dlock*' -o -path '*dlock/*' \) ! -type c | grep -vE '^\./(debs|tmp)' | sort)
}
awk '/^```cpp$/ { here = 1; next } /^```$/ { here = 0 } here' "$source_dir/docs/bindings.md" >"$tap_tmp/page.cpp"
check "a root is made" makes_root
check "the packages install" inside 'dpkg -i /debs/*.deb'
check "dlock run runs a command" inside 'dlock run x -- true; test -e /var/lib/dlock/locks.db'
check "all stores are found" inside 'test $(dlock backends | grep -c "dlock/dlock_.*\.so") = 8'
check "a C program works" inside 'cc -o /tmp/c /debs/hello.c $(pkg-config --cflags --libs dlock); /tmp/c'
check "a C++ program works" inside 'c++ -std=c++17 -o /tmp/cpp /debs/page.cpp $(pkg-config --cflags --libs dlock); /tmp/cpp'
check "a Python program works" inside '/usr/bin/python3 -c "
import dlock
with dlock.Lock(\"nightly\", timeout=10) as l: print(l.fence); l.check()"'
check "dlock-conformance proves a Redis server" inside '
    redis-server --port 0 --unixsocket /tmp/r.sock --save "" --daemonize yes --pidfile /tmp/r.pid >/dev/null
    until redis-cli -s /tmp/r.sock ping; do sleep 0.1; done
    code=0; dlock-conformance --slack 600 --only C1 "redis+unix:///tmp/r.sock?restart_guard=0" || code=$?
    kill $(cat /tmp/r.pid); exit $code'
check "purge works" inside 'dpkg --purge python3-dlock dlock-testing dlock libdlock-dev libdlock-{redis,mysql,postgresql,etcd,zookeeper} libdlock0'
check "purge leaves nothing" same "" "$(listing)"
tap_end
