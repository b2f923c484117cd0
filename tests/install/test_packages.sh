#!/bin/bash
# SPDX-License-Identifier: MIT
# Do the Debian packages build, install, upgrade, work and go without a trace? Builds them in a copy of the
# sources, and installs them by apt in a root of their own: "copy", an overlay of this system whose changes are in
# memory, or "empty", this version of Debian by mmdebstrap with apt and nothing else, whose packages come from the network.
# Needs root, and the packages of scripts/packages of the kind "packages". Takes minutes.
#
#     test_packages.sh SOURCE-DIR [copy|empty [DIRECTORY-OF-PACKAGES]]
set -u
# A mount space of its own: what is mounted here goes with this program.
[ -n "${DLOCK_TEST_MOUNTS-}" ] || DLOCK_TEST_MOUNTS=own exec unshare --mount --propagation private "$0" "$@"
source_dir=$(realpath "$1") kind=${2-copy}
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
# shellcheck source=scripts/lib.sh
. "$source_dir/scripts/lib.sh"
root=$tap_tmp/root
trap 'umount -l "$root/dev" "$root/proc" "$root" "$tap_tmp/changes" 2>/dev/null; rm -rf --one-file-system "$tap_tmp"' EXIT # never into the /dev of this system
cd "$tap_tmp" || exit 1

builds() {
    mkdir -p "$tap_tmp/built/dlock" || return
    (cd "$source_dir" && git ls-files -co --exclude-standard | tar cf - -T -) | tar xf - -C "$tap_tmp/built/dlock"
    (cd "$tap_tmp/built/dlock" && git init -q && git add -A && dpkg-buildpackage -b -uc -us)
}
leaves_nothing_for_git() {
    same "" "$(cd "$tap_tmp/built/dlock" && git ls-files --others --modified --exclude-standard)"
}
debs=${3-}
if [ -z "$debs" ]; then
    debs=$tap_tmp/built
    check "dpkg-buildpackage builds" builds
    [ "$tap_failures" -eq 0 ] || tap_end
    check "git sees no file of it" leaves_nothing_for_git
fi

versions_agree() {
    same "$(awk '/^#define DLOCK_VERSION_(MAJOR|MINOR|PATCH)/ { printf "%s%s", dot, $3; dot = "." }' \
        "$source_dir/include/dlock/version.h")" "$(dpkg-deb -f "$debs"/libdlock0_*.deb Version)"
}
all_are_there() {
    same "dlock dlock-testing libdlock-dev libdlock-etcd libdlock-mysql libdlock-postgresql libdlock-redis libdlock-zookeeper libdlock0 python3-dlock" \
        "$(cd "$debs" && printf '%s\n' *.deb | grep -v dbgsym | sed 's/_.*//' | LC_ALL=C sort | xargs)"
}
copy_is_named() { dpkg-deb -f "$debs"/libdlock-zookeeper_*.deb Static-Built-Using | grep '^zookeeper (= '; }
mapfile -t files < <(find "$debs" -maxdepth 1 -name '*.deb' ! -name '*dbgsym*')
check "their version is that of version.h" versions_agree
check "the ten packages are built" all_are_there
check "the copy of libzookeeper_st in a plugin is named" copy_is_named
check "lintian finds no error" lintian --allow-root --fail-on error "${files[@]}"

