#!/bin/bash
# SPDX-License-Identifier: MIT
# Do the commands of the pages work? Runs each block ```sh of docs/cookbook.md with the programs that
# Debian has, and the two windows of README.md; README.zh-CN.md has the same commands.
#
#     test_pages.sh SOURCE-DIR BIN-DIR
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
cd "$1" || exit 1
export PATH=$2:$PATH DLOCK_URI=sqlite://$tap_tmp/locks.db
export PARALLEL_HOME=$tap_tmp/parallel # sem writes there

mkdir "$tap_tmp/work"
for job in report read write; do
    printf '#!/bin/sh\necho %s >>jobs\n' "$job" >"$tap_tmp/work/$job.sh"
    chmod +x "$tap_tmp/work/$job.sh"
done

# blocks PAGE: each block ```sh in a file of its own, block-01 and so on.
blocks() {
    awk -v dir="$tap_tmp" '/^```$/ { in_code = 0 }
        in_code { print >sprintf("%s/block-%02d", dir, n) }
        /^```sh$/ { in_code = 1; n++ }' "$1"
}

# runs FILE: all its commands succeed, and a job has run, unless they only show something.
runs() {
    cat "$1"
    rm -f "$tap_tmp/work/jobs"
    (cd "$tap_tmp/work" && sed "s,/tmp/,$tap_tmp/,g" "$1" | bash -eu) || return
    [ -s "$tap_tmp/work/jobs" ] || grep -Eq 'inspect|dlock why|dlock top' "$1"
}

# With the lock held by another owner: dlock's block answers as flock's block does.
held() {
    local flock dlock flock_status dlock_status

    flock=$(sed "s,/tmp/,$tap_tmp/,g" "$1") dlock=$(cat "$2")
    (cd "$tap_tmp/work" && flock "$tap_tmp/report.lock" bash -c "$flock")
    flock_status=$?
    (cd "$tap_tmp/work" && dlock run report -- bash -c "unset DLOCK_HELD; $dlock")
    dlock_status=$?
    echo "flock: $flock_status, dlock: $dlock_status"
    [ "$flock_status" -eq "$dlock_status" ]
}

# six FILE: its command six times at once. Says how many jobs were inside at most, and the exit codes. A job stays
# until three have begun, and long enough to see a fourth one.
six() {
    local pids=() pid codes=()
    rm -rf "$tap_tmp/six"
    mkdir -p "$tap_tmp/six/in"
    cat >"$tap_tmp/six/report.sh" <<'JOB'
#!/bin/bash
mkdir "in/$$"
echo >>begun
for ((i = 0; i < 600; i++)); do
    [ "$(wc -l <begun)" -lt 3 ] || break
    sleep 0.1
done
sleep 0.3
ls in | wc -l >>inside
rmdir "in/$$"
exit 7
JOB
    chmod +x "$tap_tmp/six/report.sh"
    for _ in {1..6}; do
        (cd "$tap_tmp/six" && exec bash "$1" </dev/null) &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid"
        codes+=($?)
    done
    echo "$(sort -n "$tap_tmp/six/inside" | tail -n 1) at once, exit codes ${codes[*]}"
}

# The blocks of sem and of dlock that follow it.
as_sem() {
    local sem dlock
    sem=$(grep -l '^sem ' "$tap_tmp"/block-*) && dlock=$tap_tmp/block-$(printf %02d $((10#${sem##*-} + 1)))
    cat "$dlock"
    same "3 at once, exit codes 7 7 7 7 7 7" "$(six "$sem")" &&
        same "3 at once, exit codes 7 7 7 7 7 7" "$(six "$dlock")"
}

# commands PAGE: the commands of its indented blocks, without their comments.
commands() {
    sed -E '/^```/,/^```$/d' "$1" | sed -nE 's/^    (\.\/scripts\/.*)$/\1/p' | sed -E 's/ +#.*//'
}

# terminal PAGE: the terminal of its first screen, without comments.
terminal() {
    sed -n '/^```console$/,/^```$/p' "$1" | sed -E '/^```/d; s/ +#.*//'
}

# The holder of the second window's answer, and its times, are another's here.
anybody() {
    sed -E 's/by [^ ]+ for/by SOMEBODY for/; s/[0-9.]+s/TIME/g'
}

