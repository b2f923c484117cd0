#!/bin/bash
# Do the examples with an event loop lock and unlock each name, also one that another loop waits for?
#
#     test_examples.sh SOURCE-DIR PROGRAM-DIR LIBRARY
set -u
source_dir=$1 programs=$2 library=$3
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
uri="sqlite://$tap_tmp/locks.db"
export DLOCK_LIBRARY=$library PYTHONPATH=$source_dir/bindings/python PYTHONDONTWRITEBYTECODE=1

# locks_all COMMAND...: ten names, and one of them twice, all locked in the end.
locks_all() {
    timeout 60 "$@" "$uri" a b c d e f g h i j j >"$tap_tmp/out" || return
    cat "$tap_tmp/out"
    [ "$(sort "$tap_tmp/out" | grep -c ': locked, fence [1-9]')" -eq 11 ] &&
        [ "$(cut -d : -f 1 "$tap_tmp/out" | sort -u | tr -d '\n')" = abcdefghij ]
}

# short FILE: at most 60 lines.
short() {
    [ "$(wc -l <"$1")" -le 60 ]
}

check "an epoll loop locks all names" locks_all "$programs/loop_epoll"
check "a loop of libuv locks all names" locks_all "$programs/loop_uv"
check "an asyncio loop locks all names" locks_all python3 "$source_dir/examples/loop_asyncio.py"
both() {
    locks_all "$programs/loop_epoll" &
    timeout 60 python3 "$source_dir/examples/loop_asyncio.py" "$uri" a b c >"$tap_tmp/other" || return
    wait $! && [ "$(grep -c locked "$tap_tmp/other")" -eq 3 ]
}
check "two loops on the same names at once" both
for file in loop_epoll.c loop_uv.c loop_asyncio.py; do
    check "$file has at most 60 lines" short "$source_dir/examples/$file"
done
tap_end
