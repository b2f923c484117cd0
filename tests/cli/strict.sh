#!/bin/bash
# SPDX-License-Identifier: MIT
# Does `dlock doctor --strict` fail for each configuration that weakens a lock, and for that alone?
# Each test has a server that is well set up, then makes one mistake.
set -u
# shellcheck source=tests/cli/kit.sh
. "$(dirname "${BASH_SOURCE[0]}")/kit.sh"
need redis-cli mariadb psql pg_config setpriv

# on_server KIND [ARGUMENT...] -- FUNCTION: the function gets the ports.
on_server() {
    local words=()
    while [ "$1" != -- ]; do
        words+=("$1")
        shift
    done
    # shellcheck disable=SC2163
    export -f die exits fine complains as_server "$2"
    # shellcheck disable=SC2016
    dlock=$dlock timeout 120 "$DLOCK_BIN/with_server" "${words[@]}" -- \
        bash -euc "$2"' "$@"' "$2" '{port}' '{port2}' '{port3}' '{socket}' '{dir}'
}

# fine URI: exit code 0, and no advice.
fine() {
    exits 0 "$dlock" -u "$1" doctor --strict
    ! grep advice out || die "advice: $(cat out)"
}

# complains URI WORD: exit code 1, and advice; or the store is refused. The word is in the text. Without
# --strict advice is no failure.
complains() {
    local code=0
    timeout 60 "$dlock" -u "$1" doctor --strict >out 2>err || code=$?
    cat out err
    [ "$code" -ne 0 ] || die "exit code 0"
    grep -q "$2" out err || die "no '$2' in it"
    [ "$code" -ne 1 ] || { grep advice out && exits 0 "$dlock" -u "$1" doctor; }
}

# as_server DIRECTORY COMMAND...: as the owner of the directory.
as_server() {
    local owner
    owner=$(stat -c '--reuid=%u --regid=%g' "$1")
    shift
    # shellcheck disable=SC2086
    if [ "$(id -u)" = 0 ]; then setpriv $owner --clear-groups "$@"; else "$@"; fi
}

redis_settings() {
    local uri="redis://127.0.0.1:$1"
    fine "$uri"
    redis-cli -p "$1" config set maxmemory 100mb # without a limit nothing is evicted
    fine "$uri"
    redis-cli -p "$1" config set maxmemory-policy allkeys-lru
    complains "$uri" allkeys-lru
    redis-cli -p "$1" config set maxmemory-policy noeviction
    fine "$uri"
    redis-cli -p "$1" config set appendfsync everysec
    complains "$uri" everysec
    redis-cli -p "$1" config set appendfsync always
    fine "$uri"
    redis-cli -p "$1" config set appendonly no
    complains "$uri" append
}
eviction_and_append_file() {
    on_server redis --appendonly yes --appendfsync always -- redis_settings
}
shows "allkeys-lru, appendfsync everysec, no append file" eviction_and_append_file

redis_replica() {
    fine "redis://127.0.0.1:$2"
    redis-cli -p "$2" replicaof 127.0.0.1 "$1"
    complains "redis://127.0.0.1:$2" replica
}
standby() {
    on_server redis --count 2 --appendonly yes --appendfsync always -- redis_replica
}
shows "a standby" standby

redlock_node() {
    local uri="redlock://127.0.0.1:$1,127.0.0.1:$2,127.0.0.1:$3"
    fine "$uri"
    redis-cli -p "$3" shutdown nosave || true
    complains "$uri" "127.0.0.1:$3"
}
dead_node() {
    on_server redis --count 3 --appendonly yes --appendfsync always -- redlock_node
}
shows "a node of redlock that is down" dead_node

maria_settings() {
    local uri="mysql://u:secret@127.0.0.1:$1/locks"
    "$dlock" -u "$uri" run --nowait x -- true
    fine "$uri"
    mariadb --no-defaults -S "$4" -u root -e 'SET GLOBAL innodb_flush_log_at_trx_commit=0'
    complains "$uri" flush_log
    mariadb --no-defaults -S "$4" -u root -e 'SET GLOBAL innodb_flush_log_at_trx_commit=1'
    fine "$uri"
    mariadb --no-defaults -S "$4" -u root -e 'SET GLOBAL read_only=1' # as of a standby
    complains "$uri" read-only
    mariadb --no-defaults -S "$4" -u root -e 'SET GLOBAL read_only=0'
    fine "$uri"
    mariadb --no-defaults -S "$4" -u root -N locks -e 'SHOW TABLES' | while read -r table; do
        mariadb --no-defaults -S "$4" -u root locks -e "ALTER TABLE $table ENGINE=MyISAM"
    done
    complains "$uri" InnoDB
}
flush_and_engine() {
    on_server mariadb -- maria_settings
}
shows "innodb_flush_log_at_trx_commit=0, a read-only server, and MyISAM" flush_and_engine

postgres_settings() {
    local uri="postgresql://u:secret@127.0.0.1:$1/locks"
    ask() { psql -qAt -h "$dir" -p "$port" -U postgres -d locks -c "$1"; }
    port=$1 dir=$5
    "$dlock" -u "$uri" run --nowait x -- true
    fine "$uri"
    ask 'ALTER SYSTEM SET fsync = off'
    ask 'SELECT pg_reload_conf()'
    until [ "$(ask 'SHOW fsync')" = off ]; do sleep 0.1; done
    complains "$uri" fsync
}
flush_of_postgresql() {
    on_server postgres -- postgres_settings
}
shows "PostgreSQL with fsync=off" flush_of_postgresql

# A copy of the server that follows it, on the same port of another address.
postgres_standby() {
    local uri="postgresql://u:secret@127.0.0.1:$1/locks" copy="postgresql://u:secret@127.0.0.2:$1/locks"
    "$dlock" -u "$uri" run --nowait x -- true
    fine "$uri"
    echo 'local replication postgres trust' >>"$5/data/pg_hba.conf"
    psql -qAt -h "$5" -p "$1" -U postgres -d locks -c 'SELECT pg_reload_conf()'
    as_server "$5/data" mkdir "$5/second"
    until as_server "$5/data" "$(pg_config --bindir)/pg_basebackup" -R -D "$5/standby" -h "$5" -p "$1" -U postgres -c fast; do
        sleep 0.2 # the settings are read a moment later
    done
    as_server "$5/data" "$(pg_config --bindir)/postgres" -D "$5/standby" -p "$1" -c listen_addresses=127.0.0.2 \
        -c unix_socket_directories="$5/second" >"$5/second/log" 2>&1 &
    standby=$5/standby
    trap 'kill -INT "$(head -n 1 "$standby/postmaster.pid")"; wait' EXIT
    until psql -qAt -h "$5/second" -p "$1" -U postgres -d locks -c 'SELECT 1'; do sleep 0.2; done
    complains "$copy" standby
    until psql -qAt -h "$5" -p "$1" -U postgres -d locks -c 'SELECT count(*) FROM pg_stat_replication' | grep -qx 1; do
        sleep 0.2
    done
    complains "$uri" standbys
}
standby_of_postgresql() {
    on_server postgres -- postgres_standby
}
shows "a standby of PostgreSQL, and a server that has one" standby_of_postgresql
tap_end
