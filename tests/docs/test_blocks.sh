#!/bin/bash
# SPDX-License-Identifier: MIT
# Is each shell block of the pages run by a test, and each command of the cookbook's table? blocks.txt says for
# each line which test runs it; the lines that no other test runs are run here. (The blocks ```sh of the cookbook:
# test_pages.sh.)
#
#     test_blocks.sh SOURCE-DIR BUILD-DIR
set -u
source_dir=$1 build_dir=$2
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
export PATH=$build_dir/bin:$PATH DLOCK_URI=sqlite://$tap_tmp/locks.db source_dir
export PARALLEL_HOME=$tap_tmp/parallel # sem writes there
unset DLOCK_PLUGIN_PATH
cd "$source_dir" || exit 1

mkdir "$tap_tmp/work"
for job in report migrate read; do
    printf '#!/bin/sh\necho %s\n' "$job" >"$tap_tmp/work/$job.sh"
    chmod +x "$tap_tmp/work/$job.sh"
done
printf '#!/bin/sh\nexec sleep 1000\n' >"$tap_tmp/work/serve"
chmod +x "$tap_tmp/work/serve"
dlock run report -- true # commands that look make no store

# cells PAGE: the commands in its table, in their order.
cells() {
    sed -n '/^<!-- commands -->$/,/^<!-- end -->$/p' "$1" | grep -oE '`[^`]+`' | tr -d '`'
}

# lines PAGE: those of its indented blocks, without the four blanks, and a command of several lines as one; then
# the commands of its table.
lines() {
    awk '/^```/ { fence = !fence; next } !fence && /^    [^ ]/ && before ~ /^ *$/ { block = 1 }
        !/^    / { block = 0 } { before = $0 }
        block && /[^ ]/ {
            sub(/^ +/, "")
            line = line $0
            if (sub(/\\$/, "", line)) next
            print line
            line = ""
        }' "$1"
    cells "$1"
}

# row PAGE LINE: sets how, with.
row() {
    local page pattern
    while IFS='~' read -r page how with pattern; do
        [[ $page == "$1" && $2 == "$pattern"* ]] && return
    done < <(grep -v '^#' tests/docs/blocks.txt)
    echo "tests/docs/blocks.txt has no row for it"
    return 1
}

# run LINE [SECONDS] [DIRECTORY]: exit code 0, or 1 of a name that is free.
run() {
    local code=0
    echo "$1"
    (cd "${3:-$tap_tmp/work}" && timeout "${2:-60}" bash -euc "$1" </dev/null) || code=$?
    [ "$code" -eq 0 ] || { [ "$code" -eq 1 ] && [[ $1 =~ dlock\ (inspect|why) ]]; } || return "$code"
}

# A lock that another process holds, for the commands that look at one.
holder() {
    dlock run report -- sleep 1000 &
    until dlock inspect report >/dev/null; do sleep 0.1; done
}

has_test() {
    grep -rqE --include=CTestTestfile.cmake "^add_test\((\[=\[)?$1(\]=\])? " "$build_dir" || { echo "no test $1"; return 1; }
}

# checked PAGE LINE
checked() {
    local how with line name file words code=0
    row "$1" "$2" || return
    case $how in
    text) return 0 ;;
    whole) has_test "$with" && return ;;
    ctest)
        read -r name file words <<<"$with"
        has_test "$name" && grep -qF -e "$words" "$file" && return
        ;;
    rolling)
        run "$(sed "$with" <<<"$2")" 3 || code=$?
        [ "$code" -eq 124 ] && return
        ;;
    here)
        line=$(sed "$with" <<<"$2")
        if [[ $line == *break* ]]; then
            holder
            run "$line" && wait "$!"
            same 70 $? # the holder has lost it
            return
        fi
        run "$line" && return
        ;;
    tree)
        line=${2//build\/dev/$build_dir}
        run "$(sed "$with" <<<"$line")" 300 "$source_dir" && return
        ;;
    *) run "with_server $how -- bash -euc $(printf %q "$(sed "$with" <<<"$2")")" && return ;;
    esac
    return 1
}

has_commands_of_the_cookbook() {
    local wanted
    wanted=$(cells docs/cookbook.md)
    [ "$(wc -l <<<"$wanted")" -ge 20 ] && same "$wanted" "$(cells README.zh-CN.md)"
}

packages_are_listed() {
    local listed
    listed=$(sed -n '/^    apt-get install/,/^    cmake/p' docs/installing.md | grep -oE '[a-z0-9.+-]+' | sort -u)
    # gcc and cmake recommend libc6-dev and make; the probes are optional.
    same "" "$(awk '$1 == "build" { print $2 }' scripts/packages | grep -vxE 'libc6-dev|make|systemtap-sdt-dev' | sort | comm -23 - <(echo "$listed"))"
}

rows_are_used() {
    local page how with pattern unused=0
    while IFS='~' read -r page how with pattern; do
        lines "$page" | grep -qF -e "$pattern" || { echo "no line of $page begins with: $pattern"; unused=1; }
    done < <(grep -v '^#' tests/docs/blocks.txt)
    return "$unused"
}

check "README.zh-CN.md has the table of the cookbook" has_commands_of_the_cookbook
check "docs/installing.md lists the packages that a build needs" packages_are_listed
count=0
for page in README.md docs/*.md; do
    while IFS= read -r line; do
        count=$((count + 1))
        check "$page: $line" checked "$page" "$line"
    done < <(lines "$page")
done
check "the pages have blocks" test "$count" -ge 60
check "no row of blocks.txt is without a line" rows_are_used
check "only the cookbook has blocks of the other form, which test_pages.sh runs" \
    same docs/cookbook.md "$(grep -l '^```sh' README.md README.zh-CN.md docs/*.md)"
tap_end
