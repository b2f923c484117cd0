#!/bin/bash
# real.sh SOURCE-DIR BIN-DIR PORT SOCKET DIRECTORY: the command on MySQL, and what differs there from MariaDB: the
# list of connections, the login, and the modes.
set -u
source_dir=$1 bin=$2 dlock=$2/dlock port=$3 socket=$4 directory=$5
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
cd "$tap_tmp" || exit 1

uri() {
    echo "mysql://u:secret@127.0.0.1:$port/locks?strategy=$1&table_prefix=$1_"
}
administer() {
    mariadb --no-defaults -u root -S "$socket" -N -e "$1"
}

# until_done FILE COMMAND...: runs it again and again until FILE is there, or it fails; FILE.NAME has what it said.
until_done() {
    local file=$1
    shift
    while ! [ -e "$file" ]; do
        "$@" >>"$file.$BASHPID" 2>&1 || { echo "$* ended with $?" >>"$file.failed"; return 1; }
    done
}

contends() {
    local histories
    histories=$(mktemp -d "$tap_tmp/histories.XXXXXX") && "$bin/contend" "$DLOCK_URI" 2 2 1 "$histories"
}

# beside_load STRATEGY COMMAND...: runs it while four loops take the name "busy"; all of them have to end well. And
# while two programs lock and unlock in connections that stay: their statements are prepared, and have raw bytes.
beside_load() {
    local loops=() loop status=0 file
    export DLOCK_URI
    DLOCK_URI=$(uri "$1")
    "$dlock" run busy -- true || return # makes the tables
    file=$(mktemp -u "$tap_tmp/loops.XXXXXX")
    shift
    for _ in 1 2 3 4; do
        until_done "$file" "$dlock" run --wait 60s busy -- true &
        loops+=("$!")
    done
    until_done "$file" contends &
    loops+=("$!")
    "$@" || status=1
    touch "$file"
    for loop in "${loops[@]}"; do
        wait "$loop" || status=1
    done
    cat "$file".* 2>/dev/null
    return "$status"
}
# inspects COUNT
inspects() {
    local status failed=0
    for ((i = 0; i < $1; i++)); do
        "$dlock" inspect busy >inspected 2>&1
        status=$?
        [ "$status" -le 1 ] || { failed=$((failed + 1)) && cat inspected; } # 1: free
    done
    same 0 "$failed"
}
# As a script does it: each of the later calls adopts the lease.
script_steps() {
    local token
    for _ in {1..30}; do
        token=$("$dlock" acquire --ttl 30s --wait 60s mine) && token=${token%% *} && "$dlock" renew --token "$token" mine &&
            "$dlock" release --token "$token" mine || return
    done
}

# modes_do_not_matter MODES: with these as the server's own.
modes_do_not_matter() {
    local strategy status=0
    administer "SET GLOBAL sql_mode='$1'" || return
    for strategy in row insert session; do
        export DLOCK_URI
        DLOCK_URI=$(uri "$strategy")
        "$dlock" run --shared "mode's \\ \"x\" " -- true && "$dlock" list >/dev/null &&
            "$dlock" run "mode's \\ \"x\" " -- "$dlock" inspect "mode's \\ \"x\" " || status=1
        [ "$strategy" = session ] || "$dlock" run --limit 2 "mode's || permits" -- true || status=1
    done
    return "$status"
}

login_is() { same "$1" "$(administer "SELECT plugin FROM mysql.user WHERE user = 'u'")"; }
# The server forgets what it has seen of passwords, and has to be told the whole one.
logs_in() {
    administer "FLUSH PRIVILEGES" && "$dlock" -u "$1" run login -- true && "$dlock" -u "$1" run login -- true
}
encrypted_login() {
    logs_in "mysql://u:secret@localhost:$port/locks?table_prefix=row_&tls=on&ca=$directory/ca.pem"
}
# refused URI: AUTH.
refused() {
    "$dlock" -u "$1" run --nowait login -- true
    same 77 $?
}

check "strategy row: 0 of 1,000 inspects fail beside four loops that take the name" beside_load row inspects 1000
for strategy in insert session; do
    check "strategy $strategy: 0 of 200 inspects fail beside such loops" beside_load "$strategy" inspects 200
done
for strategy in row insert; do
    check "strategy $strategy: acquire, renew and release in a script beside such loops" beside_load "$strategy" script_steps
done

check "the user's login is caching_sha2_password" login_is caching_sha2_password
check "caching_sha2_password without TLS" logs_in "mysql://u:secret@127.0.0.1:$port/locks?table_prefix=row_"
check "caching_sha2_password with TLS" encrypted_login
check "caching_sha2_password at a unix socket" logs_in "mysql://u:secret@/locks?unix_socket=$socket&table_prefix=row_"
check "a wrong password is AUTH" refused "mysql://u:wrong@127.0.0.1:$port/locks?table_prefix=row_"
check "a wrong password with TLS is AUTH" \
    refused "mysql://u:wrong@localhost:$port/locks?table_prefix=row_&tls=on&ca=$directory/ca.pem"

modes=("" ANSI TRADITIONAL NO_BACKSLASH_ESCAPES PAD_CHAR_TO_FULL_LENGTH
    "ANSI_QUOTES,HIGH_NOT_PRECEDENCE,IGNORE_SPACE,NO_AUTO_VALUE_ON_ZERO,NO_UNSIGNED_SUBTRACTION,PIPES_AS_CONCAT,REAL_AS_FLOAT,TIME_TRUNCATE_FRACTIONAL")
for mode in "${modes[@]}"; do
    check "the server's sql_mode '$mode' does not matter" modes_do_not_matter "$mode"
done
tap_end
