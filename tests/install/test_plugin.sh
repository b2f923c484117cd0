#!/bin/bash
# SPDX-License-Identifier: MIT
# Can others add a store? Installs dlock into a new prefix, builds the example plugin that comes with
# it against nothing but that, and proves it: plugin.h's clauses by dlock-conformance, its own
# promises here.
#
#     test_plugin.sh SOURCE-DIR BUILD-DIR C-COMPILER
set -u
source_dir=$1 build_dir=$2 cc=$3
umask 022 # the loader refuses what a group may write
DLOCK_BIN=$build_dir/bin
# shellcheck source=tests/cli/kit.sh
. "$source_dir/tests/cli/kit.sh"
unset DLOCK_PLUGIN_PATH

check "cmake --install works" cmake --install "$build_dir" --prefix "$tap_tmp/prefix"
prefix=$tap_tmp/prefix dlock=$tap_tmp/prefix/bin/dlock
lib=$(dirname "$(find "$prefix" -name libdlock.so)")
export LD_LIBRARY_PATH=$lib PKG_CONFIG_PATH=$lib/pkgconfig
example=$(dirname "$(find "$prefix" -name lockdir.c)")

# --- building it ---

find_package_plugin() {
    cmake -S "$example" -B "$tap_tmp/plugin" -G Ninja -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_C_FLAGS=-Werror -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$tap_tmp/plugin"
}

pkg_config_plugin() {
    mkdir "$tap_tmp/by-hand" || return
    # shellcheck disable=SC2046
    "$cc" -std=c11 -D_GNU_SOURCE -shared -fPIC -fvisibility=hidden $(pkg-config --cflags dlock) \
        -o "$tap_tmp/by-hand/dlock_lockdir.so" "$example/lockdir.c" "$example/lockfile.c"
}

outside_programs() {
    local outside=$source_dir/tests/install/outside
    # shellcheck disable=SC2046
    "$cc" -std=c11 -D_GNU_SOURCE -o "$tap_tmp/forker" "$outside/forker.c" \
        $(pkg-config --cflags --libs dlock) || return
    # shellcheck disable=SC2046
    "$cc" -std=c11 -o "$tap_tmp/downgrade" "$outside/downgrade.c" \
        $(pkg-config --cflags --libs dlock) || return
    "$cc" -std=c11 -D_GNU_SOURCE -shared -fPIC -o "$tap_tmp/on_nfs.so" "$outside/on_nfs.c"
}

shown_with_its_capabilities() {
    "$dlock" backends | sed -n "\\,^$tap_tmp/$1/,,/caps/p" | grep 'caps *rwlock downgrade fence session$'
}

check "the example is installed" test -f "$example/CMakeLists.txt"
check "it builds through find_package" find_package_plugin
check "it builds through pkg-config" pkg_config_plugin
check "what the tests below use builds" outside_programs
export DLOCK_PLUGIN_PATH=$tap_tmp/by-hand
check "it loads as pkg-config built it" shown_with_its_capabilities by-hand
export DLOCK_PLUGIN_PATH=$tap_tmp/plugin
check "it loads as CMake built it" shown_with_its_capabilities plugin

# --- proving it ---

# What it does not do is skipped for these reasons, and for no other.
conformance() {
    "$prefix/bin/dlock-conformance" --slack 300 --expect RWLOCK,DOWNGRADE,FENCE,SESSION 'lockdir://{tmp}' >out ||
        { cat out; die "it fails"; }
    sed -n 's/.*# SKIP //p' out | grep -vE \
        '^no [A-Z_,]+$|^this store (cannot (list|break a lock)|has no probe)$|^leases live in sessions$|^a claim lasts from ping to ping|^a session a lock: ' &&
        die "a case is skipped for another reason"
    [ "$(grep -c '^ok' out)" -gt 60 ] || die "$(grep -c '^ok' out) cases"
}
shows "dlock-conformance is content with it" conformance

