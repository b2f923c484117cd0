/* SPDX-License-Identifier: MIT */
/*
 * Plants one defect of the kind named by the argument, or none ("clean"), and then exits with 0
 * as if all were well: test_sanitizers.sh wants to see it stopped.
 */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int counter;

static void *count_with_the_mutex(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *count_without_it(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++)
        counter++;
    return NULL;
}

static void run_two(void *(*body)(void *))
{
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, body, NULL) != 0)
            abort();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void leak(void)
{
    char *volatile lost = malloc(64);

    if (lost != NULL)
        lost[0] = 1;
    lost = NULL;
}

static void use_after_free(void)
{
    char *volatile gone = malloc(64);

    free(gone);
    gone[0] = 1;
}

static void undefined(void)
{
    volatile int top = INT_MAX;

    top = top + 1;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";

    if (strcmp(kind, "leak") == 0)
        leak();
    else if (strcmp(kind, "use-after-free") == 0)
        use_after_free();
    else if (strcmp(kind, "undefined") == 0)
        undefined();
    else if (strcmp(kind, "race") == 0)
        run_two(count_without_it);
    else if (strcmp(kind, "clean") == 0)
        run_two(count_with_the_mutex);
    else
        return 2;
    printf("not stopped\n");
    return 0;
}
