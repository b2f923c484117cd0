/* SPDX-License-Identifier: MIT */
#include "lib/request.h"

#include <string.h>

size_t dl_holder_text_make(char out[DL_HOLDER_TEXT_MAX], const struct dlock_request *req)
{
    size_t len = req->label == NULL ? 0 : strnlen(req->label, DL_HOLDER_LABEL_MAX);
    uint32_t data_len = req->data_len;

    if (len > 0)
        memcpy(out, req->label, len);
    if (data_len > DLOCK_DATA_MAX)
        data_len = DLOCK_DATA_MAX;
    if (data_len == 0)
        return len;
    out[len] = '\0';
    memcpy(out + len + 1, req->data, data_len);
    return len + 1 + data_len;
}

void dl_holder_text_read(struct dlock_holder *holder, const char *text, size_t len)
{
    size_t label_len = text == NULL ? len : strnlen(text, len);

    holder->label = text == NULL ? "" : text;
    holder->data = NULL;
    holder->data_len = 0;
    if (label_len + 1 < len) {
        holder->data = text + label_len + 1;
        holder->data_len = (uint32_t)(len - label_len - 1);
    }
}
