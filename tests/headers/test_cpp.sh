#!/bin/bash
# SPDX-License-Identifier: MIT
# Does dlock.hpp work with the standard library's locks, in C++17 and C++20? Does the C++ program of
# docs/bindings.md compile, and do what the page says?
#
#     test_cpp.sh SOURCE-DIR C++-COMPILER LIBRARY SANITIZER PROGRAM
#
# PROGRAM: the dlock command. SANITIZER: as DLOCK_SANITIZE.
set -u
source_dir=$1 cxx=$2 library=$3 sanitizer=$4 dlock=$5
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
unset DLOCK_URI
flags=(-Wall -Wextra -pedantic -Wconversion -Wundef -Wshadow -Werror "-I$source_dir/include")
[ -z "$sanitizer" ] || flags+=("-fsanitize=$sanitizer" -g)

# builds STANDARD SOURCE
builds() {
    "$cxx" "-std=$1" "${flags[@]}" -o "$tap_tmp/$1" "$2" "$library" -Wl,-rpath,"${library%/*}" -pthread
}

# One test for each line of the program, which ends with its plan.
results() {
    local line plan='' seen=0
    while read -r line; do
        case $line in
        'ok '* | 'not ok '*)
            seen=$((seen + 1))
            check "${line#*- } ($1)" test "${line#ok }" != "$line"
            ;;
        1..*) plan=${line#1..} ;;
        esac
    done < <("$tap_tmp/c++17" "$1" 2>"$tap_tmp/said"; echo "status $?" >>"$tap_tmp/said")
    check "the program ends well ($1)" same "$seen, status 0" "$plan, $(tail -n 1 "$tap_tmp/said")"
}

check "it compiles in C++20" builds c++20 "$source_dir/tests/headers/use_cpp.cpp"
check "it compiles in C++17" builds c++17 "$source_dir/tests/headers/use_cpp.cpp"
results memory://cpp
results "sqlite://$tap_tmp/locks.db"

awk '/^```cpp$/ { here = 1; next } /^```$/ { here = 0 } here' "$source_dir/docs/bindings.md" >"$tap_tmp/page.cpp"

page_works() {
    builds c++17 "$tap_tmp/page.cpp" || return
    same "page 1 page 2 page 3" "$("$tap_tmp/c++17" "sqlite://$tap_tmp/page.db" | sed 's/,.*//' | xargs)"
}
page_waits_for_the_lock() {
    sed 's/seconds(10)/milliseconds(50)/' "$tap_tmp/page.cpp" >"$tap_tmp/short.cpp"
    builds c++17 "$tap_tmp/short.cpp" || return
    "$dlock" -u "sqlite://$tap_tmp/page.db" run nightly-report -- "$tap_tmp/c++17" "sqlite://$tap_tmp/page.db"
    same 75 $?
}
check "the program of docs/bindings.md works" page_works
check "it says that another job has the lock" page_waits_for_the_lock
tap_end
