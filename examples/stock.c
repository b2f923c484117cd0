/* SPDX-License-Identifier: MIT */
/*
 * stock.c - four phones are left, and hundreds of clients order three or two each. The lock keeps
 * them apart; the fencing token keeps out the one that was stopped for longer than its lease and
 * goes on as if nothing had happened.
 *
 *     stock LOCK-URI SOCKET USER CLIENTS [unfenced]
 *
 * The phones are in a table of MariaDB (database of the user's own, "locks"; the password is in
 * STOCK_PASSWORD); the lock may be in any store. The first client is stopped in the middle of its
 * order until all others are done. Exit status: 0, or 1 if more was sold than there was, which
 * `unfenced` shows.
 */
#include <dlock/dlock.h>
#include <inttypes.h>
#include <mysql.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PHONES 4

enum { SOLD = 0, NOT_ENOUGH = 10, TOO_LATE = 11, FAILED = 12 }; /* exit status of a client */

struct shop {
    const char *uri, *socket, *user;
    bool fenced;
};

static MYSQL *connect_to(const struct shop *shop)
{
    MYSQL *db = mysql_init(NULL);
    unsigned protocol = MYSQL_PROTOCOL_SOCKET;

    (void)mysql_options(db, MYSQL_OPT_PROTOCOL, &protocol);
    if (mysql_real_connect(db, NULL, shop->user, getenv("STOCK_PASSWORD"), "locks", 0, shop->socket,
                           CLIENT_FOUND_ROWS) == NULL) {
        (void)fprintf(stderr, "stock: %s\n", mysql_error(db));
        exit(FAILED);
    }
    return db;
}

/* The rows that it found. */
__attribute__((format(printf, 2, 3))) static uint64_t query(MYSQL *db, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (mysql_query(db, text) != 0) {
        (void)fprintf(stderr, "stock: %s\n", mysql_error(db));
        exit(FAILED);
    }
    return mysql_affected_rows(db);
}

static int count_read(MYSQL *db)
{
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;
    int count = 0;

    (void)query(db, "SELECT count FROM stock WHERE item = 'phone'");
    result = mysql_store_result(db);
    row = mysql_fetch_row(result);
    count = (int)strtol(row[0], NULL, 10);
    mysql_free_result(result);
    return count;
}

/*
 * The resource remembers the greatest fence that it was shown. A holder shows its own *before* it
 * reads, so that nobody older can write between its reading and its writing; and each write is
 * bound to it, in the same statement.
 */
static bool fence_show(MYSQL *db, uint64_t fence)
{
    return query(db,
                 "UPDATE stock SET fence = %" PRIu64 " WHERE item = 'phone' AND fence <= %" PRIu64,
                 fence, fence) == 1;
}

static bool count_write(const struct shop *shop, MYSQL *db, int count, uint64_t fence)
{
    if (!shop->fenced)
        return query(db, "UPDATE stock SET count = %d WHERE item = 'phone'", count) == 1;
    return query(db, "UPDATE stock SET count = %d WHERE item = 'phone' AND fence = %" PRIu64, count,
                 fence) == 1;
}

/* With the lock held. */
static int sell(const struct shop *shop, MYSQL *db, const struct dlock_handle *lock, int amount,
                bool stops)
{
    uint64_t fence = dlock_fence(lock);
    int count = 0;

    if (shop->fenced && !fence_show(db, fence))
        return TOO_LATE;
    count = count_read(db);
    if (count < amount)
        return NOT_ENOUGH;
    if (dlock_state(lock) == DLOCK_STATE_LOST)
        return TOO_LATE;
    if (stops) /* any scheduler may do this to any program, here of all places */
        (void)raise(SIGSTOP);
    return count_write(shop, db, count - amount, fence) ? SOLD : TOO_LATE;
}

static int order(const struct shop *shop, int amount, bool stops)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;
    struct dlock_options options = DLOCK_OPTIONS_INIT;
    MYSQL *db = NULL;
    int outcome = FAILED;
    enum dlock_status status = dlock_client_open(shop->uri, NULL, &client, &err);

    options.ttl_ms = 1000;
    options.op_timeout_ms = 10000;
    if (status == DLOCK_OK)
        status = dlock_new(client, "phones", DLOCK_NUL, &options, &lock, &err);
    if (status == DLOCK_OK)
        status = dlock_timedlock(lock, 120000, &err);
    if (status == DLOCK_OK) {
        db = connect_to(shop);
        outcome = sell(shop, db, lock, amount, stops);
        mysql_close(db);
        if (dlock_unlock(lock, &err) != DLOCK_OK)
            (void)fprintf(stderr, "stock: %s\n", err.message);
    } else {
        (void)fprintf(stderr, "stock: %s\n", err.message);
    }
    dlock_free(lock);
    dlock_client_close(client);
    return outcome;
}

static pid_t client_start(const struct shop *shop, int amount, bool stops)
{
    pid_t pid = fork();

    if (pid == 0)
        exit(order(shop, amount, stops));
    return pid;
}

struct tally {
    int sold, refused, late, failed;
};

static void tally_add(struct tally *tally, int status, int amount)
{
    int outcome = WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;

    tally->sold += outcome == SOLD ? amount : 0;
    tally->refused += outcome == NOT_ENOUGH;
    tally->late += outcome == TOO_LATE;
    tally->failed += outcome != SOLD && outcome != NOT_ENOUGH && outcome != TOO_LATE;
}

static void everybody_orders(const struct shop *shop, long clients, struct tally *tally)
{
    pid_t stopped = client_start(shop, 3, true);
    pid_t *pids = calloc((size_t)clients, sizeof *pids);
    int status = 0;

    if (pids == NULL || waitpid(stopped, &status, WUNTRACED) != stopped || !WIFSTOPPED(status))
        exit(FAILED);
    for (long i = 1; i < clients; i++)
        pids[i] = client_start(shop, i % 2 == 0 ? 3 : 2, false);
    for (long i = 1; i < clients; i++) {
        if (waitpid(pids[i], &status, 0) == pids[i])
            tally_add(tally, status, i % 2 == 0 ? 3 : 2);
    }
    (void)kill(stopped, SIGCONT);
    if (waitpid(stopped, &status, 0) == stopped)
        tally_add(tally, status, 3);
    free(pids);
}

int main(int argc, char **argv)
{
    struct tally tally = {0};
    struct shop shop;
    long clients = argc > 4 ? strtol(argv[4], NULL, 10) : 0;
    MYSQL *db = NULL;

    if (clients < 2) {
        (void)fputs("usage: stock LOCK-URI SOCKET USER CLIENTS [unfenced]\n", stderr);
        return 64;
    }
    shop = (struct shop){.uri = argv[1], .socket = argv[2], .user = argv[3], .fenced = argc == 5};
    db = connect_to(&shop);
    (void)query(db, "CREATE TABLE IF NOT EXISTS stock (item VARCHAR(20) PRIMARY KEY, count INT NOT "
                    "NULL, fence BIGINT NOT NULL) ENGINE=InnoDB");
    (void)query(db, "REPLACE INTO stock VALUES ('phone', %d, 0)", PHONES);
    mysql_close(db);
    everybody_orders(&shop, clients, &tally);
    (void)printf(
        "%d phones, %ld clients: %d sold, %d told that there are not enough, %d too late, %d "
        "failed\n",
        PHONES, clients, tally.sold, tally.refused, tally.late, tally.failed);
    if (tally.failed > 0)
        return 2;
    return tally.sold > PHONES;
}
