/* SPDX-License-Identifier: MIT */
/* password.h - the password of a URI that gives it by pass_file= or pass_env=. */
#ifndef DL_PASSWORD_H
#define DL_PASSWORD_H

#include "lib/text_file.h"

/* At most one of the two is not NULL. */
struct dl_password_source {
    char *file; /* pass_file: an absolute path */
    char *env;  /* pass_env: the name of a variable */
};

/*
 * Reads the password as it is now. *text: caller frees it with dl_secret_free; NULL: the source is
 * empty. *exposure: as in dl_text_file_read. INVALID, CONFIG or NOMEM.
 */
enum dlock_status dl_password_read(const struct dl_password_source *source, char **text,
                                   enum dl_exposure *exposure, struct dlock_error *err);

void dl_password_source_fini(struct dl_password_source *source);

#endif
