/* SPDX-License-Identifier: MIT */
#include "bare_maria.h"
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN  "0123456789abcdef"
#define NOW_US "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS INTEGER)"
#define TABLE  "dlock_bench"
#define ANY    "name = ? AND (token = '' OR until_us < " NOW_US ")"

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS " TABLE " (name VARBINARY(255) PRIMARY KEY, fence BIGINT NOT NULL,"
    " token VARBINARY(40) NOT NULL, until_us BIGINT NOT NULL) ENGINE=InnoDB";

/* The statements of a pair: up to three for a lock, and two for an unlock. */
struct recipe {
    const char *lock[3], *unlock[2];
    int second; /* the index of the statement of lock for the second connection; 0: none */
};

#define TAKE                                                                          \
    "UPDATE " TABLE " SET token = '" TOKEN "', fence = fence + 1, until_us = " NOW_US \
    " + 30000000 WHERE " ANY
#define RETURN \
    "UPDATE " TABLE " SET token = '', until_us = 0 WHERE name = ? AND token = '" TOKEN "'"

static const struct recipe update_recipe = {
    .lock = {TAKE},
    .unlock = {RETURN},
};

static const struct recipe queue_recipe = {
    .lock = {"SELECT GET_LOCK(?, 30)", TAKE},
    .unlock = {RETURN, "SELECT RELEASE_LOCK(?)"},
};

static const struct recipe getlock_recipe = {
    .lock = {"SELECT GET_LOCK(?, 30)"},
    .unlock = {"SELECT RELEASE_LOCK(?)"},
};

static const struct recipe session_recipe = {
    .lock = {"BEGIN", "SELECT 1 FROM " TABLE " WHERE name = ? FOR UPDATE",
             "UPDATE " TABLE " SET fence = fence + 1 WHERE name = CONCAT(?, '-fence')"},
    .unlock = {"COMMIT"},
    .second = 2,
};

struct worker {
    MYSQL *maria, *second;
    char name[64];
    const char *texts[1];
    struct bench_statement lock[3], unlock[2];
};

static int name_of(char *name, size_t size, const struct bench_config *config, int index)
{
    return snprintf(name, size, "bench-%d-%d", config->run, config->one_name ? 0 : index);
}

static int row_make(MYSQL *maria, const char *name, char *why)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "INSERT IGNORE INTO " TABLE " VALUES ('%s', 0, '', 0), ('%s-fence', 0, '', 0)",
                   name, name);
    return bench_maria_do(maria, text, why);
}

/* Makes the table, and the rows of the common name or of the first worker. */
static int maria_prepare(const struct bench_config *config, char *why)
{
    struct bench_address address;
    char name[64];
    MYSQL *maria = NULL;
    int rc = -1;

    if (bench_address_parse(config->uri, &address) != 0)
        return -1;
    maria = bench_maria_connect(&address, why);
    if (maria == NULL)
        return -1;
    (void)name_of(name, sizeof name, config, 0);
    rc = bench_maria_do(maria, schema, why);
    if (rc == 0)
        rc = bench_maria_do(maria, "DELETE FROM " TABLE, why);
    if (rc == 0)
        rc = row_make(maria, name, why);
    mysql_close(maria);
    return rc;
}

static void maria_end(void *arg)
{
    struct worker *worker = arg;

    for (int i = 0; i < 3; i++)
        bench_statement_close(&worker->lock[i]);
    for (int i = 0; i < 2; i++)
        bench_statement_close(&worker->unlock[i]);
    mysql_close(worker->second);
    mysql_close(worker->maria);
    free(worker);
}

static int recipe_open(struct worker *worker, const struct recipe *recipe, char *why)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < 3 && recipe->lock[i] != NULL; i++)
        rc = bench_statement_open(&worker->lock[i],
                                  recipe->second != 0 && i == recipe->second ? worker->second
                                                                             : worker->maria,
                                  recipe->lock[i], worker->texts, why);
    for (int i = 0; rc == 0 && i < 2 && recipe->unlock[i] != NULL; i++)
        rc = bench_statement_open(&worker->unlock[i], worker->maria, recipe->unlock[i],
                                  worker->texts, why);
    return rc;
}

