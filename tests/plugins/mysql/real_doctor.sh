#!/bin/bash
# real_doctor.sh SOURCE-DIR BIN-DIR PORT: a MySQL without performance_schema.
set -u
source_dir=$1 dlock=$2/dlock
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
export DLOCK_URI=mysql://u:secret@127.0.0.1:$3/locks

advice_is_given() {
    local status
    "$dlock" doctor --strict
    status=$?
    same 1 "$status"
}
says_what_is_missing() { "$dlock" doctor | grep -A 1 '^check      performance_schema: 0$' | grep 'nobody sees waiters'; }

check "it locks" "$dlock" run x -- true
check "doctor --strict is not content" advice_is_given
check "doctor says what is missing" says_what_is_missing
tap_end
