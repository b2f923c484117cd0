#!/bin/bash
# SPDX-License-Identifier: MIT
# Does dlock build without a preset, as IDEs, packagers and superprojects do, in CMake's build types
# with optimisation: without a warning with our compiler, and in spite of one with another?
#
#     test_build_types.sh SOURCE-DIR C-COMPILER
set -u
source_dir=$1 cc=$2
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"

# configured BUILD-TYPE [OPTION...]
configured() {
    cmake -S "$source_dir" -B "$tap_tmp/$1" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE="$1" \
        -DDLOCK_TESTS=OFF "${@:2}"
}

builds_without_a_warning() {
    configured "$1" -DDLOCK_WERROR=ON && ninja -C "$tap_tmp/$1" -j "$(nproc)"
}
warnings_are_no_errors() {
    configured None && ! grep -e -Werror "$tap_tmp/None/build.ninja"
}

check "a warning of another compiler stops nobody who builds dlock" warnings_are_no_errors
for type in Release RelWithDebInfo; do
    check "$type builds without a preset and without a warning" builds_without_a_warning "$type"
done
tap_end
