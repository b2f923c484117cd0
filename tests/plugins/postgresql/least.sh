#!/bin/bash
# least.sh SOURCE-DIR SOCKET-DIR PORT SCRIPT COMMAND...: what plugins/postgresql/README.md tells an
# administrator to do for role least, as the owner of the database, and then COMMAND.
set -eu
source_dir=$1 socket_dir=$2 port=$3 script=$4
shift 4
administer() {
    PGPASSWORD=secret psql -X -q -v ON_ERROR_STOP=1 -v app=least -h "$socket_dir" -p "$port" -U u \
        -f "$source_dir/plugins/postgresql/$1" locks
}
administer "$script" && administer grants.sql
exec "$@"
