#!/bin/bash
# Tests: cli/output.c cli/info.c cli/cmd_inspect.c cli/cmd_doctor.c cli/cmd_backends.c
# SPDX-License-Identifier: MIT
# inspect, list, break, backends: what they print, and what they say of bad input.
# shellcheck disable=SC2317,SC2031 # functions are called by name, in a subshell
# shellcheck disable=SC2016 # $ belongs to the inner shells
# shellcheck source=tests/cli/kit.sh
. "$(dirname "$0")/kit.sh"
need jq
sources=$(realpath "$(dirname "$0")/../..")

usage_errors() {
    local args
    for args in '' 'frobnicate' 'run' 'run x' 'run x --' '--bogus list' 'run --bogus x true' 'run x -v' \
        'run --ttl 5 x true' 'run --ttl -1s x true' 'run --ttl 0s x true' 'run --ttl 1ms x true' \
        'run --ttl 8d x true' 'run --ttl 9223372036854775808ms x true' 'run --ttl 99999999999999999d x true' \
        'run --wait soon x true' 'run --wait -1s x true' 'run --wait 1s --nowait x true' 'run --on-lost cry x true' \
        'run --conflict-exit-code 256 x true' 'run --name-hex 0 x true' 'run --name-hex xy x true' \
        'inspect' 'inspect a b' 'list a b' 'break' 'break x' 'break a b --yes' 'backends x' \
        'run --json x true' '-u nonsense list' '-u foo://x list' '-u sqlite:///x?ttl=3 list' \
        '-u sqlite:///x?nope=1 list' 'run -u'; do
        # shellcheck disable=SC2086 # they are words
        exits 64 "$dlock" $args
        one_line '.'
        equal "" "$(cat out)" "standard output of: dlock $args"
    done
}

# said WORDS ARGUMENT...
said() {
    local words=$1
    shift
    exits 64 "$dlock" "$@"
    one_line "$words"
}

usage_errors_tell_why() {
    said '--ttl=30 has no unit \(ms, s, m, h or d\)' run --ttl 30 x true
    said '--ttl=1ms is not in none\|50ms\.\.7d' run --ttl 1ms x true
    said '--wait=400d is not in forever\|0\.\.365d' run --wait 400d x true
    said '--max-hold=366d is not in 0\.\.365d' run --max-hold 366d x true
    said '--conflict-exit-code=256 is not in 0\.\.255' run --conflict-exit-code 256 x true
    said '--on-lost=cry is not one of kill\|warn' run --on-lost cry x true
    said 'option --tl: unknown; did you mean --ttl\?' run --tl 30s x true
    said 'option --tll: unknown; did you mean --ttl\?' run --tll=30s x true
    said 'option --wiat: unknown; did you mean --wait\?' run --wiat 3s x true
    said 'option --frobnicate: unknown \(see' run --frobnicate x true
    said "no command 'inspekt'; did you mean inspect\?" inspekt x
    said "no command 'frob' \(see" frob x
    said '--ttl stands after NAME; write: dlock run --ttl \.\.\. x -- CMD' run x --ttl 5s -- true
    said 'options go before NAME' run x -z -- true
    said 'option --no: unknown' list --no
    said 'option --n: ambiguous: --nowait, --name, --name-hex' run --n x true
    said 'option --nowait: takes no value' run --nowait=1 x true
    said 'option --ttl: needs a value' run --ttl
    said 'option -x: unknown' list -x
    said 'option -j: unknown' --verbose -jx list
    said 'option --url: unknown' --url=redis://:s3cr3t@h/ list
    said 'this is a URI, not a command' redis://:s3cr3t@h/ list
    said 'list: PREFIX is not hex' list --name-hex 6
    said 'list: more than one PREFIX' list a b
    said 'inspect: NAME is not hex' inspect --name-hex 6
    said '^dlock: a name has' run '' true
    exits 0 "$dlock" run --wait 0 x -- true
    exits 0 "$dlock" run --max-hold 0 x -- true
    exits 0 "$dlock" run --wait forever x -- true
}

