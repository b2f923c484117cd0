/* SPDX-License-Identifier: MIT */
/* pg_kit.h - sessions of the postgresql plugin. */
#ifndef DLT_PG_KIT_H
#define DLT_PG_KIT_H

#include "postgres_server.h"
#include "sql_session.h"

const struct dlock_plugin *dlock_plugin_postgresql(void);

/* As dlt_session_sql, at that server. */
void dlt_session_init(struct dlt_session *session, const struct dlt_postgres *server);

#endif
