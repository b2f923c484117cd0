#!/bin/bash
# SPDX-License-Identifier: MIT
# What fish and zsh offer with the completions of cli/completion; output.sh has the tests of bash.
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need fish zsh jq
sources=$(realpath "$(dirname "$0")/../..")
export PATH=$DLOCK_BIN:$PATH

# in_fish LINE: what fish offers at its end, as one line. fish 4 also offers what has the word in its middle.
in_fish() {
    # shellcheck disable=SC2016 # fish expands it
    timeout 30 fish --no-config -c 'source $argv[1]; complete -C $argv[2]' \
        "$sources/cli/completion/dlock.fish" "$1" | sed 's/\t.*//' | grep -- "^${1##* }" | tr '\n' ' '
}

# in_zsh LINE: the same of zsh
in_zsh() {
    timeout 30 zsh -f "$sources/tests/cli/offers.zsh" "$sources/cli/completion" "$1"
}

# offers SHELL LINE WORDS
offers() {
    equal "$3" "$("in_$1" "$2")" "$1: $2"
}

completes_in() {
    local holder
    "$dlock" run 'night shift' -- sleep 300 &
    holder=$!
    within 20 held 'night shift'
    offers "$1" 'dlock b' 'backends break '
    offers "$1" 'dlock -v run --nowa' '--nowait '
    offers "$1" 'dlock break x --o' '--owner '
    offers "$1" 'dlock acquire --nowa' '--nowait '
    offers "$1" 'dlock release x --to' '--token '
    offers "$1" 'dlock rel' 'release '
    offers "$1" 'dlock doctor --s' '--strict '
    offers "$1" 'dlock doctor --w' "$4"
    offers "$1" 'dlock run --on-lost=' "$2"
    offers "$1" 'dlock inspect n' "$3"
    offers "$1" "dlock -u $store run --ttl=3s n" "$3"
    "in_$1" 'dlock run x tru' | grep -qw true
    kill "$holder"
}

in_fish_all() {
    completes_in fish '--on-lost=kill --on-lost=warn ' 'night shift ' '--watch '
}

in_zsh_all() {
    completes_in zsh 'kill warn ' 'night\ shift ' '--watch '
}

shows "fish completion offers commands, options and held names" in_fish_all
shows "zsh completion offers commands, options and held names" in_zsh_all
tap_end