empty_name() {
    exits 64 "$dlock" run '' -- true
    one_line 'name'
    exits 0 "$dlock" run "$(printf 'n%.0s' {1..255})" -- true
    exits 64 "$dlock" inspect "$(printf 'n%.0s' {1..256})"
}

names_are_bytes() {
    local name n=0
    for name in 'with space' '../up' '%s%n%x' "$(printf 'line\nbreak')" "$(printf '\377\376')" "ü" "a'b\"c\\d" \
        "$(printf '\033[31mred')"; do
        n=$((n + 1))
        exits 75 "$dlock" run "$name" -- sh -c 'unset DLOCK_HELD
            "$0" --json inspect "$1" >json && "$0" inspect "$1" >text && "$0" list >list &&
            exec "$0" run --nowait "$1" -- true' "$dlock" "$name"
        equal "$(printf %s "$name" | od -An -v -tx1 | tr -d ' \n')" "$(jq -r .name_hex json)" name_hex
        if [ "$n" -ne 5 ]; then
            equal "$name" "$(jq -r .name json)" "name in JSON"
        else
            equal null "$(jq -r .name json)" "name in JSON"
        fi
        LC_ALL=C grep -q '[^ -~]' text list && die "an unprintable byte: $(cat -v text list)"
        [ "$(wc -l <list)" -eq 2 ] || die "list: $(cat list)"
    done
    equal 'name       \x1b[31mred' "$(head -1 text)"
}

name_in_hex() {
    exits 0 "$dlock" run --name-hex 00ff41 -- sh -c 'echo "${DLOCK_NAME-none}"; "$0" --json inspect --name-hex 00FF41' "$dlock"
    equal none "$(head -1 out)"
    equal 00ff41 "$(tail -n +2 out | jq -r .name_hex)"
    exits 0 "$dlock" run --name-hex 78 -- "$dlock" inspect x
    exits 0 "$dlock" run x -- "$dlock" --name-hex inspect 78
    exits 0 "$dlock" --name-hex run 78 -- "$dlock" --name-hex list 78
    exits 1 "$dlock" --name-hex break --yes 78
}

looking_never_creates() {
    local words uri
    export DLOCK_PLUGIN_PATH=$CLI_HALF
    for words in 'inspect x' list doctor 'break x --yes'; do
        # shellcheck disable=SC2086 # they are words
        exits 66 "$dlock" -u half:path $words
        one_line 'path does not exist'
        equal "" "$(cat out)" "standard output of $words"
    done
    exits 0 "$dlock" -u half:path run x -- true
    unset DLOCK_PLUGIN_PATH
    for uri in "sqlite://$PWD/none/locks.db" "sqlite://$PWD/other.db"; do
        for words in 'inspect x' list doctor 'break x --yes' '--json inspect x'; do
            # shellcheck disable=SC2086 # they are words
            exits 66 "$dlock" -u "$uri" $words
            one_line "$PWD"
            equal "" "$(cat out)" "standard output of $words"
        done
    done
    equal 'err out' "$(echo *)" "files"
}

inspect_free_and_held() {
    exits 0 "$dlock" run y -- true # makes the store
    exits 1 "$dlock" inspect x
    grep -q '^state  *free' out
    equal "" "$(cat err)"
    "$dlock" run --label tag x -- sleep 30 &
    within 20 held x
    exits 0 "$dlock" inspect x
    grep -q '^state  *held, exclusive' out
    grep -qE '^owner +[0-9a-f]{32}$' out
    grep -qE '^holder +.*:[0-9]+@[0-9a-f]{8}:tag$' out
    grep -qE '^fence +[1-9][0-9]*$' out
    grep -qE '^held +[0-9.]+s$' out
    grep -qE '^remaining +[0-9.]+s$' out
    exits 0 "$dlock" --json inspect x
    jq -e '.held and (.holders | length == 1) and (.holders[0] | .mode == "exclusive" and .held_ms >= 0)' out
    exits 1 "$dlock" inspect --json y
    jq -e '(.held | not) and .holders == []' out
}

