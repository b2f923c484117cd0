#!/bin/bash
# SPDX-License-Identifier: MIT
# Can another project have dlock as a part, by add_subdirectory and by FetchContent: with the targets that
# find_package gives it (test_install.sh), and without our tests, benchmarks, errors and files?
#
#     test_subproject.sh SOURCE-DIR C-COMPILER
set -u
source_dir=$1 cc=$2
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
unset DLOCK_PLUGIN_PATH DLOCK_URI

archive_is_made() {
    tar cf "$tap_tmp/dlock.tar" -C "$source_dir" --exclude=./build --exclude='./build-*' --exclude=./.git \
        --transform='s,^\.,dlock,' .
}

# builds NAME SOURCES [CMAKE-OPTION...]
builds() {
    cmake -S "$source_dir/tests/install/outside" -B "$tap_tmp/$1" -G Ninja -DCMAKE_C_COMPILER="$cc" \
        -DDLOCK_SOURCES="$2" '-DDLOCK_PLUGINS=memory;sqlite' "${@:3}" &&
        ninja -C "$tap_tmp/$1" -j "$(nproc)"
}

has_nothing_of_ours() {
    ! grep -E -e '-Werror|^build [^:]*(bin/|test_|bench)' "$tap_tmp/$1/build.ninja"
}

installs() {
    cmake --install "$tap_tmp/$1" --prefix "$tap_tmp/$1-installed" &&
        same "$2" "$(cd "$tap_tmp/$1-installed" && find . -type f | sed 's,^\./,,' | grep -xE "$3" | sort | xargs)"
}

check "an archive is made" archive_is_made
for way in "add_subdirectory $source_dir" "FetchContent $tap_tmp/dlock.tar"; do
    read -r name sources <<<"$way"
    check "$name: a program and a plugin are built" builds "$name" "$sources"
    check "$name: the program locks in the memory" "$tap_tmp/$name/consumer" memory://outside
    check "$name: the program locks in a file" "$tap_tmp/$name/consumer" "sqlite://$tap_tmp/$name.db"
    check "$name: no test, no benchmark, no program, no error for a warning" has_nothing_of_ours "$name"
    check "$name: the project installs its own files alone" installs "$name" bin/consumer '.*'
done
check "the project may want all" builds all "$tap_tmp/dlock.tar" -DDLOCK_INSTALL=ON
check "then it installs dlock, too" installs all "bin/consumer bin/dlock lib/dlock/dlock_sqlite.so" \
    'bin/(consumer|dlock)|lib/(.*/)?dlock/dlock_sqlite\.so'
tap_end
