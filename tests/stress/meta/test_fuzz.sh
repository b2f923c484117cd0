#!/bin/bash
# Does the preset fuzz build from nothing, all of it, with clang's warnings, and do its programs look
# for inputs?
#
#     test_fuzz.sh SOURCE-DIR
set -u
# shellcheck source=tests/kit/tap.sh
. "$1/tests/kit/tap.sh"
cd "$1" || exit 1

# clang 14's AddressSanitizer does not start with much address randomisation.
launcher=()
if setarch -R true 2>/dev/null; then
    launcher=(setarch -R)
fi

# What is new is kept in the first directory.
looks() {
    local said
    mkdir "$tap_tmp/$1.new" "$tap_tmp/$1.seeds" || return 1
    tar -xf "tests/stress/fuzz/corpus/$1.tar" -C "$tap_tmp/$1.seeds" || return 1
    said=$("${launcher[@]}" "$tap_tmp/build/bin/fuzz_$1" -max_total_time=2 "$tap_tmp/$1.new" \
        "$tap_tmp/$1.seeds" 2>&1) && grep -E '^Done [1-9][0-9]* runs' <<<"$said" && return 0
    tail -n 20 <<<"$said"
    return 1
}

if ! command -v clang >/dev/null; then
    echo '1..0 # SKIP no clang'
    exit 0
fi
check 'the preset configures' cmake --preset fuzz -B "$tap_tmp/build"
check 'its programs are built' cmake --build "$tap_tmp/build" --target fuzz_programs
for corpus in tests/stress/fuzz/corpus/*.tar; do
    name=$(basename "$corpus" .tar)
    check "fuzz_$name looks for inputs" looks "$name"
done
check 'all the rest is built' cmake --build "$tap_tmp/build"
tap_end
