/* SPDX-License-Identifier: MIT */
/*
 * script.h - the files *.sql, which make the tables and functions of a strategy, as texts. Each
 * runs as it stands under psql. In the plugin "public.dlock_" stands for the schema and the table
 * prefix of the URI: pg_statements_expand.
 */
#ifndef PG_SCRIPT_H
#define PG_SCRIPT_H

extern const char pg_script_row[];
extern const char pg_script_session[];

#endif
