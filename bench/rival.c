/* SPDX-License-Identifier: MIT */
#include "rival.h"

#include "stopwatch.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ABSENT    69 /* the exit status of a rival that is not installed */
#define START_NS  (30 * BENCH_NS_PER_S)
#define WORDS_MAX 16

#define COMMAND(...) ((const char *const[]){__VA_ARGS__, NULL})
#define PYTHON       "/usr/bin/python3"
#define MANY         (BENCH_FITS_ALONE | BENCH_FITS_OWN)
#define ANY          (MANY | BENCH_FITS_ONE)

const struct bench_rival bench_rivals[] = {
    {"redis-py", BENCH_REDIS, COMMAND(PYTHON, "%/redis_py.py"), ANY},
    {"tooz on Redis", BENCH_REDIS, COMMAND(PYTHON, "%/tooz_lock.py", "redis"), ANY},
    {"symfony/lock on Redis", BENCH_REDIS, COMMAND("php", "%/symfony.php", "redis"),
     BENCH_FITS_ALONE | BENCH_FITS_ONE},
    {"redis-semaphore", BENCH_REDIS, COMMAND("node", "%/node/semaphore.mjs", "mutex"), ANY},
    {"node-redlock, 1 node", BENCH_REDIS, COMMAND("node", "%/node/redlock.mjs"), ANY},
    {"redigo, by hand", BENCH_REDIS, COMMAND("%/go/run"), ANY},
    {"node-redlock", BENCH_REDLOCK, COMMAND("node", "%/node/redlock.mjs"), ANY},
    {"redis-semaphore on nodes", BENCH_REDLOCK, COMMAND("node", "%/node/semaphore.mjs", "redlock"),
     BENCH_FITS_ALONE | BENCH_FITS_ONE},
    {"symfony/lock on nodes", BENCH_REDLOCK, COMMAND("php", "%/symfony.php", "combined"),
     BENCH_FITS_ALONE | BENCH_FITS_ONE},
    {"symfony/lock on MariaDB", BENCH_MYSQL, COMMAND("php", "%/symfony.php", "pdo"),
     BENCH_FITS_ALONE | BENCH_FITS_ONE},
    {"tooz on MariaDB (GET_LOCK)", BENCH_MYSQL, COMMAND(PYTHON, "%/tooz_lock.py", "mysql"),
     BENCH_FITS_ALONE | BENCH_FITS_ONE},
    {"symfony/lock on PostgreSQL", BENCH_POSTGRESQL_SESSION,
     COMMAND("php", "%/symfony.php", "postgresql"), BENCH_FITS_ALONE | BENCH_FITS_ONE},
    {"tooz on PostgreSQL", BENCH_POSTGRESQL_SESSION,
     COMMAND(PYTHON, "%/tooz_lock.py", "postgresql"), BENCH_FITS_ALONE | BENCH_FITS_ONE},
    {"etcdctl lock", BENCH_ETCD, COMMAND(PYTHON, "%/etcdctl_lock.py"), ANY},
    {"kazoo", BENCH_ZOOKEEPER, COMMAND(PYTHON, "%/kazoo_lock.py"), ANY},
    {"Curator", BENCH_ZOOKEEPER, COMMAND("%/curator/run"), ANY},
    {"symfony/lock, flock", BENCH_SQLITE, COMMAND("php", "%/symfony.php", "flock"),
     BENCH_FITS_ALONE | BENCH_FITS_ONE},
    {"tooz, files", BENCH_SQLITE, COMMAND(PYTHON, "%/tooz_lock.py", "file"),
     BENCH_FITS_ALONE | BENCH_FITS_ONE},
};
const int bench_rival_count = (int)(sizeof bench_rivals / sizeof bench_rivals[0]);

struct run {
    pid_t pid;
    int out;
    char said[4096]; /* the end of its output and of its error output */
    size_t length;
};

static void set(const char *name, const char *value)
{
    (void)setenv(name, value, 1);
}

/* The address of its store. */
static void environment_make(const struct bench_subject *subject)
{
    struct bench_address address;
    char list[BENCH_HOSTS_MAX * 160] = "", port[16];
    size_t used = 0;

    if (bench_address_parse(subject->uri, &address) != 0)
        return;
    for (int i = 0; i < address.hosts && used < sizeof list - 160; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s:%d", i > 0 ? "," : "",
                                 address.host[i].name, address.host[i].port);
    (void)snprintf(port, sizeof port, "%d", address.host[0].port);
    set("BENCH_NODES", list);
    set("BENCH_HOST", address.host[0].name);
    set("BENCH_PORT", port);
    set("BENCH_USER", address.user);
    set("BENCH_PASSWORD", address.password);
    set("BENCH_DATABASE", address.database);
    set("BENCH_FILE", address.path);
}

/* The command, then: workers, one or own, held and pause in microseconds, milliseconds to run,
 * pairs or handoff. */
