-- Are the calls inside the functions exact? Then: what another role may have made beside the functions of dlock, in their schema: for each argument of
-- each one the same function with another type there. A call whose arguments have not exactly the
-- types of dlock's function would prefer one of them, or find several. Run as the superuser, after
-- dlock has made its functions.
\set ON_ERROR_STOP on
SET search_path = pg_catalog, pg_temp;

-- The arguments of a call, whose text begins behind its bracket.
CREATE FUNCTION pg_temp.arguments_of(call text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  depth int := 1;
  argument text := '';
  c text;
BEGIN
  FOREACH c IN ARRAY regexp_split_to_array(call, '') LOOP
    depth := depth + CASE WHEN c IN ('(', '[') THEN 1 WHEN c IN (')', ']') THEN -1 ELSE 0 END;
    IF depth = 0 OR (depth = 1 AND c = ',') THEN
      RETURN NEXT argument;
      argument := '';
    ELSE
      argument := argument || c;
    END IF;
    EXIT WHEN depth = 0;
  END LOOP;
END $$;

-- Each call of a function of dlock in a function of dlock has the types of the catalogue, also in a
-- branch that no test takes: a function with the same parameters and variables says which they are.
DO $do$
DECLARE
  o record;
  types text;
  calls int := 0;
BEGIN
  FOR o IN SELECT p.proname, t.proname AS called,
      (SELECT string_agg(p.proargnames[i] || ' ' || format_type(p.proargtypes[i - 1], NULL), ', ' ORDER BY i)
        FROM generate_series(1, p.pronargs) i) AS parameters,
      (SELECT string_agg(a.name || ' ' || format_type(a.type, NULL) || ';', ' ')
        FROM unnest(p.proargnames, p.proallargtypes, p.proargmodes) a (name, type, mode)
        WHERE a.mode IN ('o', 't')) AS results,
      substring(p.prosrc FROM 'DECLARE(.*?)\nBEGIN') AS variables,
      (SELECT string_agg(format('pg_typeof(%s)', argument), ', ')
        FROM pg_temp.arguments_of(substr(c.piece, strpos(c.piece, '(') + 1)) argument) AS asked,
      (SELECT string_agg(format_type(type, NULL), ', ') FROM unnest(t.proargtypes) type) AS want
      FROM pg_proc p CROSS JOIN LATERAL regexp_split_to_table(p.prosrc,
        '"?public"?\."?(?=dlock_)') WITH ORDINALITY c (piece, i)
      JOIN pg_proc t ON t.pronamespace = p.pronamespace AND c.piece ~ ('^' || t.proname || '"?\(')
      WHERE p.pronamespace = 'public'::regnamespace AND starts_with(p.proname, 'dlock_') AND c.i > 1 LOOP
    EXECUTE format('CREATE FUNCTION pg_temp.ask(%s) RETURNS text LANGUAGE plpgsql AS %L', o.parameters,
      format('DECLARE %s %s BEGIN RETURN concat_ws('', '', %s); END', o.results, o.variables, o.asked));
    EXECUTE format('SELECT pg_temp.ask(%s)', (SELECT string_agg('NULL', ', ')
      FROM pg_proc CROSS JOIN LATERAL generate_series(1, pronargs) WHERE proname = 'ask')) INTO types;
    DROP FUNCTION pg_temp.ask;
    IF types IS DISTINCT FROM o.want THEN
      RAISE EXCEPTION '% calls % with (%), which has (%)', o.proname, o.called, types, o.want;
    END IF;
    calls := calls + 1;
  END LOOP;
  IF calls < 2 THEN
    RAISE EXCEPTION 'only % calls were compared', calls;
  END IF;
  FOR o IN SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
      AND starts_with(proname, 'dlock_')
      AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false) LOOP
    RAISE EXCEPTION '% finds names by the search_path of its caller', o.proname;
  END LOOP;
END $do$;

DO $do$
DECLARE
  o record;
  made int := 0;
BEGIN
  FOR o IN SELECT p.proname, string_agg(CASE WHEN a.i = k.i THEN t.name
      ELSE format_type(a.type, NULL) END, ', ' ORDER BY a.i) AS arguments
      FROM pg_proc p CROSS JOIN LATERAL generate_series(1, p.pronargs) k (i)
      CROSS JOIN unnest(ARRAY['smallint', 'integer', 'bigint', 'numeric', 'real', 'double precision',
        'boolean', 'text', 'varchar', 'bytea', 'interval', 'timestamp with time zone', 'timestamp',
        'anyelement', 'bytea[]', 'bigint[]', 'integer[]', 'boolean[]', 'text[]']) t (name)
      CROSS JOIN LATERAL unnest(p.proargtypes) WITH ORDINALITY a (type, i)
      WHERE p.pronamespace = 'public'::regnamespace AND starts_with(p.proname, 'dlock_')
        AND t.name::regtype <> p.proargtypes[k.i - 1]
      GROUP BY p.oid, k.i, t.name LOOP
    EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS bigint LANGUAGE plpgsql AS %L', o.proname,
      o.arguments, format('BEGIN RAISE EXCEPTION ''FOREIGN %s(%s)''; END', o.proname, o.arguments));
    made := made + 1;
  END LOOP;
  IF made = 0 THEN
    RAISE EXCEPTION 'dlock has made no functions';
  END IF;
END $do$;
