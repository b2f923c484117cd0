#!/bin/bash
# SPDX-License-Identifier: MIT
# Tests: cli/cmd_new_plugin.c
# Does an author of a plugin have what it takes? Installs dlock into a new prefix, and works with that
# alone: the example of a store with leases is built, the tree of `dlock new-plugin`, which is that example under
# another name, is built and passes its own tests, and the installed programs see the mistakes that are planted in
# the example.
#
#     test_kit.sh SOURCE-DIR BUILD-DIR C-COMPILER
set -u
umask 022 # the loader refuses what a group may write
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
source_dir=$1 build_dir=$2 cc=$3
unset DLOCK_PLUGIN_PATH

check "cmake --install works" cmake --install "$build_dir" --prefix "$tap_tmp/prefix"
prefix=$tap_tmp/prefix
example=$(dirname "$(find "$prefix/share/doc" -name tcplease.c)")

# builds DIR: against what is installed.
builds() {
    cmake -S "$1" -B "$1/build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS=-Werror \
        -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$1/build"
}

# green DIR: it builds, and ctest passes both programs of the kit.
green() {
    builds "$1" || return
    ctest --test-dir "$1/build" -j 2 --output-on-failure >"$tap_tmp/out" 2>&1
    local status=$?
    cat "$tap_tmp/out"
    [ "$status" -eq 0 ] && grep -q '100% tests passed, 0 tests failed out of 2' "$tap_tmp/out"
}

copy_builds() {
    cp -r "$example" "$tap_tmp/copy" && builds "$tap_tmp/copy"
}
check "the installed example builds" copy_builds

# The tree of `dlock new-plugin`, renamed in all its files.
new_plugin() {
    "$prefix/bin/dlock" new-plugin mystore "$tap_tmp/mystore" >"$tap_tmp/out" || return
    cat "$tap_tmp/out"
    ! grep -ril tcplease "$tap_tmp/mystore" && [ -f "$tap_tmp/mystore/mystore.c" ] &&
        green "$tap_tmp/mystore" || return
    DLOCK_PLUGIN_PATH=$tap_tmp/mystore/build "$prefix/bin/dlock" backends | grep -A3 "mystore/build/dlock_mystore.so"
}
check "dlock new-plugin makes a tree that builds, and is green" new_plugin

# So the example is green, too.
is_the_example() {
    local file count=0
    for file in "$example"/*; do
        [ "${file##*/}" != README.md ] || continue # its links go elsewhere
        sed -e 's/tcplease/mystore/g' -e 's/TCPLEASE/MYSTORE/g' "$file" |
            diff - "$tap_tmp/mystore/$(basename "$file" | sed s/tcplease/mystore/)" || return
        count=$((count + 1))
    done
    [ "$count" -ge 5 ]
}
check "and it is the example, under another name" is_the_example

refuses() { # refuses WORDS ARGUMENT...: 64, and says that
    local status=0 words=$1
    shift
    (cd "$tap_tmp" && "$prefix/bin/dlock" new-plugin "$@") >"$tap_tmp/out" 2>&1 || status=$?
    cat "$tap_tmp/out"
    same 64 "$status" && grep -qF -e "$words" "$tap_tmp/out"
}
check "it refuses what is no name" refuses "is no name of a plugin" My-Store
check "and the name of a store that there is" refuses "comes with dlock" redis
check "and a directory that is there" refuses "is there already" other "$tap_tmp/mystore"
check "and no name at all" refuses "wants NAME"

without_the_kit() {
    local status=0
    mv "$prefix/bin/dlock-new-plugin" "$tap_tmp/away"
    "$prefix/bin/dlock" new-plugin other "$tap_tmp/other" >"$tap_tmp/out" 2>&1 || status=$?
    mv "$tap_tmp/away" "$prefix/bin/dlock-new-plugin"
    cat "$tap_tmp/out"
    same 127 "$status" && grep -q '^dlock: cannot execute .*/bin/dlock-new-plugin: .*dlock-testing' "$tap_tmp/out"
}
check "without the kit it says where that is" without_the_kit

planted() {
    "$source_dir/tests/contract/slots/test_planted.sh" "$source_dir" "$example" "$prefix/bin" \
        "$prefix/include" "$cc" five
}
check "the five mistakes that dlock-conformance cannot see are seen" planted
tap_end
