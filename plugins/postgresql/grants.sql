-- SPDX-License-Identifier: MIT
-- The least rights that an application needs, after row.sql or session.sql was run:
--
--     psql -X -v ON_ERROR_STOP=1 -v app=ROLE -f grants.sql DATABASE
--
-- Add -v schema=... and -v prefix=... where they are not "public" and "dlock_". A role that only
-- inspects needs USAGE of the schema and SELECT, but of dlock_queue only SELECT (name, until): with
-- token and channel it could tell a waiter of a grant that nobody gave.
\if :{?schema}
\else
\set schema public
\endif
\if :{?prefix}
\else
\set prefix dlock_
\endif
-- Names are those of the server, not of a schema of your search_path.
SET search_path = pg_catalog, pg_temp;
GRANT USAGE ON SCHEMA :"schema" TO :"app";
SELECT format('GRANT %s ON %I.%I TO %I',
              CASE WHEN word = 'meta' THEN 'SELECT' ELSE 'SELECT, INSERT, UPDATE, DELETE' END,
              schemaname, tablename, :'app')
  FROM pg_tables
  JOIN unnest('{meta,lease,reader,queue,session,session_reader}'::text[]) word
    ON tablename = :'prefix' || word
  WHERE schemaname = :'schema' \gexec
SELECT format('GRANT EXECUTE ON FUNCTION %s TO %I', p.oid::regprocedure, :'app')
  FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace
  WHERE s.nspname = :'schema' AND starts_with(p.proname, :'prefix') \gexec