# A store of its own for the test that calls it: directory mode, then the URI's query.
new_store() {
    mkdir -m "${1-700}" locks
    export DLOCK_URI=lockdir://$PWD/locks${2-}
}

# hold NAME [OPTION...]: a background `dlock run`; its number is in $holder, its command's in `pid`.
hold() {
    local name=$1
    shift
    rm -f pid
    # shellcheck disable=SC2016
    "$dlock" run "$@" "$name" -- sh -c 'echo $$ >pid.new; mv pid.new pid; exec sleep 60' 2>hold.err &
    holder=$!
    within 20 test -e pid
}

kill_hold() {
    kill -KILL "$holder" "$(cat pid)"
    exit_of "$holder"
}

fence_of() {
    # shellcheck disable=SC2016
    "$dlock" run --nowait "$1" -- sh -c 'echo $DLOCK_FENCE'
}

excludes() {
    new_store
    hold x
    exits 75 "$dlock" run --nowait x -- true
    exits 75 "$dlock" run --nowait --shared x -- true
    exits 0 "$dlock" run --nowait y -- true
    exits 0 "$dlock" --json inspect x
    grep -q ":$holder" out || die "inspect does not show the process: $(cat out)"
    kill_hold
}
shows "[TRY-1] it excludes, and inspect says whom to ask" excludes

readers_share() {
    new_store
    hold x --shared
    exits 0 "$dlock" run --nowait --shared x -- "$dlock" --json inspect x
    equal 2 "$(grep -o '"owner"' out | wc -l)" "holders that inspect shows"
    equal 2 "$(grep -o '"shared"' out | wc -l)" "shared holders that inspect shows"
    exits 75 "$dlock" run --nowait x -- true
    kill_hold
    exits 0 "$dlock" run --nowait x -- true
}
shows "[TRY-1] readers share, and inspect shows each" readers_share

downgrades() {
    new_store
    exits 0 "$tap_tmp/downgrade" "$DLOCK_URI"
}
shows "[TRY-1] a writer that becomes a reader lets readers in, and no writer" downgrades

