/* SPDX-License-Identifier: MIT */
/* tls_file.h - finds the file of a TLS option, and says what is wrong with the file of a TLS
 * option: "ca=/etc/ca.pem: No such file or directory". A message shows the end of a long path. */
#ifndef NET_TLS_FILE_H
#define NET_TLS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define TLS_WHY_SIZE  176  /* holds such a message whole */
#define TLS_PATH_SIZE 4200 /* a path that is cut off is too long for the system, too */

/* A relative path counts from `directory`, or from the working directory if that is NULL. Returns
 * path, or buf (TLS_PATH_SIZE). */
const char *tls_file_from(const char *directory, const char *path, char *buf);

void tls_file_why(const char *option, const char *path, const char *what, char *why, size_t size);
/* False: the file cannot be read; why says so. */
bool tls_file_check(const char *option, const char *path, char *why, size_t size);

#endif
