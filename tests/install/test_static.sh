#!/bin/bash
# SPDX-License-Identifier: MIT
# Does -DDLOCK_STATIC_PLUGINS=ON make a command and a library that need no file of dlock beside them? Builds
# them with the store sqlite, and nothing else of the project; then they are alone in a directory.
#
#     test_static.sh SOURCE-DIR C-COMPILER
set -u
source_dir=$1 cc=$2
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
unset DLOCK_PLUGIN_PATH DLOCK_URI LD_LIBRARY_PATH
prefix=$tap_tmp/prefix
export DLOCK_URI=sqlite://$tap_tmp/locks.db

builds() {
    cmake -S "$source_dir" -B "$tap_tmp/build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DDLOCK_TESTS=OFF \
        -DDLOCK_PLUGINS=sqlite -DDLOCK_STATIC_PLUGINS=ON >/dev/null &&
        ninja -C "$tap_tmp/build" --quiet dlock_cli dlock_static_archive &&
        cmake --install "$tap_tmp/build" --prefix "$prefix" --component static &&
        cp "$tap_tmp/build/bin/dlock" "$prefix" && rm -r "$tap_tmp/build"
}
check "the command and the library build with sqlite alone" builds
lib=$(dirname "$(find "$prefix" -name libdlock_static.a)")
export PKG_CONFIG_PATH=$lib/pkgconfig

runs() {
    "$prefix/dlock" run x -- sh -c 'test "$DLOCK_FENCE" -ge 1' && ! ldd "$prefix/dlock" | grep dlock
}
lists() {
    "$prefix/dlock" backends | grep -qx built-in/sqlite
}
says_what_is_missing() {
    "$prefix/dlock" -u redis://localhost run x -- true
    same 69 $? && grep -q "dlock_redis.so is not installed; the Debian package libdlock-redis has it (looked in no directory" "$tap_tmp/log"
}
check "the command runs without libdlock.so" runs
check "it says that the plugin is built-in" lists
check "it names a store that is not" says_what_is_missing

# links OPTION...: examples/hello.c.
links() {
    # shellcheck disable=SC2046
    "$cc" "$@" -I"$source_dir/include" -o "$tap_tmp/hello" "$source_dir/examples/hello.c" \
        $(pkg-config "${@/#-static/--static}" --libs dlock-static) && "$tap_tmp/hello"
}
needs_nothing() {
    links -static && ! readelf -lW "$tap_tmp/hello" | grep -E 'INTERP|NEEDED'
}
exports_the_headers() {
    same "$(awk 'NR > 1 && $1 !~ /^DLOCK/ { sub("@.*", "", $1); print $1 }' "$source_dir/tests/headers/libdlock0.symbols")" \
        "$(nm -g --defined-only "$lib/libdlock_static.a" | awk 'NF == 3 { print $3 }' | LC_ALL=C sort)"
}
check "a program links the library" links
check "a program needs no shared library at all" needs_nothing
check "the library takes no other name of the program" exports_the_headers
tap_end
