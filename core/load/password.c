/* SPDX-License-Identifier: MIT */
#include "load/password.h"

#include "sys/error.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool variable_name_valid(const char *name)
{
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

    return name[len] == '\0' && len > 0 && (name[0] < '0' || name[0] > '9');
}

static enum dlock_status env_read(const char *name, char **text, struct dlock_error *err)
{
    const char *value = NULL;

    if (!variable_name_valid(name))
        return dl_error(err, DLOCK_INVALID, "pass_env: not the name of an environment variable");
    value = secure_getenv(name);
    if (value == NULL)
        return dl_error(err, DLOCK_INVALID, "pass_env: %s is not set", name);
    *text = strdup(value);
    return *text != NULL ? DLOCK_OK : dl_error(err, DLOCK_NOMEM, "pass_env: no memory");
}

enum dlock_status dl_password_read(const struct dl_password_source *source, char **text,
                                   enum dl_exposure *exposure, struct dlock_error *err)
{
    *text = NULL;
    *exposure = DL_EXPOSED_TO_NOBODY;
    if (source->file != NULL)
        return dl_text_file_read(source->file, "pass_file", text, exposure, err);
    if (source->env != NULL)
        return env_read(source->env, text, err);
    return DLOCK_OK;
}

void dl_password_source_fini(struct dl_password_source *source)
{
    free(source->file);
    free(source->env);
    *source = (struct dl_password_source){0};
}
