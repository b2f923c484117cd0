/* SPDX-License-Identifier: MIT */
/* tls_file.h - what is wrong with a file that an option of TLS names, in words that name all three:
 * "ca=/etc/ca.pem: No such file or directory". Of a long path the end is shown. */
#ifndef NET_TLS_FILE_H
#define NET_TLS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define TLS_WHY_SIZE 176 /* holds such words whole */

void tls_file_why(const char *option, const char *path, const char *what, char *why, size_t size);
/* False: it cannot be read, and why says so. */
bool tls_file_check(const char *option, const char *path, char *why, size_t size);

#endif
