/* SPDX-License-Identifier: MIT */
/* dlock-faultproxy: stands between a client and its server, and does to their connection what
 * networks do. One thread and poll. */
#include "proxy.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: dlock-faultproxy --to ADDRESS [--listen ADDRESS] [--framing "
    "raw|resp|mysql|postgresql|http2|zookeeper]\n"
    "                        [--control PATH] [--patience MS]\n"
    "ADDRESS is 127.0.0.1:PORT or the path of a Unix socket. Prints \"listening ADDRESS\".\n"
    "MS: how long to go on trying while the server refuses connections.\n"
    "Takes orders on standard input, and on the Unix socket PATH; ends with standard input.\n";

/* What one entry of the poll set belongs to. */
struct watched {
    struct proxy_link *link;
    struct proxy_control *control;
    enum proxy_dir side;
};

struct poll_set {
    struct pollfd *fds;
    struct watched *watched;
    size_t count, room;
};

int64_t proxy_now(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static void set_add(struct poll_set *set, int fd, short events, struct watched watched)
{
    if (set->count == set->room) {
        set->room = set->room == 0 ? 64 : set->room * 2;
        set->fds = realloc(set->fds, set->room * sizeof *set->fds);
        set->watched = realloc(set->watched, set->room * sizeof *set->watched);
        if (set->fds == NULL || set->watched == NULL)
            abort();
    }
    set->fds[set->count] = (struct pollfd){.fd = fd, .events = events};
    set->watched[set->count++] = watched;
}

static void set_build(struct poll_set *set, const struct proxy *proxy)
{
    set->count = 0;
    set_add(set, proxy->door.mode == PROXY_DOOR_ON ? proxy->door.fd : -1, POLLIN,
            (struct watched){.link = NULL});
    set_add(set, proxy->control_fd, POLLIN, (struct watched){.link = NULL});
    for (struct proxy_control *control = proxy->controls; control != NULL; control = control->next)
        set_add(set, control->in, POLLIN, (struct watched){.control = control});
    for (struct proxy_link *link = proxy->links; link != NULL; link = link->next) {
        for (int side = 0; side < 2; side++) {
            short events = proxy_link_events(link, (enum proxy_dir)side);

            if (events != 0)
                set_add(set, link->fd[side], events,
                        (struct watched){.link = link, .side = (enum proxy_dir)side});
        }
    }
}

static int64_t next_due(const struct proxy *proxy, int64_t now_ns)
{
    int64_t due = proxy_control_due(proxy);

    for (const struct proxy_link *link = proxy->links; link != NULL; link = link->next) {
        int64_t at = proxy_link_due(link, now_ns);

        due = at < due ? at : due;
    }
    return due;
}

static void set_wait(struct poll_set *set, const struct proxy *proxy)
{
    int64_t now_ns = proxy_now(), due = next_due(proxy, now_ns);
    int64_t left = due > now_ns ? due - now_ns : 0;
    struct timespec wait = {(time_t)(left / 1000000000), (long)(left % 1000000000)};

    if (ppoll(set->fds, (nfds_t)set->count, due == PROXY_NEVER ? NULL : &wait, NULL) < 0)
        for (size_t i = 0; i < set->count; i++)
            set->fds[i].revents = 0;
}

static void clients_accept(struct proxy *proxy)
{
    int fd = proxy_door_accept(&proxy->door);

    if (fd >= 0)
        proxy_link_add(proxy, fd);
}

static void controls_accept(struct proxy *proxy)
{
    int fd = accept4(proxy->control_fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd >= 0 && !proxy_control_add(proxy, fd, fd))
        (void)close(fd);
}

/* What lies at the sockets comes before what the control channel says about it. */
static void set_handle(struct poll_set *set, struct proxy *proxy)
{
    if (set->fds[0].revents != 0)
        clients_accept(proxy);
    for (size_t i = 2; i < set->count; i++)
        if (set->watched[i].link != NULL && set->fds[i].revents != 0)
            proxy_link_ready(proxy, set->watched[i].link, set->watched[i].side,
                             set->fds[i].revents);
    if (set->fds[1].revents != 0)
        controls_accept(proxy);
    for (size_t i = 2; i < set->count; i++)
        if (set->watched[i].control != NULL && set->fds[i].revents != 0)
            proxy_control_ready(proxy, set->watched[i].control);
}

static void proxy_run(struct proxy *proxy)
{
    struct poll_set set = {.fds = NULL};

    while (!proxy->quit) {
        set_build(&set, proxy);
        set_wait(&set, proxy);
        set_handle(&set, proxy);
        do {
            proxy->again = false;
            for (struct proxy_link *link = proxy->links; link != NULL; link = link->next)
                proxy_link_serve(proxy, link, proxy_now());
        } while (proxy->again);
        proxy_control_serve(proxy, proxy_now());
    }
    free(set.fds);
    free(set.watched);
}

static int usage_fail(const char *what)
{
    (void)fprintf(stderr, "dlock-faultproxy: %s\n%s", what, usage);
    return 64;
}

static int args_read(struct proxy *proxy, int argc, char **argv, const char **control)
{
    static const struct option options[] = {{"to", required_argument, NULL, 't'},
                                            {"listen", required_argument, NULL, 'l'},
                                            {"framing", required_argument, NULL, 'f'},
                                            {"control", required_argument, NULL, 'c'},
                                            {"patience", required_argument, NULL, 'p'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int option;

    (void)dlt_address_parse("127.0.0.1:0", &proxy->door.address);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        bool good = option != '?';

        if (option == 't')
            good = dlt_address_parse(optarg, &proxy->server);
        else if (option == 'l')
            good = dlt_address_parse(optarg, &proxy->door.address);
        else if (option == 'f')
            good = dlt_framing_parse(optarg, &proxy->framing);
        else if (option == 'c')
            *control = optarg;
        else if (option == 'p')
            proxy->patience_ns = strtol(optarg, NULL, 10) * PROXY_NS_PER_MS;
        else if (option == 'h')
            exit(printf("%s", usage) > 0 ? 0 : 1);
        if (!good)
            return usage_fail("bad option or address");
    }
    if (proxy->server.len == 0 || optind != argc)
        return usage_fail("want --to and no other words");
    return 0;
}

static int proxy_open(struct proxy *proxy, const char *control)
{
    struct dlt_address address;
    char text[128];

    proxy->control_fd = -1;
    if (!proxy_door_open(&proxy->door)) {
        (void)fprintf(stderr, "dlock-faultproxy: cannot listen: %s\n", strerror(errno));
        return 69;
    }
    if (!proxy_control_add(proxy, STDIN_FILENO, STDOUT_FILENO))
        return 71;
    if (control != NULL) {
        if (!dlt_address_parse(control, &address) || !dlt_address_is_path(&address))
            return usage_fail("--control wants an absolute path");
        proxy->control_fd = dlt_address_listen(&address, 16);
        if (proxy->control_fd < 0)
            return usage_fail(strerror(errno));
    }
    dlt_address_print(&proxy->door.address, text, sizeof text);
    (void)printf("listening %s\n", text);
    (void)fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    static struct proxy proxy;
    const char *control = NULL;
    int rc = args_read(&proxy, argc, argv, &control);

    (void)signal(SIGPIPE, SIG_IGN);
    if (rc == 0)
        rc = proxy_open(&proxy, control);
    if (rc != 0)
        return rc;
    proxy_run(&proxy);
    proxy_links_free(&proxy);
    proxy_rules_free(&proxy);
    proxy_controls_free(&proxy);
    proxy_door_close(&proxy.door);
    if (proxy.control_fd >= 0)
        (void)close(proxy.control_fd);
    if (control != NULL)
        (void)unlink(control);
    return 0;
}
