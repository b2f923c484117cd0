/* SPDX-License-Identifier: MIT */
/* through.h - a proxy in place of a server that a URI names. */
#ifndef DLT_THROUGH_H
#define DLT_THROUGH_H

#include <stddef.h>

/* The numeric address of IPv4 of "HOST:PORT", as dlock-faultproxy takes it. NULL, or why not. */
const char *dlt_through_address(const char *where, char *out, size_t size);

/* The URI with 127.0.0.1:port in place of `where`, which it has. "localhost" stays, for the sake of
 * certificates. A URI that does not fit is cut. */
void dlt_through_uri(const char *uri, const char *where, unsigned port, char *out, size_t size);

/* The path of dlock-faultproxy, which is beside this program. */
const char *dlt_through_program(char *out, size_t size);

#endif