list_with_prefix() {
    local name
    for name in b a/2 a/1; do
        "$dlock" run "$name" -- sleep 30 &
        within 20 held "$name"
    done
    exits 0 "$dlock" --json list
    equal 'a/1 a/2 b' "$(jq -r '[.locks[].name] | join(" ")' out)"
    exits 0 "$dlock" --json list a/
    equal 'a/1 a/2' "$(jq -r '[.locks[].name] | join(" ")' out)"
    jq -e '.locks[0] | .owner and .fence and .mode == "exclusive"' out
    exits 0 "$dlock" list a/2
    equal 2 "$(wc -l <out)"
    exits 0 "$dlock" list nothing
    equal "" "$(cat out err)"
    exits 0 "$dlock" --json list nothing
    jq -e '.locks == [] and .complete' out
}

# A plugin that fails after two names (trials R6).
list_that_ends_early() {
    export DLOCK_PLUGIN_PATH=$CLI_HALF
    exits 69 "$dlock" -u half: list
    equal 3 "$(wc -l <out)" "lines on standard output"
    one_line 'is incomplete, it ends after 2 locks; give a PREFIX, or a longer op_timeout=.*no answer in time'
    exits 69 "$dlock" -u half: list --json
    jq -e '.complete == false and (.locks | length) == 2' out
    exits 69 "$dlock" -u half: list >/dev/null
}

# Some stores cannot know how long the holder's session lasts.
holder_for_a_time_that_is_not_known() {
    export DLOCK_PLUGIN_PATH=$CLI_HALF
    exits 75 "$dlock" -u half: run --nowait held -- touch ran
    one_line 'held: held by somebody$'
    exits 0 "$dlock" -u half: inspect held
    grep -qE '^remaining +-$' out || { cat out; return 1; }
    exits 1 "$dlock" -u half: inspect free
}

break_by_owner() {
    local pid owner
    "$dlock" run --ttl 3s x -- sleep 30 2>loss &
    pid=$!
    within 20 held x
    owner=$("$dlock" --json inspect x | jq -r '.holders[0].owner')
    exits 64 "$dlock" break x
    one_line '--yes'
    exits 1 "$dlock" break x --yes --owner 00000000000000000000000000000000
    one_line 'not held by that owner$'
    exits 1 "$dlock" break x --yes --owner zzz
    one_line 'not held by that owner, which is not a token'
    held x
    exits 0 "$dlock" break --json --owner "$owner" --yes x
    jq -e '.broken and .name == "x"' out
    exit_of "$pid"
    equal 70 "$code" "exit code"
    exits 1 "$dlock" break x --yes
    one_line 'x: not held'
    exits 1 "$dlock" --json break x --yes
    jq -e '.broken | not' out
}

backends_good_and_bad() {
    exits 0 "$dlock" backends
    grep -q 'dlock_sqlite.so$' out
    grep -qE '^  schemes +sqlite' out
    exits 0 "$dlock" --json backends
    jq -e '.backends[] | select(.name == "sqlite") | .error == null and .schemes == ["sqlite"] and
        (.caps | index("fence")) and (.path | startswith("/"))' out
    mkdir plugins
    echo garbage >plugins/dlock_bad.so
    DLOCK_PLUGIN_PATH=$PWD/plugins exits 0 "$dlock" backends
    grep -A1 "^$PWD/plugins/dlock_bad.so" out | grep -q '^  does not load: .'
    DLOCK_PLUGIN_PATH=$PWD/plugins exits 0 "$dlock" backends --json
    jq -e '.backends[] | select(.path | endswith("/dlock_bad.so")) | .error | length > 0' out
}

