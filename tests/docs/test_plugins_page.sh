#!/bin/bash
# SPDX-License-Identifier: MIT
# Is docs/plugins.md true? Its fragments are those of the examples that tests/install builds, and it
# tells of every slot and capability, by clauses that plugin.h has. Part one is free of what only some
# plugins do.
#
#     test_plugins_page.sh SOURCE-DIR
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
cd "$1" || exit 1
page=docs/plugins.md header=include/dlock/plugin.h
example=$(cat examples/plugin-lockdir/{lockdir.c,lockfile.c,lockfile.h,CMakeLists.txt}
    cat examples/plugin-tcplease/{tcplease.c,link.c,link.h})

# A file a fragment.
awk -v dir="$tap_tmp" '/^```$/ { in_code = 0 }
    in_code { print >(dir "/fragment-" n) }
    /^```(c|cmake)$/ { in_code = 1; n++ }' "$page"
fragments=("$tap_tmp"/fragment-*)

fragments_are_the_examples() {
    local file bad=0
    for file in "${fragments[@]}"; do
        [[ $example == *"$(cat "$file")"* ]] && continue
        echo "not in examples/:"
        cat "$file"
        bad=1
    done
    return "$bad"
}

# on_the_page WORD...: each stands there as code.
on_the_page() {
    local word bad=0
    for word in "$@"; do
        grep -qF "\`$word\`" "$page" && continue
        echo "$word"
        bad=1
    done
    return "$bad"
}

mapfile -t slots < <(sed -n '/^struct dlock_backend_ops {/,/^};/p' "$header" |
    grep -oE '\(\*[a-z_]+\)\(' | tr -d '(*)')
mapfile -t caps < <(sed -nE 's/^#define (DLOCK_CAP_[A-Z_]+) +DLOCK_BIT.*/\1/p' include/dlock/types.h)

clauses_exist() {
    ! grep -oE '\[[A-Z]{3}-[0-9]+\]' "$page" | sort -u | grep -vxFf \
        <(grep -oE '\[[A-Z]{3}-[0-9]+\]' "$header")
}

part_one_is_for_every_plugin() {
    sed -n '/^# Part one/,/^# Part two/p' "$page" >"$tap_tmp/one"
    [ "$(wc -l <"$tap_tmp/one")" -gt 200 ] && ! grep -nE \
        '^- `(lock|watch|wait_any|trylock_batch|dequeue|interrupt|forget|list_waiters|server_of)|DLOCK_CAP_(NATIVE_WAIT|WATCH|QUEUE|SESSION|CONCURRENT|TETHERED|LIMIT|KEEP|FAILOVER_SAFE)|\[(LCK|WAT|ANY|BAT|INT|DEQ|FGT|SES|TET|LIM|KEP|SRV|STG|FAI-3)' \
        "$tap_tmp/one" | grep -v 'dlock-slot-check\|does each call end by its deadline\|is a late answer nobody'
}

check "the page has fragments" test "${#fragments[@]}" -ge 10
check "each of them is in the example, line for line" fragments_are_the_examples
check "plugin.h has slots" test "${#slots[@]}" -ge 14
check "the page tells of each of them" on_the_page "${slots[@]}"
check "types.h has capabilities" test "${#caps[@]}" -ge 11
check "the page tells of each of them" on_the_page "${caps[@]}"
check "the page names clauses that plugin.h has" clauses_exist
check "part one has nothing of part two" part_one_is_for_every_plugin
tap_end
