#!/bin/bash
# stock.sh SOURCE-DIR BIN-DIR PORT SOCKET: C6 end to end. Does the fence keep the shop of examples/stock.c
# from selling what it has not, whatever keeps the lock, when a holder is stopped past its ttl? And is
# it the fence that does?
set -u
source_dir=$1 bin=$2 port=$3 socket=$4
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
export STOCK_PASSWORD=secret

# stock URI WORD...: the status of the program, with what it printed.
stock() {
    local uri=$1
    shift
    "$bin/stock" "$uri" "$socket" u 100 "$@"
}

oversells() {
    stock "$@"
    [ $? -eq 1 ]
}

# Others may be late as well on a machine that is busy with a hundred processes.
late_are_told() {
    local said
    said=$(stock "$1") || return
    echo "$said"
    [[ $said == *' '[1-9]' too late, 0 failed'* ]]
}

store="mysql://u:secret@127.0.0.1:$port/locks"
for uri in "$store?strategy=row&table_prefix=row_" "$store?strategy=insert&table_prefix=insert_" \
    "$store?strategy=session&table_prefix=session_" "sqlite://$tap_tmp/locks.db"; do
    check "C6 the late one is refused: ${uri/secret/***}" late_are_told "$uri"
done
check "C6 without the fence the shop oversells" oversells "$store?table_prefix=row_" unfenced
tap_end
