#!/bin/bash
# SPDX-License-Identifier: MIT
# Does a server live exactly as long as its run? A shell stands for ctest.
#
#     test_run_server.sh SOURCE-DIR BIN-DIR
set -u
source_dir=$1 with_server=$2/with_server run_directory=$2/../tests/kit/servers/run
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
unset DLT_RUN_SERVER

# a_run COMMANDS: in a shell that is a run of its own.
a_run() {
    bash -uc "with_server=$with_server; $1"
}

# The directory of the server, and its keeper: a test of the run writes them to where.
where='DLT_RUN_SERVER=etcd "$with_server" etcd -- bash -c '\''echo {dir} $DLT_RUN_KEEPER'\'' >'"$tap_tmp/where"

# lives PID: a zombie does not. In a container nobody may reap it.
lives() {
    grep -qs '^State:.[^Z]' "/proc/$1/status"
}

# has_ended: the server and its keeper are no more, soon.
has_ended() {
    local directory keeper i
    read -r directory keeper <"$tap_tmp/where"
    [ -n "$keeper" ] || return
    for ((i = 0; i < 200; i++)); do
        ! [ -e "$directory" ] && ! lives "$keeper" && return
        sleep 0.05
    done
    echo "left: $directory, $keeper"
    return 1
}

has_names_of_their_own() {
    a_run '"$with_server" etcd --begin >&2 || exit
        for i in 1 2; do DLT_RUN_SERVER=etcd "$with_server" etcd -- echo {port} {name}; done
        "$with_server" etcd -- echo {port} {name}
        "$with_server" etcd --end >&2' >"$tap_tmp/names" || return
    cat "$tap_tmp/names"
    same 2 "$(cut -d' ' -f1 "$tap_tmp/names" | sort -u | wc -l)" # the run's, and one for the last alone
    same 3 "$(cut -d' ' -f2 "$tap_tmp/names" | sort -u | wc -l)"
}

ends_with_a_killed_run() {
    a_run "\"\$with_server\" etcd --begin && $where && kill -KILL \$\$"
    same 137 $? && has_ended
}

outlives_its_begin() {
    a_run "file=$run_directory/etcd.\$\$
        \"\$with_server\" etcd --begin >&2 & until [ -e \"\$file\" ]; do sleep 0.01; done
        kill -KILL \$! && wait \$!
        until grep -q KEEPER \"\$file\"; do sleep 0.05; done
        sleep 0.2; $where && \"\$with_server\" etcd --end >&2" && has_ended
}

shows_its_log() {
    a_run '"$with_server" mariadb --begin >&2 || exit
        ! DLT_RUN_SERVER=mariadb "$with_server" mariadb -- false 2>&1
        "$with_server" mariadb --end >&2' >"$tap_tmp/told" || return
    cat "$tap_tmp/told"
    grep -q '^# the end of .*/log:$' "$tap_tmp/told" && grep -q '^#   .*ready for connections' "$tap_tmp/told"
}

# A process that has left the run: its parent has ended. Its status is the last line of the file.
has_left='( parent=$BASHPID; {
    me=$BASHPID
    while [ "$(sed -n "s/^PPid:\t//p" "/proc/$me/status")" = "$parent" ]; do sleep 0.05; done
    DLT_RUN_SERVER=etcd "$with_server" etcd -- true
    echo "status $?" >&2
} 2>'"$tap_tmp/other"' & )'

is_not_another_runs() {
    a_run "\"\$with_server\" etcd --begin >&2 && $where
        $has_left
        until grep -q status $tap_tmp/other; do sleep 0.05; done
        \"\$with_server\" etcd --end >&2" || return
    cat "$tap_tmp/other"
    grep -q "this run has no server" "$tap_tmp/other" && same "status 69" "$(tail -n 1 "$tap_tmp/other")" && has_ended
}

tells_of_a_test_that_ended_it() {
    a_run "\"\$with_server\" etcd --begin >&2 && $where && read -r _ keeper <$tap_tmp/where &&
        kill -KILL \$(pgrep -P \"\$keeper\") && $(declare -f lives) && while lives \"\$keeper\"; do sleep 0.05; done
        \"\$with_server\" etcd --end" >"$tap_tmp/end"
    same 1 $? && grep -q "^not ok 1" "$tap_tmp/end" && has_ended
}

fails_without_the_program() {
    a_run 'PATH=/nowhere "$with_server" etcd --begin' >"$tap_tmp/begin"
    same 1 $? && grep -q "^not ok 1" "$tap_tmp/begin"
}

check "each test has a name of its own on the server of the run" has_names_of_their_own
check "a killed run leaves no server" ends_with_a_killed_run
check "a server outlives the program that began it, if that is killed" outlives_its_begin
check "a test that fails shows the log of the server of the run" shows_its_log
check "what is no process of the run gets no server, and fails" is_not_another_runs
check "a test that ends the server makes the run fail" tells_of_a_test_that_ended_it
check "a server that cannot begin fails" fails_without_the_program
tap_end
