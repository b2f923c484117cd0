# shellcheck shell=bash
# The defects of tests/stress/mutants/run. The texts are code of the project: when that changes, they have to
# follow.

# slots PLUGIN SERVER CASES URI: the cases of that name, or those of that clause.
slots() {
    printf "with_server %s -- ./dlock-slot-check --slack 500 --only '%s' %s '%s'" "$2" "$3" "$1" "$4"
}
on_redis="redis://127.0.0.1:{port}?restart_guard=0"
on_postgresql="postgresql://u:secret@127.0.0.1:{port}/locks"

redis="dlock_plugin_redis with_server dlock-slot-check test_redis_guard test_redis_queue"
mysql="dlock_plugin_mysql with_server dlock-conformance dlock-slot-check test_mysql_faults test_mysql_wait test_mysql_order test_mysql_batch test_mysql_batch_cut"
on_mysql() {
    printf "with_server mariadb -- ./dlock-conformance --slack 500 --only %s " "$2"
    printf "'mysql://u:secret@127.0.0.1:{port}/locks?strategy=%s'" "$1"
}

mutant 1 "unlock does not look at the token" "$redis" \
    "$(slots redis redis UNL-1 "$on_redis")" \
    plugins/redis/lua/release.lua \
    "holder == ARGV[1] or ARGV[1] == '*'" "ARGV[1] ~= ''"

mutant 2 "a lease counts from the answer" dlock-sim \
    "dlock-sim --profile lossy --seed 1 --count 100" \
    core/acquire/acquire_fsm.c "grant->since_ns != 0 ? grant->since_ns : sent_ns" \
    "grant->since_ns != 0 ? grant->since_ns : now_ns"

mutant 3 "a clock that stands still during suspend" "dlock_plugin_memory test_skew_dlock" \
    "test_skew_dlock memory://mutant" \
    core/sys/clock.c "return dl_time_now_ns(CLOCK_BOOTTIME);" \
    "return dl_time_now_ns(CLOCK_MONOTONIC);"

mutant 4 "a renewal without an answer counts" dlock-sim \
    "dlock-sim --profile lossy --seed 1 --count 100" \
    core/hold/renewal.c "bool extended = answer->status == DLOCK_OK;" \
    "struct dl_renewal_answer yes = *answer;
    if (yes.status == DLOCK_UNKNOWN) yes.status = DLOCK_OK, yes.lease_ms = renewal->lease_ms;
    answer = &yes;
    bool extended = answer->status == DLOCK_OK;"

mutant 5 "one token a handle" dlock-sim \
    "dlock-sim --profile lossy --seed 1 --count 100" \
    core/hold/claim.c "    memcpy(claim->req.token, token, sizeof claim->req.token);" \
    "    if (claim->req.token[0] == 0) {
        memcpy(claim->req.token, token, sizeof claim->req.token);
        claim->req.token[0] = 1;
    }"

mutant 6 "a majority of the nodes that answer" "dlock_plugin_redlock test_quorum" \
    "test_quorum" \
    plugins/redlock/quorum.c "        tally.silent += votes[i] == QUORUM_SILENT;
    }" "        tally.silent += votes[i] == QUORUM_SILENT;
    }
    tally.need = redlock_quorum_need(nodes - tally.refused - tally.silent);"

