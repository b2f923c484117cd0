/* SPDX-License-Identifier: MIT */
#include "label.h"
#include "lib/hex.h"

#include <string.h>

#define DATA_EDGE '\x1e'     /* before the data and behind them */
#define ENDS      "\x1e\x1f" /* no label of an application has them */

void sqlite_label_make(char text[SQ_LABEL_SIZE], const struct dlock_request *req,
                       const struct sqlite_life_file *life)
{
    size_t len = req->label != NULL ? strnlen(req->label, SQ_LABEL_MAX) : 0;
    uint32_t data_len = 0;
    const unsigned char *data = dlock_request_data(req, &data_len);

    if (len > 0)
        memcpy(text, req->label, len);
    text[len] = '\0';
    if (data_len > 0 && data_len <= DLOCK_DATA_MAX) {
        text[len++] = DATA_EDGE;
        dl_hex_encode(text + len, data, data_len);
        len += 2 * (size_t)data_len;
        text[len++] = DATA_EDGE;
        text[len] = '\0';
    }
    sqlite_life_mark(text, life);
}

size_t sqlite_label_len(const char *text)
{
    return strcspn(text, ENDS);
}

uint32_t sqlite_label_data(unsigned char data[DLOCK_DATA_MAX], const char *text)
{
    const char *hex = text + sqlite_label_len(text);
    size_t len;

    if (*hex++ != DATA_EDGE)
        return 0;
    len = strcspn(hex, ENDS);
    if (hex[len] != DATA_EDGE || len % 2 != 0 || len > 2 * (size_t)DLOCK_DATA_MAX)
        return 0;
    for (size_t i = 0; i < len; i += 2) {
        int byte = dl_hex_byte(hex + i);

        if (byte < 0)
            return 0;
        data[i / 2] = (unsigned char)byte;
    }
    return (uint32_t)(len / 2);
}
