#!/bin/bash
# Is each proof that docs/guarantees.md names there, and does it claim that clause? Is each
# conformance case on the page under each of its clauses?
#
#     test_guarantees.sh SOURCE-DIR CONFORMANCE-PROGRAM
set -u
source_dir=$1 conformance=$2
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
cd "$source_dir" || exit 1

# A line a proof: clause, or name of the store, and what proves it.
awk '/^### / { clause = $2 }
     /^Proven by:/ { proof = 1 }
     /^$/ { proof = 0 }
     proof { n = split($0, parts, "`")
             for (i = 2; i <= n; i += 2) print clause, parts[i] }' docs/guarantees.md >"$tap_tmp/page"

# A line a case and clause, of those clauses that are on the page and not of plugin.h.
"$conformance" --list | sed -n 's/^\([a-z0-9_]*\) *\[\([^]]*\)\].*/\1 \2/p' |
    awk '{ for (i = 2; i <= NF; i++) if ($i ~ /^C[0-9]+$/) print $i, $1 }' >"$tap_tmp/cases"

# proves CLAUSE WHAT
proves() {
    local clause=$1 file=${2%%:*} name=${2#*:}
    case $2 in
    tests/*:*) grep -qE "\b$name\)" "$file" || { echo "no test $name in $file"; return 1; } ;;
    tests/*) [[ ! $clause =~ ^C ]] || grep -qE "(^|[^A-Za-z0-9])$clause([^0-9]|\$)" "$file" ||
        { echo "$file says nothing of $clause"; return 1; } ;;
    *) grep -qx "$clause $2" "$tap_tmp/cases" || { echo "no case $2 for $clause"; return 1; } ;;
    esac
}

every_proof_is_there() {
    local clause what bad=0
    while read -r clause what; do
        proves "$clause" "$what" || bad=1
    done <"$tap_tmp/page"
    return "$bad"
}

every_case_is_on_the_page() {
    ! grep -vxFf "$tap_tmp/page" "$tap_tmp/cases"
}

every_clause_has_a_proof_or_says_so() {
    local clause count=0 bad=0
    while read -r clause; do
        count=$((count + 1))
        grep -q "^$clause " "$tap_tmp/page" && continue
        awk -v head="### $clause " 'index($0, head) == 1 { here = 1; next }
                                /^#/ { here = 0 }
                                here' docs/guarantees.md | grep -qi 'not yet' && continue
        echo "$clause"
        bad=1
    done < <(sed -nE 's/^### (C[0-9]+) .*/\1/p' docs/guarantees.md)
    [ "$count" -ge 24 ] && return "$bad"
}

# Promises first: each proof is folded, and what no test proves is not.
proofs_are_folded() {
    awk '/^<details>/ { inside = 1; if ($0 != "<details><summary>Proof</summary>") bad = 1 }
         /^<\/details>/ { inside = 0 }
         /^Proven by:/ && !inside || inside && (/\*\*Not yet\*\*/ || /^#/) { print; bad = 1 }
         END { exit bad || inside }' docs/guarantees.md
}

check "the page names proofs" test "$(wc -l <"$tap_tmp/page")" -gt 20
check "the program lists cases" test "$(wc -l <"$tap_tmp/cases")" -gt 20
check "every proof on the page is there, and claims the clause" every_proof_is_there
check "every conformance case is on the page under its clauses" every_case_is_on_the_page
check "every clause has a proof, or says that it has none" every_clause_has_a_proof_or_says_so
check "proofs are folded, and what has none is not" proofs_are_folded
tap_end