doctor() {
    exits 0 "$dlock" run x -- true # makes the store
    exits 0 "$dlock" doctor
    grep -qx "store      $store" out
    grep -qE '^server     SQLite [0-9.]+$' out
    grep -qx 'caps       rwlock downgrade fence crash-safe watch queue limit keep data no-ttl' out || die "$(cat out)"
    grep -qx "check      file: $PWD/locks.db" out || die "$(cat out)"
    grep -A1 '^check      sync: ' out | grep -q '^  advice   .*sync=full' || die "$(cat out)"
    exits 0 "$dlock" doctor --json -u "$store?sync=full"
    jq -e '.store and .server and (.caps | index("fence-durable")) and
        (.checks[] | select(.name == "sync") | .found and .advice == null and .clears == [])' out
    exits 0 "$dlock" doctor --strict -u "$store?sync=full"
    exits 1 "$dlock" doctor --strict
    grep -q '^  advice ' out
    exits 1 "$dlock" doctor --strict --json
    jq -e '[.checks[].advice | select(. != null)] | length > 0' out
    exits 64 "$dlock" doctor x
    exits 0 "$dlock" doctor -u memory://x # which nobody else could look at
    grep -q ' private ' out
    echo 'this is no database, whatever its name says, and long enough to be one' >garbage.db
    exits 78 "$dlock" doctor -u "sqlite://$PWD/garbage.db"
    one_line "$PWD"
}

ttls_of_the_store() {
    exits 0 "$dlock" doctor -u memory://x
    grep -q 'ttl: ' out && die "every ttl is worth no line"
    export DLOCK_PLUGIN_PATH=$CLI_HALF
    exits 0 "$dlock" -u half: doctor
    grep -qx 'check      ttl: whole seconds, at least 2 s, at most 60 s' out || die "$(cat out)"
    exits 0 "$dlock" -u half: doctor --strict
    exits 0 "$dlock" -u half: run --ttl 50ms x -- true
    exits 78 "$dlock" -u half: run --ttl 61s x -- touch ran
    one_line 'a ttl of 61 s is longer than the store gives \(whole seconds, at least 2 s, at most 60 s\)'
    [ ! -e ran ]
}

missing_plugin() {
    exits 64 "$dlock" -u foo://x run x -- true
    one_line "unknown scheme 'foo'"
    mkdir plugins
    echo garbage >plugins/dlock_redlock.so
    DLOCK_PLUGIN_PATH=$PWD/plugins exits 69 "$dlock" -u redlock://x run x -- true
    one_line "dlock_redlock.so.*will not load.*$PWD/plugins"
}

bad_stores() {
    local args
    echo 'this is no database, whatever its name says, and long enough to be one' >garbage.db
    for args in "sqlite://$PWD/garbage.db" "sqlite://$PWD" "sqlite://$PWD/none/x.db"; do
        got=0
        "$dlock" run -u "$args" x -- touch ran 2>err || got=$?
        case $got in
        69 | 78) ;;
        *) die "exit code $got for $args: $(cat err)" ;;
        esac
        one_line "$PWD"
    done
    [ ! -e ran ]
}

default_store() {
    unset DLOCK_URI
    exits 0 "$dlock" -v run --nowait "dlock-test-$$" -- true
    grep -q '^dlock: store sqlite:///' err
}

verbose_and_version() {
    exits 0 "$dlock" -v run x -- true
    grep -qx "dlock: store $store" err || die "$(cat err)"
    grep -qE '^dlock: server SQLite [0-9.]+$' err || die "$(cat err)"
    equal "" "$(grep -v '^dlock: ' err || true)" "lines of another kind"
    exits 0 "$dlock" -q -v run x -- true
    equal "" "$(cat err)" "with -q and -v"
    exits 0 "$dlock" --version
    grep -qE '^dlock [0-9]+\.[0-9]+\.[0-9]+$' out
    exits 0 "$dlock" --help
    grep -q 'run .*NAME' out
    exits 0 "$dlock" run --help
}