# The first window holds the lock until the second one has answered; the last command gets it then.
two_windows() (
    local typed first code=0
    terminal README.md >"$tap_tmp/terminal"
    mapfile -t typed < <(sed -n 's/^\$ //p' "$tap_tmp/terminal")
    mkdir "$tap_tmp/windows" || return
    cd "$tap_tmp/windows" || return
    printf '#!/bin/sh\nuntil [ -e end ]; do sleep 0.1; done\n' >report.sh
    chmod +x report.sh
    bash -c "${typed[0]}" </dev/null &
    first=$!
    until dlock inspect nightly >inspected; do kill -0 "$first" || return; done
    bash -c "${typed[1]}" </dev/null >answer 2>&1 || code=$?
    touch end
    wait "$first" && bash -c "${typed[3]}" </dev/null || return
    same "$(grep '^[^$]' "$tap_tmp/terminal" | anybody)" "$(anybody <answer; echo "$code")"
)

# examples PAGE: its lines of C and Python, without comments.
examples() {
    sed -n '/^```c$/,/^```$/p; /^```python$/,/^```$/p' "$1" | sed -E 's, *(/\*.*\*/|# .*)$,,'
}
has_the_examples() {
    [ "$(examples README.md | wc -l)" -eq 12 ] && same "$(examples README.md)" "$(examples README.zh-CN.md)"
}
has_the_links() {
    local wanted
    wanted=$(grep -oE '\]\([^)]+\)' README.md | grep -vF '](README' | sort -u)
    [ "$(wc -l <<<"$wanted")" -ge 20 ] && same "" "$(grep -oE '\]\([^)]+\)' README.zh-CN.md | sort -u | comm -13 - <(echo "$wanted"))"
}
has_each_clause() {
    same "$(sed -nE 's/^### (C[0-9]+) .*/\1/p' docs/guarantees.md)" "$(sed -nE 's/^\| (C[0-9]+) .*/\1/p' README.zh-CN.md)"
}

# The page has each series of the alert rules and of the dashboard.
has_each_series() {
    local series
    series=$(grep -ohE '\bdlock_[a-z_]+' examples/prometheus/* | sed 's/_bucket$//' | sort -u)
    [ "$(wc -l <<<"$series")" -ge 10 ] && same "" "$(grep -oE 'dlock_[a-z_]+' docs/operations.md | sort -u | comm -23 <(echo "$series") -)"
}

# summary PAGE: the rows of its generated table. A run writes both pages.
summary() {
    sed -n '/^<!-- summary -->$/,/^<!-- end -->$/p' "$1" | grep '^| [a-z0-9]' | sort
}
benchmarks_are_of_one_run() {
    [ "$(summary docs/benchmarks.md | wc -l)" -ge 15 ] &&
        same "" "$(comm -23 <(summary docs/benchmarks.md) <(summary docs/benchmarks/results.md))"
}

blocks docs/cookbook.md
mapfile -t files < <(find "$tap_tmp" -name 'block-*' | sort)
check "the cookbook has blocks" test "${#files[@]}" -ge 12
for file in "${files[@]}"; do
    check "cookbook: $(head -n 1 "$file")" runs "$file"
done
check "skipping quietly, with the lock held: as flock" held "$tap_tmp"/block-0{3,4}
check "an exit code of one's own, with the lock held: as flock" held \
    <(sed 's/timeout 10/timeout 1/' "$tap_tmp/block-05") <(sed 's/10s/1s/' "$tap_tmp/block-06")
check "six jobs with three permits, and their exit codes: as sem" as_sem
check "docs/benchmarks.md shows rows of docs/benchmarks/results.md" benchmarks_are_of_one_run
check "README: the two windows" two_windows
check "README.zh-CN.md has the commands of README.md" \
    same "$(terminal README.md; commands README.md)" "$(terminal README.zh-CN.md; commands README.zh-CN.md)"
check "it has the examples of README.md" has_the_examples
check "it has the links of README.md" has_the_links
check "it has each clause of guarantees.md" has_each_clause
check "the dashboard is JSON" jq -e '.panels | length > 5' examples/prometheus/dashboard.json
check "docs/operations.md has each series of the rules and the dashboard" has_each_series
tap_end