static void words_run(const struct bench_rival *rival, const char *directory,
                      const struct bench_load *load, int64_t duration_ns)
{
    const int64_t numbers[] = {load->processes * load->threads, load->held_ns / BENCH_NS_PER_US,
                               load->pause_ns / BENCH_NS_PER_US, duration_ns / BENCH_NS_PER_MS};
    static char texts[4][24], paths[WORDS_MAX][512];
    const char *words[WORDS_MAX + 8];
    int count = 0;

    for (; rival->command[count] != NULL && count < WORDS_MAX; count++) {
        const char *word = rival->command[count];

        (void)snprintf(paths[count], sizeof paths[count], "%s%s", *word == '%' ? directory : "",
                       word + (*word == '%'));
        words[count] = paths[count];
    }
    for (int i = 0; i < 4; i++)
        (void)snprintf(texts[i], sizeof texts[i], "%lld", (long long)numbers[i]);
    words[count++] = texts[0];
    words[count++] = load->one_name ? "one" : "own";
    words[count++] = texts[1];
    words[count++] = texts[2];
    words[count++] = texts[3];
    words[count++] = load->loop == BENCH_HANDOFF ? "handoff" : "pairs";
    words[count] = NULL;
    (void)execvp(words[0], (char *const *)(uintptr_t)words);
    (void)fprintf(stderr, "%s is not installed\n", words[0]);
    _exit(ABSENT);
}

static int run_start(struct run *run, const struct bench_subject *subject, const char *directory,
                     const struct bench_load *load, int64_t duration_ns)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    (void)fflush(NULL);
    run->pid = fork();
    if (run->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_TIMERSLACK, 1); /* as bench_sleep_exactly_ns, for other languages */
        (void)setpgid(0, 0);
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)dup2(ends[1], STDERR_FILENO);
        environment_make(subject);
        words_run(subject->rival, directory, load, duration_ns);
    }
    (void)close(ends[1]);
    run->out = ends[0];
    if (run->pid > 0)
        return 0;
    (void)close(ends[0]);
    return -1;
}

/* Zero: the program did not end in time. */
static int run_listen(struct run *run, int64_t until_ns)
{
    for (;;) {
        struct pollfd fd = {.fd = run->out, .events = POLLIN};
        int64_t left_ns = until_ns - bench_now_ns();
        ssize_t got = 0;

        if (run->length > sizeof run->said / 2) { /* only the end matters */
            memmove(run->said, run->said + run->length / 2, run->length - run->length / 2);
            run->length -= run->length / 2;
        }
        if (left_ns <= 0 || poll(&fd, 1, (int)(left_ns / BENCH_NS_PER_MS) + 1) <= 0)
            return 0;
        got = read(run->out, run->said + run->length, sizeof run->said - 1 - run->length);
        if (got <= 0)
            return 1;
        run->length += (size_t)got;
    }
}

/* Ends its whole process group. Returns its exit status. */
static int run_end(struct run *run, int in_time)
{
    int status = -1;

    if (!in_time)
        (void)kill(-run->pid, SIGKILL);
    (void)waitpid(run->pid, &status, 0);
    (void)close(run->out);
    run->said[run->length] = '\0';
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static const char *last_line(char *text)
{
    size_t length = strlen(text);
    const char *newline = NULL;

    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    newline = strrchr(text, '\n');
    return newline != NULL ? newline + 1 : text;
}

static double field(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return json_is_number(value) ? json_number_value(value) : -1;
}

static void figures_take(struct bench_figures *figures, const json_t *object,
                         const struct bench_tally *tally)
{
    static const enum bench_metric metrics[] = {BENCH_RATE,    BENCH_SHARE,   BENCH_JAIN,
                                                BENCH_P50_US,  BENCH_P90_US,  BENCH_P99_US,
                                                BENCH_P999_US, BENCH_WORST_MS};
    double pairs = field(object, "pairs");
    int round = figures->rounds++;

    for (int metric = 0; metric < BENCH_METRICS; metric++)
        figures->values[metric][round] = -1;
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
        figures->values[metrics[i]][round] = field(object, bench_metric_names[metrics[i]]);
    if (pairs > 0 && tally->commands >= 0)
        figures->values[BENCH_COMMANDS][round] = (double)tally->commands / pairs;
    if (pairs > 0 && tally->cpu_ns >= 0)
        figures->values[BENCH_SERVER_US][round] = (double)tally->cpu_ns / 1000 / pairs;
}

void bench_rival_run(const struct bench_subject *subject, const char *directory,
                     const struct bench_load *load, int64_t duration_ns,
                     struct bench_figures *figures)
{
    struct run run = {0};
    struct bench_tally before, after, tally;
    const char *line = NULL;
    json_t *object = NULL;
    int in_time = 0, status = -1;

    bench_meter_read(subject->meter, &before);
    if (run_start(&run, subject, directory, load, duration_ns) != 0) {
        (void)snprintf(figures->why, sizeof figures->why, "cannot start it");
        return;
    }
    in_time = run_listen(&run, bench_now_ns() + 4 * duration_ns + START_NS);
    status = run_end(&run, in_time);
    bench_meter_read(subject->meter, &after);
    tally = bench_tally_between(&before, &after);
    line = last_line(run.said);
    object = status == 0 ? json_loads(line, 0, NULL) : NULL;
    if (object != NULL)
        figures_take(figures, object, &tally);
    else
        (void)snprintf(figures->why, sizeof figures->why, "%.200s",
                       in_time ? line : "it did not end in time");
    figures->absent = status == ABSENT;
    json_decref(object);
}