full_disk_is_told() {
    exits 71 sh -c '"$0" --help >/dev/full' "$dlock"
    one_line 'No space left'
}

secrets_stay_secret() {
    local pid name
    "$dlock" run -u "$store?label=sekret-not" x -- sleep 30 &
    pid=$!
    within 20 held x
    tr '\0' '\n' <"/proc/$pid/cmdline" | grep -q 'label=sekret-not' || die "a harmless URI was hidden"
    # The library takes this label for a URI with a password.
    "$dlock" run -u "$store?label=a://u:s3cr3t@h" y -- sh -c 'env >env; echo up >up; sleep 30' &
    pid=$!
    within 20 test -s up
    ! grep -q s3cr3t env "/proc/$pid/cmdline" || die "$(cat env "/proc/$pid/cmdline")"
    grep -qxF "DLOCK_URI=$store?label=***" env || die "$(cat env)"
    # No server speaks there; the words must not come out anywhere.
    for name in 'redis://user:s3cr3t@127.0.0.1:1/0' 'mysql://u:s3cr3t@127.0.0.1:1/db' \
        'redis://127.0.0.1:1/?pass=s3cr3t' 'memory://u:s3cr3t@x' 'sqlite:///x?password=s3cr3t'; do
        "$dlock" -v -v run --nowait -u "$name" x -- env >out 2>err || true
        ! grep -q s3cr3t out err || die "$name: $(cat out err)"
        "$dlock" --url="$name" list >out 2>err || true
        ! grep -q s3cr3t out err || die "$name: $(cat out err)"
        "$dlock" "$name" list >out 2>err || true
        ! grep -q s3cr3t out err || die "$name: $(cat out err)"
        DLOCK_URI=$name "$dlock" -v -v run --nowait x -- env >out 2>err || true
        ! grep -q s3cr3t out err || die "$name: $(cat out err)"
    done
}

warnings_show_unasked() {
    export DLOCK_PLUGIN_PATH=$CLI_HALF
    echo s3cr3t >pw
    chmod 644 pw
    exits 0 "$dlock" -u "half:?pass_file=$PWD/pw" run x -- true
    one_line "all users may read the secret in $PWD/pw"
    exits 0 "$dlock" -q -u "half:?pass_file=$PWD/pw" run x -- true
    equal "" "$(cat err)" "with -q"
}

# completed WORD...: what bash offers for the last of the words
completed() {
    completed_line "$dlock $*" "$@"
}

# completed_line LINE WORD...: the same for words as bash splits them, as at :
completed_line() {
    bash -c 'source "$1" && COMP_LINE=$2 && shift 2 && COMP_WORDS=("$@") && COMP_CWORD=$(($# - 1)) && _dlock &&
        printf "%s " "${COMPREPLY[@]}"' - "$sources/cli/completion/dlock" "$1" "$dlock" "${@:2}"
}

completion() {
    "$dlock" run night/1 -- sleep 30 &
    within 20 held night/1
    equal 'break backends ' "$(completed b)"
    equal 'doctor ' "$(completed d)"
    equal '--ttl ' "$(completed run --tt)"
    equal 'kill warn ' "$(completed -v run --on-lost '')"
    equal 'night/1 ' "$(completed inspect ni)"
    equal 'night/1 ' "$(completed -u "$store" run --ttl 3s '')"
    completed run x tru | grep -qw true
    completed run x -- tru | grep -qw true
    equal '-- ' "$(completed run x -)"
    equal '--owner ' "$(completed break x --o)"
    equal '--strict ' "$(completed doctor --s)"
    equal '--status-fd ' "$(completed run --st)"
    equal '--skip-quietly ' "$(completed run --outcome told --sk)"
    equal "$PWD/locks.db " "$(completed run --outcome "$PWD/lo" | tr ' ' '\n' | grep 'db$' | tr '\n' ' ')"
}

