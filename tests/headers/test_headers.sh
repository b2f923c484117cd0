#!/bin/bash
# Does each header stand alone? The public ones in C11, C17 and C++17 with all warnings as errors
# and no feature macro; those of core and of plugins, which are ours, in C11.
#
# Does the example at the top of dlock.h compile, and work?
#
#     test_headers.sh SOURCE-DIR C-COMPILER LIBRARY DIRECTORY-OF-GENERATED-HEADERS
set -u
source_dir=$1 cc=$2 library=$3 generated=$4
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
cd "$source_dir" || exit 1

strict=(-Wall -Wextra -pedantic -Wconversion -Wundef -Werror)

# compiles HEADER LANGUAGE STANDARD OPTION...: included alone, and twice.
compiles() {
    local header=$1 language=$2 standard=$3
    shift 3
    printf '#include %s\n#include %s\nextern int not_empty;\n' "$header" "$header" |
        "$cc" -x "$language" -std="$standard" "${strict[@]}" -fsyntax-only "$@" -
}

for header in include/dlock/*.h; do
    name="<dlock/${header##*/}>"
    check "$name in C11" compiles "$name" c c11 -Iinclude -Wstrict-prototypes
    check "$name in C17" compiles "$name" c c17 -Iinclude -Wstrict-prototypes
    check "$name in C++17" compiles "$name" c++ c++17 -Iinclude
done
check "<dlock/dlock.hpp> in C++17" compiles "<dlock/dlock.hpp>" c++ c++17 -Iinclude -Wshadow
# entry_of LANGUAGE STANDARD: the symbol under which a module exports its descriptor.
entry_of() {
    "$cc" -x "$1" -std="$2" "${strict[@]}" -Iinclude -fvisibility=hidden -fPIC -c \
        -o "$tap_tmp/use.o" tests/headers/use_public.c &&
        nm --defined-only --extern-only "$tap_tmp/use.o" | awk '/plugin/ { print $3 }'
}

check "the headers' macros work in C11" same dlock_plugin "$(entry_of c c11 2>&1)"
check "the headers' macros work in C++17" same dlock_plugin "$(entry_of c++ c++17 2>&1)"
# The code in the first comment of dlock.h, from its #include to the brace of main.
sed -n '/^ \*     #include/,/^ \*     }$/s/^ \*     //p; /^#ifndef/q' include/dlock/dlock.h \
    >"$tap_tmp/example.c"

example_runs() {
    "$cc" -std=c11 "${strict[@]}" -Iinclude -o "$tap_tmp/example" "$tap_tmp/example.c" "$library" \
        -Wl,-rpath,"${library%/*}" &&
        same "step 1 step 2 step 3" "$("$tap_tmp/example" "sqlite://$tap_tmp/locks.db" | xargs)"
}

# Somebody else has the lock, or there is no such store: the example says so, and fails.
example_checks() {
    ! "$tap_tmp/example" "redis://127.0.0.1:1?wait=50ms" 2>"$tap_tmp/said" &&
        grep -q '^UNAVAILABLE: ' "$tap_tmp/said"
}

check "the example in dlock.h compiles and works" example_runs
check "the example in dlock.h checks its results" example_checks

read -ra drivers <<<"$(pkg-config --cflags libmariadb libpq)" # hiredis includes by its name
drivers=("${drivers[@]/#-I/-isystem}" -isystem "$generated") # not held to our warnings
for header in core/*/*.h plugins/*/*.h; do
    [ -e "$header" ] || continue
    check "$header in C11" compiles "\"$header\"" c c11 -D_GNU_SOURCE -Iinclude -Icore \
        -Iplugins -I. "${drivers[@]}"
done
tap_end