dies_with_its_process() {
    local first second third
    new_store
    first=$(fence_of x)
    hold x
    kill_hold
    second=$(fence_of x)
    rm locks/*
    third=$(fence_of x)
    [ "$first" -lt "$second" ] || die "after a death: fence $second after $first"
    [ "$second" -lt "$third" ] || die "after the file was removed: fence $third after $second"
}
shows "[SES-2] [TRY-6] the lock ends with its process, and the fence rises all the same" \
    dies_with_its_process

child_keeps_nothing() {
    local child
    new_store
    "$tap_tmp/forker" "$DLOCK_URI" >child || true
    child=$(cat child)
    alive "$child" || die "no child"
    exits 0 "$dlock" run --nowait x -- true
    alive "$child" || die "the child is gone"
    kill -KILL "$child"
}
shows "[CLS-1] a child of the dead holder does not keep the lock" child_keeps_nothing

removed_file() {
    new_store
    hold x --ttl 600ms
    rm locks/x
    exit_of "$holder"
    equal 70 "$code" "exit code of the holder ($(cat hold.err))"
}
shows "[REN-2] a removed file is a loss" removed_file

moved_directory() {
    new_store
    hold x --ttl 600ms
    mv locks elsewhere
    mkdir locks
    exits 0 "$dlock" run --nowait x -- true # the two exclude each other again from the loss on
    exit_of "$holder"
    equal 70 "$code" "exit code of the holder ($(cat hold.err))"
}
shows "[REN-2] a directory that was replaced is a loss" moved_directory

late() {
    "$dlock" --json inspect x >late.out && grep -qE '"remaining_ms": ?0\b' late.out
}

stopped_holder() {
    new_store
    hold x --ttl 600ms
    kill -STOP "$holder"
    within 20 late
    exits 75 "$dlock" run --nowait x -- true
    kill -CONT "$holder"
    exit_of "$holder"
    equal 70 "$code" "exit code of the holder ($(cat hold.err))"
    exits 0 "$dlock" run --nowait x -- true
}
shows "[C2] who is stopped keeps the name, and has lost the lock when he goes on" stopped_holder

# refused NAME WORDS: an error with this text, from run; inspect may answer what it likes.
refused() {
    local got=0
    exits 78 "$dlock" run --nowait "$1" -- true
    one_line "$2"
    timeout 20 "$dlock" inspect "$1" >out 2>err || got=$?
    [ "$got" -le 78 ] || die "inspect: exit code $got"
}

hostile_files() {
    new_store
    fence_of good
    for name in short long other wild linked; do
        cp -p locks/good "locks/$name"
    done
    truncate -s 20 locks/short
    refused short 'is no lock file'
    head -c 4096 /dev/urandom >locks/long
    refused long 'is no lock file'
    refused other 'is of another name'
    chmod 666 locks/wild
    refused wild 'others may not write'
    fence_of brimming
    printf '\377\377\377\377\377\377\377\377' | dd of=locks/brimming bs=1 seek=8 conv=notrunc
    refused brimming 'is no lock file'
    ln locks/linked locks/hard
    refused hard 'plain file'
    ln -s good locks/soft
    refused soft 'symbolic links'
    mkfifo locks/pipe
    refused pipe 'plain file'
    mkdir locks/directory
    refused directory 'directory'
    exits 0 "$dlock" run --nowait good -- true
}
shows "[OPN-1] what is no lock file is an error, and nothing worse" hostile_files

names_apart() {
    local stem a b
    new_store
    stem=$(printf 'n%.0s' {1..250})
    a=${stem}a b=${stem}b
    exits 0 "$dlock" run --nowait "$a" -- "$dlock" run --nowait "$b" -- true
    exits 0 "$dlock" run --nowait '../x' -- "$dlock" run --nowait '%2e%2e%2fx' -- true
    equal 4 "$(find locks -type f | wc -l)" "files"
    equal 4 "$(find . -type f ! -name out ! -name err | wc -l)" "files anywhere"
    # What would be if two long names met in their hashes.
    mapfile -t files < <(ls locks/n*)
    cp "${files[0]}" "${files[1]}"
    "$dlock" run --nowait "$a" -- true 2>>both || echo "$?" >>both
    "$dlock" run --nowait "$b" -- true 2>>both || echo "$?" >>both
    equal 1 "$(grep -c 'is of another name' both)" "refusals"
    equal 1 "$(grep -cx 78 both)" "exit codes of 78"
}
shows "[TRY-7] names keep apart, long ones too" names_apart

modes() {
    new_store 770
    (umask 077 && fence_of x)
    equal 660 "$(stat -c %a locks/x)" "mode in a group's directory"
    chmod 700 locks
    fence_of y
    equal 600 "$(stat -c %a locks/y)" "mode in a directory of one"
    chmod 777 locks
    refused x 'others may not write'
}
shows "[OPN-1] lock files are as private as their directory, which is not everybody's" modes

network() {
    new_store
    exits 78 env LD_PRELOAD="$tap_tmp/on_nfs.so" "$dlock" run x -- true
    one_line 'network file system'
    rmdir locks
    new_store 700 '?unsafe_network_fs=on'
    exits 0 env LD_PRELOAD="$tap_tmp/on_nfs.so" "$dlock" run x -- true
}
shows "[OPN-1] a network file system is refused unless it is accepted" network

uris() {
    new_store
    exits 64 "$dlock" -u "lockdir://host/x" run x -- true
    exits 64 "$dlock" -u "lockdir:" run x -- true
    exits 66 "$dlock" -u "lockdir://$PWD/none" run x -- true
    exits 78 "$dlock" -u "lockdir://$PWD/err" run x -- true
    exits 0 "$dlock" -u lockdir:locks run --nowait x -- "$dlock" inspect x
    exits 78 "$dlock" list
    one_line 'cannot list'
}
shows "[OPN-3] what is no directory is refused, and what it cannot do it says" uris
tap_end