completion_of_any_name() {
    "$dlock" run --label 'two words' 'a b' -- sleep 30 &
    "$dlock" run job:1 -- sleep 30 &
    within 20 held 'a b'
    within 20 held job:1
    equal 'a\ b ' "$(completed inspect a)"
    equal 'a\ b ' "$(completed inspect 'a\ ')"
    equal '1 ' "$(completed_line "$dlock inspect job:" inspect job :)"
    equal 'job:1 ' "$(completed_line "$dlock -u $store inspect j" -u sqlite : "${store#sqlite:}" inspect j)"
    equal '--ttl ' "$(completed_line "$dlock -u redis://u@h run --tt" -u redis : //u @ h run --tt)"
}

# The options of --help, in the tables of all three shells.
completions_know_all_options() {
    local word
    for word in $("$dlock" --help | grep -oE -- '--[a-z-]+' | sort -u); do
        grep -qE -- "$word\b" "$sources/cli/completion/dlock" || die "bash: $word"
        grep -qE -- "$word\b" "$sources/cli/completion/_dlock" || die "zsh: $word"
        grep -qE -- "-l ${word#--}( |\$)" "$sources/cli/completion/dlock.fish" || die "fish: $word"
    done
}

manual_page() {
    local word
    for word in $("$dlock" --help | grep -oE -- '--[a-z-]+' | sort -u); do
        grep -q -- "${word//-/\\\\-}" "$sources/cli/dlock.1" || die "$word is not in the page"
    done
    # memory: reaches nobody else, and is nothing for a shell.
    for word in $("$dlock" backends --json | jq -r '.backends[] | select(.name != "memory") | .schemes[]?'); do
        sed -n '/^.SH URIS/,/^.SH/p' "$sources/cli/dlock.1" | grep -qw -- "$word:" || die "$word: is not in the page"
    done
}

uri_in_a_file() {
    echo "$store" >uri
    unset DLOCK_URI
    exits 0 "$dlock" -u "@$PWD/uri" run x -- sh -c 'echo "$DLOCK_URI"'
    equal "$store" "$(cat out)"
}

shows "usage errors: 64 and one line, whatever it was" usage_errors
shows "usage errors: what is wrong, in the words that a URI has for it" usage_errors_tell_why
shows "names: empty or too long is 64" empty_name
shows "names: any bytes are held, shown escaped, and in JSON as name_hex (C11)" names_are_bytes
shows "names: --name-hex for what a shell cannot pass" name_in_hex
shows "inspect, list, doctor and break make no store, and exit 66" looking_never_creates
shows "inspect: 1 when free, 0 when held, with all that is known" inspect_free_and_held
shows "list: sorted, by prefix, in text and JSON" list_with_prefix
shows "list: what was seen before the store failed, and what to do" list_that_ends_early
shows "a holder of whom nobody knows how long it holds" holder_for_a_time_that_is_not_known
shows "break: by owner, without a terminal only with --yes, 1 when there is nothing" break_by_owner
shows "backends: what loads, what does not and why" backends_good_and_bad
shows "doctor: what is in force, what was found and what to do (C16)" doctor
shows "the ttls of the store: a line of doctor, and 78 for one that is too long (C2)" ttls_of_the_store
shows "a missing plugin is 69, an unknown scheme 64, a broken plugin 69" missing_plugin
shows "a store that is none: 69 or 78, with its path" bad_stores
shows "without a URI: the store of this user, which -v names" default_store
shows "-v, --version, --help" verbose_and_version
shows "output that cannot be written is told" full_disk_is_told
shows "passwords show nowhere (C17)" secrets_stay_secret
shows "a warning of the library shows without -v" warnings_show_unasked
shows "bash completion offers commands, options and held names" completion
shows "bash completion: names with spaces and colons, -u URI" completion_of_any_name
shows "completions of bash, zsh and fish have every option of --help" completions_know_all_options
shows "the manual page has every option of --help, and every scheme" manual_page
shows "-u @file reads the URI from a file" uri_in_a_file
tap_end
