/* SPDX-License-Identifier: MIT */
/*
 * A URI is refused, or understood: what is printed of it is read again as the same. The first byte
 * says whether it is a URI or a query alone.
 */
#include "fuzz.h"
#include "load/uri.h"

#include <ctype.h>
#include <dlock/dlock.h>
#include <string.h>

enum { QUERY, URI, PASSWORD, REFUSED };

struct fuzz_goal fuzz_goals[] = {[QUERY] = {"a query", 0},
                                 [URI] = {"a URI", 0},
                                 [PASSWORD] = {"one with a password", 0},
                                 [REFUSED] = {"one that is refused", 0},
                                 {NULL, 0}};

static void message_check(const struct dlock_error *err)
{
    FUZZ_CHECK(err->message[0] != '\0', "no reason given");
    for (const char *at = err->message; *at != '\0'; at++)
        FUZZ_CHECK(isprint((unsigned char)*at) || (unsigned char)*at >= 128, "byte %d",
                   (unsigned char)*at);
}

/* With another password the same is printed. */
static void password_is_not_printed(struct dl_uri *uri, const char *text)
{
    static char another[] = "another";
    char *password = uri->password, *other;

    if (password == NULL || *password == '\0')
        return;
    fuzz_goals[PASSWORD].reached++;
    uri->password = another;
    other = dl_uri_print(uri);
    uri->password = password;
    FUZZ_CHECK(other != NULL && strcmp(text, other) == 0, "%s, and %s", text, other);
    free(other);
}

static void printed_is_read_again(struct dl_uri *uri)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dl_uri again;
    char *text = dl_uri_print(uri), *text_again;

    FUZZ_CHECK(text != NULL, "no memory");
    password_is_not_printed(uri, text);
    /* What is encoded anew may be longer than may be read. */
    if (strlen(text) <= DL_URI_MAX) {
        FUZZ_CHECK(dl_uri_parse(text, "URI", &again, &err) == DLOCK_OK, "%s: %s", text,
                   err.message);
        text_again = dl_uri_print(&again);
        FUZZ_CHECK(text_again != NULL && strcmp(text, text_again) == 0, "%s, then %s", text,
                   text_again);
        free(text_again);
        dl_uri_fini(&again);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size};
    struct dlock_error err = DLOCK_ERROR_INIT;
    int query_only = fuzz_byte(&input) % 4 == 0;
    char *text = fuzz_text(&input);
    enum dlock_status status;

    if (text == NULL)
        return 0;
    if (query_only) {
        struct dl_uri_query query;

        status = dl_uri_query_parse(text, "defaults", &query, &err);
        dl_uri_query_fini(&query);
    } else {
        struct dl_uri uri;

        status = dl_uri_parse(text, "URI", &uri, &err);
        if (status == DLOCK_OK)
            printed_is_read_again(&uri);
        dl_uri_fini(&uri);
    }
    FUZZ_CHECK(status == DLOCK_OK || status == DLOCK_INVALID, "%s", dlock_status_name((int)status));
    fuzz_goals[status != DLOCK_OK ? REFUSED : query_only ? QUERY : URI].reached++;
    if (status != DLOCK_OK)
        message_check(&err);
    free(text);
    return 0;
}
