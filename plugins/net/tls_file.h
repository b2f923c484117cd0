/* SPDX-License-Identifier: MIT */
/* tls_file.h - says what is wrong with the file of a TLS option: "ca=/etc/ca.pem: No such file or
 * directory". A message shows the end of a long path. */
#ifndef NET_TLS_FILE_H
#define NET_TLS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define TLS_WHY_SIZE 176 /* holds such a message whole */

void tls_file_why(const char *option, const char *path, const char *what, char *why, size_t size);
/* False: the file cannot be read; why says so. */
bool tls_file_check(const char *option, const char *path, char *why, size_t size);

#endif
