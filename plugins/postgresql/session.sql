-- SPDX-License-Identifier: MIT
-- Tables and functions of strategy=session, version 1. Functions 3: names are looked up in pg_catalog
-- alone (row.sql says why), and no string has a backslash.
--
-- The plugin runs this file when it opens a store, unless create=off. An administrator can run it
-- instead, as the owner of the tables:
--
--     psql -X -v ON_ERROR_STOP=1 -f session.sql DATABASE
--
-- For another schema or table prefix, replace "public.dlock_" everywhere. grants.sql has the rights
-- that an application needs. It does no harm to run the file twice, or at several places at once.
--
-- The lock is the session's advisory lock on the number of the name. A row says which number that
-- is, keeps the fence, and names the last holder; whether the holder is there is in pg_locks alone.
--
--   dlock_session         a row a name, for ever. number is unique: no two names share a lock
--   dlock_session_reader  a row a reader. It goes with the unlock, or with the next writer
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL client_min_messages = warning;
SET LOCAL search_path = pg_catalog, pg_temp;
SELECT pg_advisory_xact_lock(1684827243, hashtext('public.dlock_'));

CREATE TABLE IF NOT EXISTS public.dlock_meta (
  id int PRIMARY KEY,
  strategy text NOT NULL,
  version int NOT NULL
);
CREATE TABLE IF NOT EXISTS public.dlock_session (
  name bytea PRIMARY KEY,
  number bigint NOT NULL UNIQUE,
  fence bigint NOT NULL,
  token bytea,
  pid int,
  since timestamptz,
  lease_ms bigint,
  label bytea
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS public.dlock_session_reader (
  name bytea,
  token bytea,
  pid int NOT NULL,
  since timestamptz NOT NULL,
  lease_ms bigint NOT NULL,
  label bytea,
  PRIMARY KEY (name, token)
) WITH (fillfactor = 70);

-- The number of name n, whose row is made if there is none. key: the number that the caller wants;
-- NULL: a hash, or the next number if another name has that one. NULL: another name has the key.
CREATE OR REPLACE FUNCTION public.dlock_session_number(n bytea, key bigint) RETURNS bigint
LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE -- dlock version 1
  -- dlock functions 3
  it bigint;
  made bigint;
BEGIN
  SELECT number INTO it FROM public.dlock_session WHERE name = n;
  IF FOUND THEN
    RETURN it;
  END IF;
  it := coalesce(key, ('x' || left(encode(sha256(convert_to(replace('public.dlock_', '"', ''),
    'UTF8') || decode('00', 'hex') || n), 'hex'), 16))::bit(64)::bigint);
  LOOP
    INSERT INTO public.dlock_session (name, number, fence)
      VALUES (n, it, extract(epoch FROM clock_timestamp()) * 1000000) ON CONFLICT DO NOTHING;
    IF FOUND THEN
      RETURN it;
    END IF;
    PERFORM FROM public.dlock_session WHERE number = it AND name <> n;
    IF FOUND AND key IS NOT NULL THEN
      RETURN NULL;
    ELSIF FOUND THEN
      it := CASE it WHEN 9223372036854775807 THEN 0 ELSE it + 1 END;
    END IF;
    SELECT number INTO made FROM public.dlock_session WHERE name = n;
    IF FOUND THEN -- by another session, just now
      RETURN made;
    END IF;
  END LOOP;
END $$;

-- The caller's session has the advisory lock of name n: makes a lock of it. Returns the fence, which
-- is committed before the caller learns it; NULL, without the lock: the row was removed meanwhile.
CREATE OR REPLACE FUNCTION public.dlock_session_confirm(n bytea, n_number bigint, t bytea,
  is_shared boolean, lease bigint, lbl bytea) RETURNS bigint LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE -- dlock version 1
  -- dlock functions 3
  f bigint;
  moment timestamptz := clock_timestamp();
BEGIN
  PERFORM set_config('idle_session_timeout', lease::text, false);
  IF is_shared THEN
    SELECT fence INTO f FROM public.dlock_session WHERE name = n AND number = n_number;
  ELSE
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
      PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    UPDATE public.dlock_session SET
      fence = greatest(fence + 32, (extract(epoch FROM moment) * 1000000)::bigint),
      token = t, pid = pg_backend_pid(), since = moment, lease_ms = lease, label = lbl
      WHERE name = n AND number = n_number RETURNING fence INTO f;
    DELETE FROM public.dlock_session_reader WHERE name = n;
  END IF;
  IF f IS NULL THEN
    PERFORM CASE WHEN is_shared THEN pg_advisory_unlock_shared(n_number)
      ELSE pg_advisory_unlock(n_number) END;
  ELSIF is_shared THEN
    PERFORM set_config('synchronous_commit', 'off', true); -- a crash ends the session, too
    PERFORM FROM public.dlock_session_reader WHERE name = n AND since < moment - interval '1 day';
    IF FOUND THEN
      DELETE FROM public.dlock_session_reader r WHERE r.name = n
        AND r.since < moment - interval '1 day' AND NOT EXISTS (SELECT FROM pg_locks l
          WHERE l.locktype = 'advisory' AND l.pid = r.pid);
    END IF;
    INSERT INTO public.dlock_session_reader VALUES (n, t, pg_backend_pid(), moment, lease, lbl)
      ON CONFLICT (name, token) DO UPDATE SET pid = EXCLUDED.pid;
  END IF;
  RETURN f;
END $$;

-- One attempt of token t to lock name n in this session, which the server ends if it is idle for
-- lease ms. key: of key=advisory; NULL: a hash.
--
-- result    1: t holds it; 0: another session does; 2: the name has another number than key;
--           3: another name has the number key; 4: the row was removed meanwhile
-- n_number  of the name
CREATE OR REPLACE FUNCTION public.dlock_session_take(n bytea, key bigint, t bytea,
  is_shared boolean, lease bigint, lbl bytea,
  OUT result int, OUT fence bigint, OUT n_number bigint, OUT pid int)
LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
BEGIN -- dlock version 1
  -- dlock functions 3
  pid := pg_backend_pid();
  n_number := public.dlock_session_number(n, key);
  IF n_number IS NULL THEN
    result := 3;
  ELSIF n_number <> key THEN
    result := 2;
  ELSIF (CASE WHEN is_shared THEN pg_try_advisory_lock_shared(n_number)
      ELSE pg_try_advisory_lock(n_number) END) THEN
    fence := public.dlock_session_confirm(n, n_number, t, is_shared, lease, lbl);
    result := CASE WHEN fence IS NULL THEN 4 ELSE 1 END;
  ELSE
    result := 0;
  END IF;
END $$;

-- After a take that found the name held: waits for at most wait_ms in the server's queue. Then
-- dlock_session_confirm makes a lock of it. Nothing is written before the wait, so that no other
-- session waits for this transaction.
CREATE OR REPLACE FUNCTION public.dlock_session_wait(n_number bigint, is_shared boolean,
  lease bigint, wait_ms bigint) RETURNS void LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
BEGIN -- dlock version 1
  -- dlock functions 3
  PERFORM set_config('lock_timeout', wait_ms::text, true),
    set_config('idle_session_timeout', lease::text, false);
  IF is_shared THEN
    PERFORM pg_advisory_lock_shared(n_number);
  ELSE
    PERFORM pg_advisory_lock(n_number);
  END IF;
END $$;

-- result: 1: this session held it; 0: it did not.
CREATE OR REPLACE FUNCTION public.dlock_session_release(n bytea, n_number bigint, t bytea,
  is_shared boolean, OUT result int) LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
BEGIN -- dlock version 1
  -- dlock functions 3
  PERFORM set_config('idle_session_timeout', '0', false);
  IF is_shared THEN
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM public.dlock_session_reader WHERE name = n AND token = t;
    result := pg_advisory_unlock_shared(n_number)::int;
  ELSE
    result := pg_advisory_unlock(n_number)::int;
  END IF;
END $$;

-- The holders of the names that begin with n, or of n itself. foreign_too: also the sessions of
-- other programs, without a token; held_ms is -1 then. waiters: sessions that wait for the number.
CREATE OR REPLACE FUNCTION public.dlock_session_holders(n bytea, whole boolean, foreign_too boolean)
  RETURNS TABLE (name bytea, is_shared boolean, fence bigint, lease_ms bigint, held_ms bigint,
    token bytea, label bytea, waiters int, pid int) LANGUAGE sql
  SET search_path = pg_catalog, pg_temp AS $$
  -- dlock version 1
  -- dlock functions 3
  WITH advisory AS MATERIALIZED (
    SELECT (l.classid::bigint << 32) | l.objid::bigint AS number, l.pid, l.granted,
      l.mode = 'ShareLock' AS is_shared
    FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
  SELECT s.name, a.is_shared, s.fence, coalesce(r.lease_ms, o.lease_ms, 0),
    coalesce(extract(epoch FROM clock_timestamp() - coalesce(r.since, o.since)) * 1000, -1)::bigint,
    coalesce(r.token, o.token), coalesce(r.label, o.label),
    (SELECT count(*) FROM advisory w WHERE w.number = a.number AND NOT w.granted)::int, a.pid
  FROM advisory a JOIN public.dlock_session s ON s.number = a.number
  LEFT JOIN public.dlock_session o ON o.name = s.name AND o.pid = a.pid AND NOT a.is_shared
  LEFT JOIN LATERAL (SELECT x.token, x.since, x.lease_ms, x.label FROM public.dlock_session_reader x
    WHERE x.name = s.name AND x.pid = a.pid AND a.is_shared
    ORDER BY x.since DESC LIMIT 1) r ON true -- older ones: of the dead, with the same process id
  WHERE a.granted AND (r.token IS NOT NULL OR o.token IS NOT NULL OR foreign_too)
    AND CASE WHEN whole THEN s.name = n
      ELSE s.name >= n AND substr(s.name, 1, length(n)) = n END
  ORDER BY s.name, r.since
$$;

INSERT INTO public.dlock_meta VALUES (1, 'session', 1) ON CONFLICT DO NOTHING;
COMMIT;
