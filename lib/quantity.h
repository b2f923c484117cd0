/* SPDX-License-Identifier: MIT */
/* quantity.h - numbers with a unit, as options of a URI and of the command have them. */
#ifndef LIB_QUANTITY_H
#define LIB_QUANTITY_H

#include <stdint.h>

/* Each returns NULL and sets *number, or returns why the text is refused: "has no unit (...)". */

const char *dl_quantity_int(const char *text, int64_t *number);

/* "500ms", "30s", "5m", "2h", "7d" or "0". */
const char *dl_quantity_duration(const char *text, int64_t *ms);

/* "4096", "64k", "1M" or "2G", by 1024. */
const char *dl_quantity_size(const char *text, int64_t *bytes);

#endif
