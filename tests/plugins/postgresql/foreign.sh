#!/bin/bash
# foreign.sh SOURCE-DIR DLOCK SOCKET-DIR PORT URI -- COMMAND...: COMMAND, where another role has made every
# name of the server once more in a schema that the role of the URI searches first, and every function
# of dlock once more with other types. Fails if one of them was called, or COMMAND failed. SOCKET-DIR,
# PORT: of the server itself; the URI may lead through a pooler.
set -u
here=$1/tests/plugins/postgresql dlock=$2 socket_dir=$3 port=$4 uri=$5
shift 6
administer() {
    psql -X -q -v ON_ERROR_STOP=1 -h "$socket_dir" -p "$port" -U postgres -f "$1" locks || exit
}
administer "$here/foreign.sql"
"$dlock" -u "$uri" run made -- "$dlock" -u "$uri" doctor >&2 || exit
administer "$here/foreign_beside.sql"
"$@"
status=$?
if grep FOREIGN "$socket_dir/log" >&2; then
    echo "names of another role were used" >&2
    exit 1
fi
exit "$status"
