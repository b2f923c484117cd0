#!/bin/bash
# SPDX-License-Identifier: MIT
# Is docs/proofs.md what the tests say of themselves? For each clause of docs/guarantees.md and of plugin.h it has the
# cases of dlock-conformance and dlock-slot-check, the rules of the checker of histories, the profiles of dlock-sim,
# and the test files that name the clause. Prints what differs; with --write, makes the page.
#
#     proofs.sh SOURCE-DIR BIN-DIR [--write]
set -u
cd "$1" || exit 1
bin=$2 page=docs/proofs.md made=$(mktemp) || exit 1
trap 'rm -f "$made" "$made.diff"' EXIT

# cases COLUMN PROGRAM: a line "COLUMN CLAUSE CASE" for each clause of each case; so with the others.
cases() {
    "$bin/$2" --list | sed -nE 's/^([a-z0-9_]+) +\[([^]]*)\].*/\1 \2/p' |
        awk -v column="$1" '{ for (i = 2; i <= NF; i++) print column, $i, $1 }'
}
rules() {
    sed -nE 's/^ *X\(([A-Z_]+), .*\(([C0-9, ]+)\)"\).*/\1 \2/p' tests/stress/history/check.h | tr -d , |
        awk '{ for (i = 2; i <= NF; i++) print 3, $i, $1 }'
}
profiles() {
    sed -nE 's/^\| `([a-z]+)` \|/\1/p' tests/stress/sim/README.md |
        awk '{ name = $1; while (match($0, /\<(C[0-9]+|[A-Z][A-Z][A-Z]-[0-9]+)\>/)) {
                   print 4, substr($0, RSTART, RLENGTH), name; $0 = substr($0, RSTART + RLENGTH) } }'
}
# In a comment, or in the words of a check.
files() {
    grep -rnoE --include='*.c' --include='*.sh' '(/\*|^ \*|^ *#|").*' tests/core tests/lib tests/plugins tests/cli tests/bindings tests/kit |
        sed -E 's/^([^:]*\/)?([^:/]*):[0-9]+:/\2 /; s/%C[0-9]//g' | # %C3 is a byte of a URI
        awk '{ name = $1; while (match($0, /\<(C[0-9]+|[A-Z][A-Z][A-Z]-[0-9]+)\>/)) {
                   print 5, substr($0, RSTART, RLENGTH), name; $0 = substr($0, RSTART + RLENGTH) } }'
}
# "0 CLAUSE TITLE", in the order of their pages.
clauses() {
    sed -nE 's/^### (C[0-9]+) (.*)/0 \1 \2/p' docs/guarantees.md
    grep -ohE '\[[A-Z]{3}-[0-9]+\]' include/dlock/plugin.h | tr -d '[]' | awk '!seen[$1]++ { print 0, $1 }'
}

make_page() {
    cat <<'END'
# Which test proves which clause

`tests/docs/proofs.sh SOURCE-DIR BIN-DIR --write` makes this page from the names of the tests, and the
test `docs_proofs` compares it. [testing.md](testing.md) says what the programs are. A *rule* is one of
the checker of histories, for `dlock-sim` and `dlock-torture`; a *profile* of `dlock-sim` is there for
the clause. Clauses with a C are in [guarantees.md](guarantees.md), the others in `include/dlock/plugin.h`.
END
    {
        clauses
        {
            cases 1 dlock-conformance
            cases 2 dlock-slot-check
            rules
            profiles
            files
        } | LC_ALL=C sort -u
    } | awk '
        BEGIN { split("conformance slots rule profile tests", what, " ") }
        $1 == 0 { clause = $2; order[++n] = clause; sub(/^0 /, ""); title[clause] = $0; next }
        { of[$2, $1] = of[$2, $1] (of[$2, $1] ? ", " : "") "`" $3 "`" }
        END {
            for (i = 1; i <= n; i++) {
                printf "\n## %s\n\n", title[order[i]]
                for (k = 1; k <= 5; k++)
                    if (of[order[i], k]) { printf "| %s | %s |\n", what[k], of[order[i], k]; any[i] = 1 }
                if (!any[i]) print "No test names it."
            }
        }' | awk '/^\| / && !row { print "| where | what |\n|---|---|" } { row = /^\| /; print }'
}

make_page >"$made"
[ "${3-}" != --write ] || cp "$made" "$page"
echo 1..1
diff -u "$page" "$made" | sed 's/^/# /' >"$made.diff"
if [ -s "$made.diff" ]; then
    printf '%s\n' "not ok 1 - docs/proofs.md is what the tests say of themselves" "# make it anew: tests/docs/proofs.sh . $bin --write"
    cat "$made.diff"
    exit 1
fi
echo "ok 1 - docs/proofs.md is what the tests say of themselves"