changed=$tap_tmp/changes/upper
copy_of_this_system() {
    mkdir -p "$tap_tmp/changes" && mount -t tmpfs none "$tap_tmp/changes" && mkdir "$changed" "$tap_tmp/changes/work" &&
        mount -t overlay -o "lowerdir=/,upperdir=$changed,workdir=$tap_tmp/changes/work" overlay "$root" &&
        mount_devices "$root" && rm -rf "$root/var/lib/dlock"
}
empty_debian() {
    changed=$root
    mmdebstrap --quiet --variant=apt "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" && mount_devices "$root" && cp /etc/resolv.conf "$root/etc/resolv.conf" &&
        inside 'apt-get update -q'
}
makes_root() {
    mkdir -p "$root" && case $kind in
    copy) copy_of_this_system ;;
    empty) empty_debian ;;
    *) echo "'$kind': want copy or empty" && return 1 ;;
    esac && mkdir -p "$root/debs/old" && cp "${files[@]}" "$source_dir/examples/hello.c" "$tap_tmp/page.cpp" "$root/debs/"
}
# The same packages as those of a version before.
makes_old_packages() {
    local file old=$tap_tmp/old
    for file in "${files[@]}"; do
        rm -rf "$old" && dpkg-deb -R "$file" "$old" &&
            sed -i -E "s/^Version: .*/Version: 0.0.1/; s/(libdlock0) \\((=|>=) [0-9.]+\\)/\\1 (\\2 0.0.1)/g" "$old/DEBIAN/control" &&
            dpkg-deb --root-owner-group -b "$old" "$root/debs/old/$(basename "$file")" || return
    done
}
makes_package_of_another_architecture() {
    local other=$tap_tmp/other
    dpkg-deb -R "$debs"/libdlock0_*.deb "$other" &&
        sed -i -E 's/^Architecture: .*/Architecture: i386/; /^(Pre-)?Depends: /d' "$other/DEBIAN/control" &&
        dpkg-deb --root-owner-group -b "$other" "$root/debs/other.deb"
}
inside() {
    env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 chroot "$root" bash -euc "$1"
}
listing() {
    (cd "$changed" && find . -xdev \( -path ./proc -o -path ./dev \) -prune -o \( -name '*dlock*' -o -path '*dlock/*' \) ! -type c -print |
        grep -vE '^\./(debs|tmp)|/(landlock|padlock)\.' | sort)
}
awk '/^```cpp$/ { here = 1; next } /^```$/ { here = 0 } here' "$source_dir/docs/bindings.md" >"$tap_tmp/page.cpp"
check "a root is made" makes_root
check "there are packages of a version before" makes_old_packages
check "they install" inside 'apt-get install -q -y --no-install-recommends /debs/old/*.deb'
check "they take a lock" inside 'dlock acquire --ttl 1h kept >/debs/token'
check "apt upgrades them" inside 'apt-get install -q -y --no-install-recommends /debs/*.deb; dpkg -s dlock | grep "^Version: [^0]*0.[1-9]"'
check "the lock of before the upgrade is held" inside 'dlock inspect kept; ! dlock run --nowait kept -- true; dlock break --yes kept'
check "dlock run runs a command" inside 'dlock run x -- true; test -e /var/lib/dlock/locks.db'
check "all stores are found" inside 'test $(dlock backends | grep -c "dlock/dlock_.*\.so") = 8'
[ "$kind" = copy ] || check "compilers and a Redis server can be had" inside \
    'apt-get install -q -y --no-install-recommends gcc g++ libc6-dev pkgconf redis-server'
check "a C program works" inside 'cc -o /tmp/c /debs/hello.c $(pkg-config --cflags --libs dlock); /tmp/c'
check "a C++ program works" inside 'c++ -std=c++17 -o /tmp/cpp /debs/page.cpp $(pkg-config --cflags --libs dlock); /tmp/cpp'
check "a Python program works" inside '/usr/bin/python3 -c "
import dlock
with dlock.Lock(\"nightly\", timeout=10) as l: print(l.fence); l.check()"'
check "the package for Python has its page and its types" inside '
    grep -q "^# " /usr/share/doc/python3-dlock/bindings.md; test -e /usr/lib/python3/dist-packages/dlock/py.typed'
check "dlock-conformance proves a Redis server, in all cases" inside '
    port=$(/usr/bin/python3 -c "import socket; s = socket.create_server((\"127.0.0.1\", 0)); print(s.getsockname()[1])")
    redis-server --bind 127.0.0.1 --port $port --save "" --daemonize yes --pidfile /tmp/r.pid >/dev/null
    until redis-cli -p $port ping; do sleep 0.1; done
    code=0; dlock-conformance --slack 600 "redis://127.0.0.1:$port?restart_guard=0" >/tmp/out || code=$?
    kill $(cat /tmp/r.pid); grep -v "^ok" /tmp/out | tail -n 60; test "$(grep -c "^ok" /tmp/out)" -gt 130; exit $code'
check "dlock-bench measures" inside 'dlock-bench --quiet --rounds 1 --duration 200ms --workload run --workload alone --limits'
check "no link of an installed page is dead" "$source_dir/tests/docs/links.sh" "$root/usr/share/doc/dlock"
check "there is a package of another architecture" makes_package_of_another_architecture
check "its purge leaves the store to the library that stays" inside 'dpkg --add-architecture i386
    dpkg -i /debs/other.deb; dpkg --purge libdlock0:i386; test -e /var/lib/dlock/locks.db; dpkg --remove-architecture i386'
check "purge works" inside 'dpkg --purge python3-dlock dlock-testing dlock libdlock-dev libdlock-{redis,mysql,postgresql,etcd,zookeeper} libdlock0'
check "purge leaves nothing" same "" "$(listing)"
tap_end