# There are two who do it.
mutant 7 "nodes that were late keep what they granted" "dlock_plugin_redlock test_redlock_late" \
    "test_redlock_late --filter '*/TRY_4*'" \
    plugins/redlock/take.c "    return answer->state == ANSWER_PENDING || answer->state == ANSWER_SILENT ||
           (answer->state" "    return (answer->state" \
    plugins/redlock/round.c \
    "    if (is_followed(session, node, sent) ||
        redlock_client_attempt_lives(session->client, sent->token))" \
    "    if (is_followed(session, node, sent) || sent->kind == SENT_ACQUIRE)"

mutant 8 "a renewal takes what it does not hold" "$redis" \
    "$(slots redis redis REN-2 "$on_redis")" \
    plugins/redis/lua/renew.lua "    if owner == token then
        local stay" "    if not owner then
        redis.call('SET', name.lock, token, 'PX', ttl)
        owner = token
    end
    if owner == token then
        local stay"

mutant 9 "a connection is used again after a timeout" "test_engine_pool" \
    "test_engine_pool" \
    core/session/session_pool.c "bool broken = dl_session_pool_breaks(status);" \
    "bool broken = dl_session_pool_breaks(status) && status != DLOCK_UNKNOWN;"

mutant 10 "the fence rises in the transaction that holds the row" "$mysql" \
    "$(on_mysql session inspect_tells_all)" \
    plugins/mysql/session_lock.c \
    "    control_input(control, session, req);
    status = req->mode == DLOCK_SHARED ?" \
    "    my_control_end(&session->shared->control, control);
    control = &session->conn;
    control_input(control, session, req);
    status = req->mode == DLOCK_SHARED ?" \
    plugins/mysql/session_lock.c \
    "    grant->fence_room = MY_FENCE_STEP - 1;
    my_control_end(&session->shared->control, control);" \
    "    grant->fence_room = MY_FENCE_STEP - 1;"

mutant 11 "a row lock on a row that is not there" "$mysql" \
    "$(on_mysql session exclusion_handles)" \
    plugins/mysql/session_lock.c "    if (status == DLOCK_OK && !found) {
        my_query_rollback(conn);" "    if (status == DLOCK_OK && !found && conn->dead) {
        my_query_rollback(conn);"

mutant 12 "times of the session's zone" "$mysql" \
    "test_mysql_faults --filter '*/time_zones*'" \
    plugins/mysql/statements.c "UTC_TIMESTAMP(6))" "NOW(6))" \
    plugins/mysql/open.c "    add(settings, \"time_zone\", \"'+00:00'\", \"+00:00\");
" ""

mutant 13 "rows that did not change were not found" "$mysql" \
    "$(slots mysql mariadb REN-3 'mysql://u:secret@127.0.0.1:{port}/locks?strategy=insert')" \
    plugins/mysql/connection.c " CLIENT_FOUND_ROWS |" ""

mutant 14 "names compared as text" "$mysql" \
    "$(on_mysql row names_are_bytes)" \
    plugins/mysql/schema.c '[NAME] = {"VARBINARY(255) NOT NULL", "varbinary(255) NOT NULL", NULL}' \
    '[NAME] = {"VARCHAR(255) NOT NULL", "varchar(255) NOT NULL", NULL}'

mutant 15 "subscribed, and not asked again" "$redis" \
    "test_redis_queue --filter 'queue/a_subscriber*'" \
    plugins/redis/waiter.c "waiter->unheard ? subscribed : waiter->base.recheck != 0" \
    "!waiter->unheard && waiter->base.recheck != 0 && !subscribed"

mutant 16 "a renewal that failed is the last" dlock-sim \
    "dlock-sim --profile lossy --seed 1 --count 100" \
    core/hold/renewal.c "    if (renewal->automatic)
        renewal->at_ns =" "    renewal->at_ns = DL_NEVER;
    if (renewal->automatic && now_ns < 0)
        renewal->at_ns ="

# The library's own way does not get far: what lost its connection is looked for before each use, and
# whether the transaction is still there after it.
mutant 17 "a session that was lost is opened again in silence" "$mysql" \
    "test_mysql_wait --filter '*/C9*'" \
    plugins/mysql/connect.c "const my_bool off = 0;" "const my_bool off = 1;" \
    plugins/mysql/connection.c "#include <sys/socket.h>" "#include \"connect.h\"
#include \"open.h\"
#include <sys/socket.h>" \
    plugins/mysql/connection.c \
    "    return got == 0 || (got > 0 && !conn->tls) ? closed(conn, err) : DLOCK_OK;" \
    "    if (got >= 0) {
        my_connect_close(conn);
        return my_open(conn, deadline_ns, err);
    }
    return DLOCK_OK;" \
    plugins/mysql/connection.c "#define FRESH_NS (5 * DL_NS_PER_MS)" "#define FRESH_NS 0" \
    plugins/mysql/session_lock.c "    if (my_query_is_in_transaction(conn))" "    if (!conn->dead)"

mutant 18 "a child uses what its parent opened" "dlock_plugin_memory dlock-conformance" \
    "dlock-conformance --only fork_child_is_told memory://mutant" \
    core/sys/fork.c "return p == NULL || atomic_load(p) != generation;" \
    "return p == NULL || generation == 0;"

mutant 19 "a server that forgot its locks grants at once" "$redis" \
    "test_redis_guard --filter 'guard/restart_guard*'" \
    plugins/redis/call/call.c "pipeline->guard_until_ns - now(pool) : 0;" "pipeline->guard_until_ns * 0 : 0;"

mutant 20 "a reader renews all readers" "$redis" \
    "$(slots redis redis reader_by_itself "$on_redis")" \
    plugins/redis/lua/renew.lua "    readers_set(name, token, ends)
    return ends - now" "    for _, reader in ipairs(redis.call('ZRANGE', name.readers, 0, -1)) do
        readers_set(name, reader, ends)
    end
    return ends - now"

postgresql="dlock_plugin_postgresql with_server dlock-slot-check test_pg_session_faults"

# What waits finds the grant when it refreshes its queue entry.
mutant 21 "a waiter of another client is not told" "$postgresql" \
    "$(slots postgresql postgres wait_is_told "$on_postgresql")" \
    plugins/postgresql/statements.c '{"SELECT pg_notify($1, $2)"' '{"SELECT concat($1, $2)"'

mutant 22 "a name that was freed before its row was locked is busy" "$postgresql" \
    "$(slots postgresql postgres lease_ends "$on_postgresql")" \
    plugins/postgresql/row.sql \
    "  ELSIF what < 2 AND r.waiters = 0 AND r.until <= moment AND r.readers_until <= moment THEN" \
    "  ELSIF what < 0 THEN"

mutant 23 "a release without a look at the owner" "$postgresql" \
    "$(slots postgresql postgres UNL-1 "$on_postgresql")" \
    plugins/postgresql/row.sql \
    "      WHERE name = n AND token = t AND waiters = 0 AND until > clock_timestamp();" \
    "      WHERE name = n AND waiters = 0 AND until > clock_timestamp();"

mutant 24 "a refresh that enqueues" "$postgresql" \
    "$(slots postgresql postgres refresh_never_enqueues "$on_postgresql")" \
    plugins/postgresql/row.sql "  IF what = 1 THEN" "  IF what > 0 THEN"

mutant 25 "a session's lock counts before its fence is on the disk" "$postgresql" \
    "test_pg_session_faults --filter '*/C6_a_crash*'" \
    plugins/postgresql/session.sql \
    "    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
      PERFORM set_config('synchronous_commit', 'on', true);" \
    "    IF true THEN
      PERFORM set_config('synchronous_commit', 'off', true);"

mutant 37 "an unlock that follows one that passed the name on tells no waiter" \
    "dlock_plugin_postgresql test_pg_pass" "test_pg_pass --filter '*/NOTIFY_is_in*'" \
    plugins/postgresql/statements.c '{"SELECT pg_notify(split_part' '{"SELECT concat(split_part'

mutant 38 "whoever unlocks passes on a name that others wait for" "$postgresql" \
    "$(slots postgresql postgres unlock_keeps_the_entry "$on_postgresql")" \
    plugins/postgresql/row.sql "  IF r.token = t AND r.until > moment AND r.waiters > 0" \
    "  IF r.until > moment AND r.waiters > 0"

mutant 39 "a grant by an unlock is not on the disk when it is answered" \
    "dlock_plugin_postgresql test_pg_hostile" "test_pg_hostile --filter '*/CRASH_SAFE*'" \
    plugins/postgresql/row.sql \
    "      IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        note := set_config('synchronous_commit', 'on', true);
      END IF;
      IF q.token" \
    "      note := set_config('synchronous_commit', 'off', true);
      IF q.token"

pg_batch="dlock_plugin_postgresql test_pg_batch test_pg_batch_faults dlock-faultproxy"

mutant 43 "an error of one element of a batch is that of all" "$pg_batch" \
    "test_pg_batch --filter '*/BAT_1_an_error*'" \
    plugins/postgresql/row_batch.c "    } else if (conn->dead || status == DLOCK_UNKNOWN) {" \
    "    } else if (part.n > 0) {"

mutant 44 "a batch locks its names in the order of the caller" "$pg_batch" \
    "test_pg_batch_faults --filter '*/C1_BAT_4*'" \
    plugins/postgresql/statements.c " ORDER BY u.name, u.i OFFSET 0) x" " OFFSET 0) x"

mutant 45 "an unlock that need not be on the disk speaks for a batch that passes a name on" "$pg_batch" \
    "test_pg_batch_faults --filter '*/CRASH_SAFE_a_grant*'" \
    plugins/postgresql/statements.c "bool_or(e.sync <> 'off')" "bool_or(e.sync = 'never')"

mutant 56 "an answer that a pooler hands over to the wrong client counts" \
    "dlock_plugin_postgresql test_pg_stray" "test_pg_stray --filter '*/C1_another*'" \
    plugins/postgresql/query.c "    return !conn->proven ||" "    return conn->config == NULL &&"

etcd="dlock_plugin_etcd with_server dlock-slot-check test_etcd_watch test_etcd_doubt test_etcd_handoff dlock-faultproxy"

mutant 26 "a lease is used again before the answer that its key is gone" "$etcd" \
    "with_server etcd -- test_etcd_doubt --filter '*/UNL_2*'" \
    plugins/etcd/unlock.c "    else
        etcd_lease_drop(deletion.lease);" "    else
        etcd_lease_pool_put(&session->pool, deletion.lease);"

mutant 27 "keys are deleted by the name alone" "$etcd" \
    "$(slots etcd etcd dequeue_passes_on 'etcd://127.0.0.1:{port}/locks') --grid 1000" \
    plugins/etcd/unlock.c "    etcd_txn_delete(&txn.then, key);" \
    "    etcd_txn_delete(&txn.then, etcd_txn_bytes(keys->key, keys->dir_len));
    txn.then.delete.range_end = etcd_txn_bytes(keys->end, keys->dir_len);"

# It is told all the same, but in steps of 100 ms.
mutant 28 "a watch begins at a revision of the past" "$etcd" \
    "with_server etcd -- test_etcd_handoff --filter '*/WAT_1*'" \
    plugins/etcd/watch.c "    create.filters = &no_put;" "    create.filters = &no_put;
    create.start_revision = watch->slot->read_revision + 1;"

mutant 29 "a fence without room for the hand-offs of a client" "$etcd" \
    "$(slots etcd etcd fence_rises 'etcd://127.0.0.1:{port}/locks') --grid 1000" \
    plugins/etcd/queue.c "grant->fence = (uint64_t)slot->create_revision * scale;" \
    "grant->fence = (uint64_t)slot->create_revision;"

mutant 30 "a waiter does not watch its own entry" "$etcd" \
    "with_server etcd -- test_etcd_watch --filter '*/BRK_1*'" \
    plugins/etcd/watch.c "    return others && watcher_add(watch, keys->key, keys->key_len, NULL, 0, false);" \
    "    return others;" \
    plugins/etcd/watch.c "#define WATCHERS     2" "#define WATCHERS     1"

zookeeper="dlock_plugin_zookeeper with_server test_zk_queue test_zk_slots test_zk_doubt test_zk_watch test_zk_follower dlock-faultproxy"

# The follower's own answers say that the node is there, and count as the leader's. A sync of the
# session would hold them back.
mutant 31 "a renewal believes a follower" "$zookeeper" \
    "test_zk_follower 1" \
    plugins/zookeeper/renew.c "zk_exchange_add(batch->exchange, ZK_SYNC, path);" \
    "zk_exchange_add(batch->exchange, ZK_EXISTS, path);" \
    plugins/zookeeper/liveness.c "    add(liveness, sent_ns, answered_ns);" \
    "    add(liveness, sent_ns, answered_ns);
    prove(liveness, sent_ns);" \
    plugins/zookeeper/link.c 'zk_exchange_add(exchange, ZK_SYNC, "/")' \
    'zk_exchange_add(exchange, ZK_EXISTS, "/")'

mutant 32 "fences by the sequence, which begins anew with its parent" "$zookeeper" \
    "with_server zookeeper -- test_zk_slots --filter '*/TRY_6_the_fences*'" \
    plugins/zookeeper/slot.c "    grant->fence = (uint64_t)attempt->slot->czxid * FENCE_SCALE;" \
    "    grant->fence = strtoull(attempt->slot->node + strlen(attempt->slot->node) - 10, NULL, 10);
    grant->fence = (grant->fence + 1) * FENCE_SCALE;"

mutant 33 "contenders in the order of their names" "$zookeeper" \
    "test_zk_queue --filter '*/C16_a_writer*'" \
    plugins/zookeeper/queue.c "    if (a->order != b->order)" \
    "    if (a->order == LAST || b->order == LAST)"

mutant 34 "a lost answer to a create leaves no doubt" "$zookeeper" \
    "with_server zookeeper -- test_zk_doubt --filter '*/TRY_1_TRY_5*'" \
    plugins/zookeeper/take.c "        slot->doubts++;
        return;" "        return;"

mutant 35 "a reader waits for any node before it" "$zookeeper" \
    "test_zk_queue --filter '*/C12_a_reader*'" \
    plugins/zookeeper/queue.c "        if (shared && contender.node.shared)" "        if (shared && contender.order < 0)"

mutant 36 "an unlock without an answer is the end of it" "$zookeeper" \
    "with_server zookeeper -- test_zk_doubt --filter '*/UNL_2_TET_3*'" \
    plugins/zookeeper/slot.c "    if (slot->node[0] != '\\0' || slot->doubts > 0)
        zk_leftover_add" "    if (slot->doubts > 9)
        zk_leftover_add"

mutant 57 "an element of a batch says what is true of the others" "dlock_plugin_zookeeper with_server test_zk_batch" \
    "with_server zookeeper -- test_zk_batch --filter '*/BAT_2_an_element*'" \
    plugins/zookeeper/exchange.c "    status = outcome(exchange, first, count, err);" \
    "    (void)count;
    status = outcome(exchange, first, exchange->count - first, err);"

mutant 40 "a batch gives back what others hold" "$mysql" \
    "$(slots mysql mariadb batch_each_its_own 'mysql://u:secret@127.0.0.1:{port}/locks?strategy=row')" \
    plugins/mysql/statements.c "WHERE name IN (@b) AND token = @t AND" "WHERE name IN (@b) AND"

mutant 41 "a batch without an answer was not sent" "$mysql" \
    "test_mysql_batch_cut --filter 'row/BAT_2_without*'" \
    plugins/mysql/row_batch.c "    for (size_t i = 0; i < n; i++) {
        const bool executed" "    if (answer->count == 0 && status == DLOCK_UNKNOWN)
        status = DLOCK_UNAVAILABLE;
    for (size_t i = 0; i < n; i++) {
        const bool executed"

mutant 46 "a name that a batch took is called certainly not taken" "$mysql" \
    "test_mysql_batch --filter 'insert/BAT_2_what*'" \
    plugins/mysql/row_batch.c "items[i]->repeated |= taken ||" "items[i]->repeated |= false &&"

mutant 42 "a batch takes what is reserved for a waiter" "$mysql" \
    "test_mysql_batch --filter 'row/BAT_1_a_name_that_is_reserved'" \
    plugins/mysql/statements.c '" WHERE name IN (@b) AND " OVER " AND " UNREAD " AND " NOT_RESERVED' \
    '" WHERE name IN (@b) AND " OVER " AND " UNREAD'

mutant 52 "a first waiter reserves a row only if nobody uses it" "$mysql" \
    "test_mysql_order --filter 'row/C13_a_head_reserves*'" \
    plugins/mysql/row_queue.c "    if (is_contended(status, &why)) {" "    if (is_contended(status, &why) && ns < 0) {"

mutant 53 "a waiter behind the first one takes what it finds free" "$mysql" \
    "test_mysql_order --filter 'row/C13_a_waiter_behind*'" \
    plugins/mysql/row_lease.c "my_queue_is_behind(slot->queue) ||" "my_queue_is_behind(NULL) ||"

mutant 54 "a name without a fence is reserved for nobody" "$mysql" \
    "test_mysql_order --filter 'insert/C13_a_head_reserves_a_name*'" \
    plugins/mysql/row_queue.c "conn->affected == 0 && conn->config->strategy == MY_INSERT" \
    "conn->affected == 0 && conn->config->strategy == MY_SESSION"

mutant 55 "a waiter that takes what no first waiter took says that there was one" "$mysql" \
    "test_mysql_order --filter '*/C13_a_waiter_whose*'" \
    plugins/mysql/row_lease.c "conn->input.number = my_queue_is_head(slot->queue);" \
    "conn->input.number = slot->queue != NULL;"

numbers="dlock_plugin_redlock test_redlock_numbers"

mutant 47 "a node keeps the numbers of leases until its clock has passed them" "$numbers" \
    "test_redlock_numbers --filter '*/C6_after_clocks*'" \
    plugins/redlock/lua/acquire.lua \
    "        redis.call('SET', KEYS[1] .. ':f', string.format('%.0f', number), 'PX', 86400000)
" "        redis.call('SET', KEYS[1] .. ':f', string.format('%.0f', number), 'PX',
                   math.max(1, math.ceil((number + 32 - clock) / 1000)))
"

mutant 48 "a node forgets a number that it was asked to raise" "$numbers" \
    "test_redlock_numbers --filter '*/C6_a_number_that_was_raised*'" \
    plugins/redlock/lua/name.lua "    if number > 0 then
        redis.call('SET', name.counter" "    if number > now_us * 2 then
        redis.call('SET', name.counter"

mutant 49 "a token begins before a majority has it" "$numbers" \
    "test_redlock_numbers --filter '*/C6_a_number_that_was_raised*'" \
    plugins/redlock/take.c "choice->agreed < taking->session->config->need;" \
    "choice->agreed == 0;"

mutant 50 "a token counts whatever the clock of its node is" "$numbers" \
    "test_redlock_numbers --filter '*/C6_clocks_that_were_set*'" \
    plugins/redlock/fence.c "    return vote->clock_us > 0 && vote->number <= number &&
           number + REDLOCK_FENCE_NUMBERS <= vote->clock_us + ttl_ms * US_PER_MS;" \
    "    return vote->clock_us > 0 && vote->number <= number && ttl_ms > 0;"

mutant 51 "a batch is won if its first name is" "dlock_plugin_redlock with_server dlock-slot-check" \
    "$(slots redlock "redis --count 3" batch_each_its_own 'redlock://127.0.0.1:{port},127.0.0.1:{port2},127.0.0.1:{port3}?restart_guard=0')" \
    plugins/redlock/take.c "takes[i]->verdict = takes[i]->round.verdict;" \
    "takes[i]->verdict = takes[0]->round.verdict;"

mutant 58 "a batch releases names that others hold" "dlock_plugin_redis test_redis_many" \
    "test_redis_many --filter 'many/BAT_1_each_name_is_released*'" \
    plugins/redis/lua/release_many.lua "redis.pcall('GET', lock) == ARGV[i] and" "redis.pcall('GET', lock) and"

mutant 59 "a batch takes a name that somebody waits for" "dlock_plugin_redis test_redis_many" \
    "test_redis_many --filter 'many/BAT_1_each_name_is_tried*'" \
    plugins/redis/lua/acquire_many.lua "lock .. ':q'" "lock .. ':x'"

mutant 60 "an error that says nothing is taken for no" "dlock_plugin_redis test_redis_many_answers" \
    "test_redis_many_answers --filter 'answers/TRY_4_an_error_that_does_not*'" \
    plugins/redis/lease_batch.c "many->call.outcome.refused && status == DLOCK_UNKNOWN" "many->call.outcome.refused && status == DLOCK_OK"

mutant 61 "leases count from the answer to a shared exchange" "test_engine_combine" \
    "test_engine_combine --filter '*/C2_a_lease*'" \
    core/acquire/try_batch.c "dl_acquire_steps_tried(exchange.attempts[i], batch->sent_ns," \
    "dl_acquire_steps_tried(exchange.attempts[i], dl_client_now(client),"

mutant 62 "a commit without an answer is taken for no" "$mysql dlock-faultproxy" \
    "with_server mariadb -- ./dlock-slot-check --slack 1000 --proxy 127.0.0.1:{port} --only answers_end mysql 'mysql://u:secret@127.0.0.1:{port}/locks?strategy=row&session_grace=2s'" \
    plugins/mysql/query.c '    conn->in_transaction = false;
    return transaction_end(conn, "COMMIT", err);' '    enum dlock_status status = transaction_end(conn, "COMMIT", err);
    conn->in_transaction = false;
    return status;'

mutant 63 "a client's session is not closed" "$zookeeper dlock-slot-check" \
    "$(slots zookeeper zookeeper closed_session 'zk://127.0.0.1:{port}/a?ttl=3s')" \
    plugins/zookeeper/link.c "(link->events & POLLOUT) != 0 ? SHUT_RDWR : SHUT_RD" "SHUT_RDWR"

mutant 64 "a confirmed renewal does not move the end of the process on" "test_engine_deadman" \
    "test_engine_deadman --filter '*/C25_a_confirmed*'" \
    core/hold/deadman.c "    dl_schedule_set(" "    if (lock->kill_end->heap_index == 0)
        dl_schedule_set("

mutant 65 "the end of the process is moved on before the renewal is confirmed" "test_engine_deadman" \
    "test_engine_deadman --filter '*/C25_a_renewal_that*'" \
    core/hold/renewer.c '#include "hold/held.h"' '#include "hold/deadman.h"
#include "hold/held.h"' \
    core/hold/renewer.c "        lock->renewer_busy = true;
        renew_prepare_locked(lock);" "        lock->renewer_busy = true;
        dl_lease_extend(&lock->lease, now_ns, now_ns + lock->renewal.lease_ms * 900000);
        dl_deadman_hold_locked(lock, dl_lease_until_ns(&lock->lease));
        renew_prepare_locked(lock);"

mutant 66 "the process can be ended after the release was sent" "test_engine_deadman" \
    "test_engine_deadman --filter '*/C25_it_is_disarmed*'" \
    core/hold/held.c "    dl_deadman_end_locked(lock);
" "" core/hold/unlock.c '#include "hold/held.h"' '#include "hold/deadman.h"
#include "hold/held.h"' \
    core/hold/unlock.c "    lock->may_be_kept |= may_be_executed(status);" \
    "    dl_deadman_end_locked(lock);
    lock->may_be_kept |= may_be_executed(status);"

mutant 67 "a claim that was adopted or handed on does not end the process" "test_engine_deadman" \
    "test_engine_deadman --filter '*/C25_a*is_armed'" \
    core/hold/deadman.c "    if (lock->kill_end == NULL || lock->kill_disarmed)
        return;
    dl_schedule_set(" "    if (lock->kill_end == NULL || lock->kill_disarmed || lock->claim->handoffs > 0)
        return;
    dl_schedule_set("