static struct worker *worker_new(const struct bench_address *address,
                                 const struct bench_config *config, int index, char *why)
{
    struct worker *worker = calloc(1, sizeof *worker);

    if (worker == NULL) {
        (void)bench_maria_failed(NULL, why);
        return NULL;
    }
    (void)name_of(worker->name, sizeof worker->name, config, index);
    worker->texts[0] = worker->name;
    worker->maria = bench_maria_connect(address, why);
    if (worker->maria != NULL)
        return worker;
    free(worker);
    return NULL;
}

static void *recipe_begin(const struct recipe *recipe, void *process,
                          const struct bench_config *config, int index, char *why)
{
    struct worker *worker = worker_new(process, config, index, why);

    if (worker == NULL)
        return NULL;
    if (recipe->second != 0)
        worker->second = bench_maria_connect(process, why);
    if ((recipe->second == 0 || worker->second != NULL) &&
        row_make(worker->maria, worker->name, why) == 0 && recipe_open(worker, recipe, why) == 0)
        return worker;
    maria_end(worker);
    return NULL;
}

static void *update_begin(void *process, const struct bench_config *config, int index, char *why)
{
    return recipe_begin(&update_recipe, process, config, index, why);
}

static void *getlock_begin(void *process, const struct bench_config *config, int index, char *why)
{
    return recipe_begin(&getlock_recipe, process, config, index, why);
}

static void *queue_begin(void *process, const struct bench_config *config, int index, char *why)
{
    return recipe_begin(&queue_recipe, process, config, index, why);
}

static void *session_begin(void *process, const struct bench_config *config, int index, char *why)
{
    return recipe_begin(&session_recipe, process, config, index, why);
}

static void *text_begin(void *process, const struct bench_config *config, int index, char *why)
{
    return worker_new(process, config, index, why);
}

static int maria_lock(void *arg, char *why)
{
    struct worker *worker = arg;

    for (int i = 0; i < 3 && worker->lock[i].statement != NULL; i++)
        if (bench_statement_run(&worker->lock[i], why) != 0)
            return -1;
    return 0;
}

static int maria_unlock(void *arg, char *why)
{
    struct worker *worker = arg;

    for (int i = 0; i < 2 && worker->unlock[i].statement != NULL; i++)
        if (bench_statement_run(&worker->unlock[i], why) != 0)
            return -1;
    return 0;
}

static int text_run(struct worker *worker, const char *before, const char *after, char *why)
{
    char text[384];

    (void)snprintf(text, sizeof text, "%s'%s'%s", before, worker->name, after);
    return bench_maria_do(worker->maria, text, why);
}

static int text_lock(void *arg, char *why)
{
    return text_run(arg,
                    "UPDATE " TABLE " SET token = '" TOKEN
                    "', fence = fence + 1, until_us = " NOW_US " + 30000000 WHERE name = ",
                    " AND token = ''", why);
}

static int text_unlock(void *arg, char *why)
{
    return text_run(arg, "UPDATE " TABLE " SET token = '', until_us = 0 WHERE name = ",
                    " AND token = '" TOKEN "'", why);
}

#define MARIA(begin_, lock_, unlock_)                                                           \
    {                                                                                           \
        .prepare = maria_prepare, .open = bench_address_open, .close = free, .begin = (begin_), \
        .end = maria_end, .lock = (lock_), .unlock = (unlock_),                                 \
    }

const struct bench_work bench_work_maria_update = MARIA(update_begin, maria_lock, maria_unlock);
const struct bench_work bench_work_maria_getlock = MARIA(getlock_begin, maria_lock, maria_unlock);
const struct bench_work bench_work_maria_queue = MARIA(queue_begin, maria_lock, maria_unlock);
const struct bench_work bench_work_maria_session = MARIA(session_begin, maria_lock, maria_unlock);
const struct bench_work bench_work_maria_text = MARIA(text_begin, text_lock, text_unlock);
