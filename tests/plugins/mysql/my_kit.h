/* SPDX-License-Identifier: MIT */
/* my_kit.h - sessions of the mysql plugin. */
#ifndef DLT_MY_KIT_H
#define DLT_MY_KIT_H

#include "maria_server.h"
#include "sql_session.h"

const struct dlock_plugin *dlock_plugin_mysql(void);

/* As dlt_session_sql, at that server. */
void dlt_session_init(struct dlt_session *session, const struct dlt_maria *server);

#endif
