/* SPDX-License-Identifier: MIT */
#include "value.h"

#include <stdio.h>
#include <string.h>

#define MODE_SIZE 2 /* of the mode and the blank */

bool etcd_value_is_shared(const void *value, size_t len)
{
    return len >= MODE_SIZE && memcmp(value, "s ", MODE_SIZE) == 0;
}

size_t etcd_value_make(char *out, size_t size, enum dlock_mode mode, const char *label)
{
    int len =
        snprintf(out, size, "%c %s", mode == DLOCK_SHARED ? 's' : 'x', label != NULL ? label : "");

    return len < 0 ? 0 : (size_t)len < size ? (size_t)len : size - 1;
}

void etcd_value_label(char *out, size_t size, const void *value, size_t len)
{
    const bool ours = len >= MODE_SIZE &&
                      (memcmp(value, "s ", MODE_SIZE) == 0 || memcmp(value, "x ", MODE_SIZE) == 0);
    size_t label_len = ours ? len - MODE_SIZE : 0;

    if (label_len > size - 1)
        label_len = size - 1;
    if (label_len > 0)
        memcpy(out, (const char *)value + MODE_SIZE, label_len);
    out[label_len] = '\0';
}
