-- What another role may have made in a schema that stands before pg_catalog in the search_path of the
-- application: every operator and function of the server with the same types, and every type and table.
-- Each says FOREIGN in the server's log and fails. Run as the superuser, before dlock makes its tables.
\set ON_ERROR_STOP on
SET client_min_messages = error;
CREATE ROLE mallory;
CREATE SCHEMA foreign_first AUTHORIZATION mallory;
GRANT USAGE ON SCHEMA foreign_first TO PUBLIC;
-- (and settings that change what a text means)
SELECT format('ALTER ROLE %s SET %s', role, setting) FROM unnest('{u,least}'::text[]) role,
  unnest(ARRAY['search_path = foreign_first, pg_catalog, public', 'standard_conforming_strings = off',
    'bytea_output = escape', 'transform_null_equals = on', 'DateStyle = German',
    'IntervalStyle = sql_standard', 'TimeZone = ''Asia/Kathmandu''']) setting \gexec
SET search_path = pg_catalog, pg_temp;
DO $do$
DECLARE
  o record;
  made int := 0;
BEGIN
  -- (an aggregate becomes an ordinary function)
  FOR o IN SELECT format('%I(%s) RETURNS %s', proname, pg_get_function_identity_arguments(oid),
      pg_get_function_result(oid)) AS head, proname FROM pg_proc
      WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind IN ('f', 'a') LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION foreign_first.%s LANGUAGE plpgsql AS %L', o.head,
        format('BEGIN RAISE EXCEPTION ''FOREIGN function %s''; END', o.proname));
      made := made + 1;
    EXCEPTION WHEN OTHERS THEN -- types that plpgsql does not take
    END;
  END LOOP;
  FOR o IN SELECT oprname, oprleft::regtype AS l, oprright::regtype AS r, oprresult::regtype AS result,
      'op_' || oid AS f, oprleft = 0 AS is_prefix FROM pg_operator
      WHERE oprnamespace = 'pg_catalog'::regnamespace LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION foreign_first.%s(%s%s) RETURNS %s LANGUAGE plpgsql AS %L', o.f,
        CASE WHEN o.is_prefix THEN '' ELSE o.l || ', ' END, o.r, o.result,
        format('BEGIN RAISE EXCEPTION ''FOREIGN operator %s''; END', replace(o.oprname, '%', '%%')));
      EXECUTE format('CREATE OPERATOR foreign_first.%s (%s RIGHTARG = %s, FUNCTION = foreign_first.%s)',
        o.oprname, CASE WHEN o.is_prefix THEN '' ELSE format('LEFTARG = %s,', o.l) END, o.r, o.f);
      made := made + 1;
    EXCEPTION WHEN OTHERS THEN
    END;
  END LOOP;
  FOR o IN SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace
      AND relkind IN ('r', 'v') LOOP
    EXECUTE format('CREATE TABLE foreign_first.%I ("FOREIGN" boolean)', o.relname);
  END LOOP;
  FOR o IN SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace
      AND typtype IN ('b', 'r') AND typname NOT LIKE '\_%' LOOP
    BEGIN
      EXECUTE format('CREATE DOMAIN foreign_first.%1$I AS pg_catalog.%1$I CHECK (false)', o.typname);
    EXCEPTION WHEN OTHERS THEN
    END;
  END LOOP;
  IF made < 2500 THEN
    RAISE EXCEPTION 'only % functions and operators', made;
  END IF;
END $do$;
