#!/bin/bash
# SPDX-License-Identifier: MIT
# Does an author of a plugin have what it takes? Installs dlock into a new prefix, and works with that
# alone: the example of a store with leases is built and passes its own tests, and the installed
# programs see the mistakes that are planted in it.
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
example=$(dirname "$(find "$prefix" -name tcplease.c)")

# green DIR: it builds against what is installed, and ctest passes both programs of the kit.
green() {
    cmake -S "$1" -B "$1/build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS=-Werror \
        -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$1/build" || return
    ctest --test-dir "$1/build" --output-on-failure >"$tap_tmp/out" 2>&1
    local status=$?
    cat "$tap_tmp/out"
    [ "$status" -eq 0 ] && grep -q '100% tests passed, 0 tests failed out of 2' "$tap_tmp/out"
}

copy_is_green() {
    cp -r "$example" "$tap_tmp/copy" && green "$tap_tmp/copy"
}
check "the installed example builds, and is green" copy_is_green

planted() {
    "$source_dir/tests/contract/slots/test_planted.sh" "$source_dir" "$example" "$prefix/bin" \
        "$prefix/include" "$cc" five
}
check "the five mistakes that dlock-conformance cannot see are seen" planted
tap_end
