-- SPDX-License-Identifier: MIT
-- Tables and functions of strategy=row, version 1. Functions 2: semaphores and kept names. Functions 3:
-- names are looked up in pg_catalog alone.
--
-- The plugin runs this file when it opens a store, unless create=off. An administrator can run it
-- instead, as the owner of the tables:
--
--     psql -X -v ON_ERROR_STOP=1 -f row.sql DATABASE
--
-- For another schema or table prefix, replace "public.dlock_" everywhere. grants.sql has the rights
-- that an application needs. It does no harm to run the file twice, or at several places at once.
-- It brings tables and functions of earlier ones up to date, also while locks are held: clients of
-- all go on, because the functions have the same names and parameters.
--
-- Others may have made operators and functions with the same names: in a schema of somebody's
-- search_path, or beside these functions. Therefore each statement and each function has a
-- search_path of its own, and each call of a function of this file has arguments of exactly its
-- types.
--
-- Each function locks the row of the name in dlock_lease first, and touches dlock_queue and
-- dlock_reader only while it holds that lock: there are no deadlocks. Each needs READ COMMITTED.
-- All times are the server's clock at the moment when they are read. A commit waits for the disk if
-- it gives or extends a lease, even if the role's default is off; other commits do not wait. A plan lives
-- as long as the connection, while a table that was small when it was made grows: no plan may read
-- a whole table.
--
--   dlock_lease    a row a name, for ever: fence; the exclusive holder (token, until); until when
--                  the rows of dlock_reader may hold the name ('-infinity': it has none), and what
--                  they are until then (lim: null: readers, 1: a kept lock, else permits of a
--                  semaphore with that limit); how many wait; the number of the last queue entry,
--                  and of the last one that left the head. label: of the exclusive holder, and behind
--                  a zero byte its data; null from a release or break on
--   dlock_reader   a row a reader, a permit (lim is the limit, 2 or more), or what is kept for
--                  nobody: a permit, or a lock (lim is 1), under a token that nobody has. A grant of
--                  a lock or of a permit deletes the rows that have ended
--   dlock_queue    a row a queue entry, in the order of arrival; lim: of a semaphore
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL client_min_messages = warning;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = 0;
SELECT pg_advisory_xact_lock(1684827243, hashtext('public.dlock_'));

CREATE TABLE IF NOT EXISTS public.dlock_meta (
  id integer PRIMARY KEY,
  strategy text NOT NULL,
  version integer NOT NULL
);
CREATE TABLE IF NOT EXISTS public.dlock_lease (
  name bytea PRIMARY KEY,
  token bytea,
  fence bigint NOT NULL,
  until timestamp with time zone NOT NULL,
  since timestamp with time zone,
  readers_until timestamp with time zone NOT NULL,
  waiters integer NOT NULL,
  head bigint NOT NULL,
  tail bigint NOT NULL,
  label bytea,
  lim integer -- since functions 2
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS public.dlock_reader (
  name bytea,
  token bytea,
  fence bigint NOT NULL,
  until timestamp with time zone NOT NULL,
  since timestamp with time zone NOT NULL,
  label bytea,
  lim integer, -- since functions 2
  permit integer, -- since functions 2
  kept boolean, -- since functions 2
  PRIMARY KEY (name, token)
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS public.dlock_queue (
  name bytea,
  seq bigint,
  token bytea NOT NULL,
  shared boolean NOT NULL,
  grant_ms bigint NOT NULL,
  until timestamp with time zone NOT NULL,
  channel text,
  label bytea,
  lim integer, -- since functions 2
  PRIMARY KEY (name, seq)
) WITH (fillfactor = 70);

-- Calls of other clients wait behind a lock of a table: none is waited for long.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_attribute
      WHERE attrelid = 'public.dlock_lease'::regclass AND attname = 'lim' AND NOT attisdropped) THEN
    SET LOCAL lock_timeout = '200ms';
    LOCK TABLE public.dlock_lease, public.dlock_reader, public.dlock_queue;
    SET LOCAL lock_timeout = 0;
    ALTER TABLE public.dlock_lease ADD COLUMN lim integer;
    ALTER TABLE public.dlock_reader ADD COLUMN lim integer, ADD COLUMN permit integer,
      ADD COLUMN kept boolean;
    ALTER TABLE public.dlock_queue ADD COLUMN lim integer;
    PERFORM set_config('dlock.upgrade', 'on', true);
  END IF;
END $$;

-- A reader is not let in beside a permit, or beside what is kept, also if somebody has put functions 1
-- back, which know neither.
-- since functions 2
CREATE OR REPLACE FUNCTION public.dlock_reader_guard() RETURNS trigger LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE -- dlock version 1
  -- dlock functions 2
  -- dlock functions 3
BEGIN
  IF EXISTS (SELECT FROM public.dlock_reader d WHERE d.name = NEW.name AND d.lim IS NOT NULL
      AND d.until > clock_timestamp()) THEN
    RAISE EXCEPTION 'the name has permits, or is kept' USING ERRCODE = 'lock_not_available';
  END IF;
  RETURN NEW;
END $$;
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger
      WHERE tgrelid = 'public.dlock_reader'::regclass AND tgname = 'reader_guard') THEN
    SET LOCAL lock_timeout = '200ms';
    CREATE TRIGGER reader_guard BEFORE INSERT ON public.dlock_reader FOR EACH ROW
      WHEN (NEW.lim IS NULL) EXECUTE FUNCTION public.dlock_reader_guard();
    SET LOCAL lock_timeout = 0;
  END IF;
END $$;

-- The row of name n, also after a DELETE by hand, under holders and waiters.
-- since functions 2
CREATE OR REPLACE FUNCTION public.dlock_row_make(n bytea) RETURNS void LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE -- dlock version 1
  -- dlock functions 2
  -- dlock functions 3
  moment timestamptz := clock_timestamp();
BEGIN
  INSERT INTO public.dlock_lease
    SELECT n, NULL, extract(epoch FROM moment) * 1000000, '-infinity', NULL,
      coalesce((SELECT max(until) FROM public.dlock_reader WHERE name = n), '-infinity'),
      count(*), 0, coalesce(max(seq), 0), NULL,
      (SELECT max(lim) FROM public.dlock_reader WHERE name = n AND until > moment)
      FROM public.dlock_queue WHERE name = n
    ON CONFLICT (name) DO NOTHING;
END $$;

-- Adds a permit of a semaphore, the lowest that is free at this moment, and returns it. The caller
-- holds the lock of the name's row, and has found that there is one at the same moment.
-- since functions 2
CREATE OR REPLACE FUNCTION public.dlock_permit_add(n bytea, t bytea, most bigint, f bigint,
  moment timestamptz, ends timestamptz, lbl bytea) RETURNS bigint LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE -- dlock version 1
  -- dlock functions 2
  -- dlock functions 3
  free bigint;
BEGIN
  DELETE FROM public.dlock_reader WHERE name = n AND until <= moment;
  SELECT min(x.p) INTO free FROM (SELECT 0 AS p UNION ALL
    SELECT d.permit + 1 FROM public.dlock_reader d WHERE d.name = n) x
    WHERE NOT EXISTS (SELECT FROM public.dlock_reader d WHERE d.name = n AND d.permit = x.p);
  INSERT INTO public.dlock_reader VALUES (n, t, f, ends, moment, lbl, most, free, false)
    ON CONFLICT (name, token) DO UPDATE SET fence = EXCLUDED.fence, until = EXCLUDED.until,
      since = EXCLUDED.since, label = EXCLUDED.label, lim = EXCLUDED.lim,
      permit = EXCLUDED.permit, kept = EXCLUDED.kept;
  RETURN free;
END $$;

-- Keeps or makes the queue entry of token t, for a call that found the name held: the parameters
-- and results are those of dlock_take. The caller holds the lock of the name's row, and passes what
-- it has of the queue: number of the last entry that left the head, of the last one, how many wait.
-- since functions 2
CREATE OR REPLACE FUNCTION public.dlock_wait(n bytea, left_head bigint, last bigint,
  waiting bigint, t bytea, is_shared boolean, most bigint, ttl bigint, what bigint, place bigint,
  tell text, lbl bytea, OUT result bigint, OUT ahead bigint, OUT others bigint)
LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE -- dlock version 1
  -- dlock functions 2
  -- dlock functions 3
  q public.dlock_queue;
  moment timestamptz := clock_timestamp();
BEGIN
  result := 0;
  others := waiting;
  SELECT * INTO q FROM public.dlock_queue WHERE name = n AND seq > left_head AND token = t;
  IF FOUND AND q.until > moment THEN
    UPDATE public.dlock_queue SET until = moment + place * interval '1 ms',
      grant_ms = least(place, ttl), channel = tell WHERE name = n AND seq = q.seq;
    result := 2;
    others := waiting - 1;
    SELECT count(*) INTO ahead FROM public.dlock_queue
      WHERE name = n AND seq > left_head AND seq < q.seq;
    RETURN;
  ELSIF FOUND THEN
    DELETE FROM public.dlock_queue WHERE name = n AND seq = q.seq;
    waiting := greatest(waiting - 1, 0);
    UPDATE public.dlock_lease SET waiters = waiting WHERE name = n;
  END IF;
  IF what = 1 THEN
    INSERT INTO public.dlock_queue VALUES (n, last + 1, t, is_shared, least(place, ttl),
      moment + place * interval '1 ms', tell, lbl, most);
    UPDATE public.dlock_lease SET waiters = waiting + 1, tail = last + 1 WHERE name = n;
    result := 2;
    ahead := waiting;
  END IF;
END $$;

-- Lets the waiters in that can hold the name now: one writer, readers up to the next writer, or as
-- many as a semaphore has permits. leaving: the exclusive holder gives the name back. Returns a line
-- for each waiter that was let in, t excepted: channel, token, fence, lease, and a permit. The
-- caller holds the lock of the name's row.
CREATE OR REPLACE FUNCTION public.dlock_next(n bytea, t bytea, leaving boolean) RETURNS text
LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE -- dlock version 1
  -- dlock functions 2
  -- dlock functions 3
  r public.dlock_lease;
  q public.dlock_queue;
  wake text;
  note text;
  ends timestamptz;
  permit bigint;
  blocked boolean := false;
  changed boolean := leaving;
  moment timestamptz := clock_timestamp();
BEGIN
  SELECT * INTO r FROM public.dlock_lease WHERE name = n;
  IF leaving OR r.until <= moment THEN
    r.until := '-infinity';
    r.label := NULL;
  END IF;
  LOOP
    blocked := r.until > moment;
    EXIT WHEN blocked;
    IF r.readers_until <= moment THEN -- it is free: for the next one, whatever that wants
      DELETE FROM public.dlock_queue WHERE name = n AND seq =
        (SELECT min(seq) FROM public.dlock_queue WHERE name = n AND seq > r.head) RETURNING * INTO q;
      EXIT WHEN NOT FOUND;
    ELSE
      SELECT * INTO q FROM public.dlock_queue WHERE name = n AND seq > r.head ORDER BY seq LIMIT 1;
      EXIT WHEN NOT FOUND;
      blocked := q.until > moment AND CASE
        WHEN q.lim > 1 THEN r.lim IS DISTINCT FROM q.lim OR q.lim <=
          (SELECT count(*) FROM public.dlock_reader d WHERE d.name = n AND d.until > moment)
        ELSE r.lim IS NOT NULL OR NOT q.shared END;
      EXIT WHEN blocked;
      DELETE FROM public.dlock_queue WHERE name = n AND seq = q.seq;
    END IF;
    changed := true;
    r.head := q.seq;
    r.waiters := r.waiters - 1;
    CONTINUE WHEN q.until <= moment;
    r.fence := r.fence + 32;
    ends := moment + q.grant_ms * interval '1 ms';
    permit := NULL;
    IF q.lim > 1 THEN
      permit := public.dlock_permit_add(n, q.token, q.lim::bigint, r.fence, moment, ends,
        q.label);
      r.readers_until := greatest(r.readers_until, ends);
      r.lim := q.lim;
    ELSIF q.shared THEN
      INSERT INTO public.dlock_reader VALUES (n, q.token, r.fence, ends, moment, q.label)
        ON CONFLICT (name, token) DO UPDATE SET fence = EXCLUDED.fence, until = EXCLUDED.until,
          since = EXCLUDED.since, label = EXCLUDED.label, lim = NULL, permit = NULL, kept = NULL;
      r.readers_until := greatest(r.readers_until, ends);
      r.lim := NULL;
    ELSE
      IF r.readers_until > '-infinity' THEN
        DELETE FROM public.dlock_reader WHERE name = n;
        r.readers_until := '-infinity';
      END IF;
      r.token := q.token;
      r.until := ends;
      r.since := moment;
      r.label := q.label;
    END IF;
    IF q.token IS DISTINCT FROM t AND q.channel IS NOT NULL THEN
      wake := concat_ws(E'\n', wake, concat_ws(' ', q.channel, encode(q.token, 'hex'), r.fence,
                                               q.grant_ms, permit));
    END IF;
    note := set_config('synchronous_commit', 'on', true);
  END LOOP;
  IF NOT blocked AND r.waiters <> 0 THEN
    changed := true;
    r.waiters := 0;
  END IF;
  IF changed THEN
    UPDATE public.dlock_lease SET token = r.token, fence = r.fence, until = r.until,
      since = r.since, readers_until = r.readers_until, waiters = greatest(r.waiters, 0),
      head = r.head, label = r.label, lim = r.lim WHERE name = n;
  END IF;
  RETURN wake;
END $$;

-- One attempt of token t to take name n for ttl ms.
--
-- what      0: try; 1: if it is held, queue me for place ms; 2: keep my queue entry for place ms more
-- channel   where to tell of a grant to my queue entry
-- patience  ms to wait for the row if another transaction has locked it; 0: as the session says
-- result    1: t holds it; 0: it does not, and is not queued; 2: it does not, and is queued;
--           3: the name is a semaphore now
-- number    fence of the grant; 3: the limit of the semaphore; else the counter
-- ms        what the holder has left; -1: nobody holds it
-- ahead     entries before mine
-- others    that wait
-- wake      who was let in, as of dlock_next
CREATE OR REPLACE FUNCTION public.dlock_take(n bytea, t bytea, is_shared boolean, ttl bigint,
  what bigint, place bigint, tell text, lbl bytea, patience bigint, OUT result bigint,
  OUT number bigint, OUT ms bigint, OUT ahead bigint, OUT others bigint, OUT wake text)
LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE -- dlock version 1
  -- dlock functions 2
  -- dlock functions 3
  r public.dlock_lease;
  lease interval := ttl * interval '1 ms';
  moment timestamptz;
  note text;
BEGIN
  IF patience > 0 THEN
    note := set_config('lock_timeout', patience::text, true);
  END IF;
  IF current_setting('enable_seqscan') = 'on' THEN
    note := set_config('enable_seqscan', 'off', true);
  END IF;
  others := 0;
  LOOP
    IF what < 2 AND NOT is_shared THEN
      UPDATE public.dlock_lease SET token = t, fence = fence + 32, since = clock_timestamp(),
        until = clock_timestamp() + lease, label = lbl
        WHERE name = n AND waiters = 0 AND until <= clock_timestamp()
          AND readers_until = '-infinity' RETURNING fence INTO number;
      IF FOUND THEN
        IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
          note := set_config('synchronous_commit', 'on', true);
        END IF;
        result := 1;
        RETURN;
      END IF;
    END IF;
    IF what = 0 THEN
      SELECT * INTO r FROM public.dlock_lease WHERE name = n;
      moment := clock_timestamp();
      IF r.token IS DISTINCT FROM t AND (r.until > moment
          OR (r.readers_until > moment AND (NOT is_shared OR r.lim IS NOT NULL))) THEN -- writes nothing
        result := 0;
        number := r.fence;
        ms := ceil(extract(epoch FROM greatest(r.until, r.readers_until) - moment) * 1000);
        others := r.waiters;
        IF r.until <= moment AND r.lim > 1 THEN
          result := 3;
          number := r.lim;
        END IF;
        RETURN;
      END IF;
    END IF;
    SELECT * INTO r FROM public.dlock_lease WHERE name = n FOR UPDATE;
    EXIT WHEN FOUND; -- from here on alone with this name
    IF what = 2 THEN
      result := 0;
      ms := -1;
      RETURN;
    END IF;
    PERFORM public.dlock_row_make(n);
  END LOOP;

  note := set_config('synchronous_commit', 'off', true); -- a queue entry need not survive a crash
  IF r.waiters > 0 AND r.until <= clock_timestamp() THEN
    wake := public.dlock_next(n, t, false);
    SELECT * INTO r FROM public.dlock_lease WHERE name = n;
  END IF;
  moment := clock_timestamp();
  others := r.waiters;
  IF r.token = t AND r.until > moment THEN
    UPDATE public.dlock_lease SET until = greatest(until, moment + lease) WHERE name = n;
    result := 1;
    number := r.fence;
  ELSIF is_shared THEN
    UPDATE public.dlock_reader SET until = greatest(until, moment + lease)
      WHERE name = n AND token = t AND until > moment RETURNING fence INTO number;
    IF FOUND THEN
      result := 1;
    ELSIF what < 2 AND r.waiters = 0 AND r.until <= moment
        AND (r.lim IS NULL OR r.readers_until <= moment) THEN
      INSERT INTO public.dlock_reader VALUES (n, t, r.fence + 32, moment + lease, moment, lbl)
        ON CONFLICT (name, token) DO UPDATE SET fence = EXCLUDED.fence, until = EXCLUDED.until,
          since = EXCLUDED.since, label = EXCLUDED.label, lim = NULL, permit = NULL, kept = NULL;
      r.lim := NULL;
      result := 1;
      number := r.fence + 32;
    END IF;
    IF result = 1 THEN
      UPDATE public.dlock_lease SET fence = greatest(fence, number), until = '-infinity', label = NULL,
        readers_until = greatest(readers_until, moment + lease), lim = r.lim WHERE name = n;
    END IF;
  ELSIF what < 2 AND r.waiters = 0 AND r.until <= moment AND r.readers_until <= moment THEN
    DELETE FROM public.dlock_reader WHERE name = n;
    UPDATE public.dlock_lease SET token = t, fence = fence + 32, since = moment,
      until = moment + lease, readers_until = '-infinity', label = lbl
      WHERE name = n RETURNING fence INTO number;
    result := 1;
  END IF;
  IF result = 1 THEN
    note := set_config('synchronous_commit', 'on', true);
    RETURN;
  END IF;

  result := 0;
  number := r.fence;
  ms := -1;
  IF r.until <= moment AND r.readers_until > moment AND r.lim > 1 THEN
    result := 3;
    number := r.lim;
    RETURN;
  END IF;
  IF greatest(r.until, r.readers_until) > moment THEN
    ms := ceil(extract(epoch FROM greatest(r.until, r.readers_until) - moment) * 1000);
  END IF;
  IF what > 0 THEN
    SELECT w.result, w.ahead, w.others INTO result, ahead, others FROM public.dlock_wait(n, r.head,
      r.tail, r.waiters::bigint, t, is_shared, NULL::bigint, ttl, what, place, tell, lbl) w;
  END IF;
END $$;

-- The same for a permit of a semaphore that has `most` of them, 2 or more.
--
-- result    3: the name has another limit now
-- number    3: that limit, of a lock 1
-- ms        what the first permit that runs out has left
-- permit    of the grant
-- since functions 2
CREATE OR REPLACE FUNCTION public.dlock_permit(n bytea, t bytea, most bigint, ttl bigint,
  what bigint, place bigint, tell text, lbl bytea, patience bigint, OUT result bigint,
  OUT number bigint, OUT ms bigint, OUT ahead bigint, OUT others bigint, OUT wake text,
  OUT permit bigint)
LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE -- dlock version 1
  -- dlock functions 2
  -- dlock functions 3
  r public.dlock_lease;
  lease interval := ttl * interval '1 ms';
  moment timestamptz;
  held bigint;
  soonest timestamptz;
  note text;
BEGIN
  IF patience > 0 THEN
    note := set_config('lock_timeout', patience::text, true);
  END IF;
  IF current_setting('enable_seqscan') = 'on' THEN
    note := set_config('enable_seqscan', 'off', true);
  END IF;
  result := 0;
  ms := -1;
  others := 0;
  LOOP
    SELECT * INTO r FROM public.dlock_lease WHERE name = n FOR UPDATE;
    EXIT WHEN FOUND; -- from here on alone with this name
    IF what = 2 THEN
      RETURN;
    END IF;
    PERFORM public.dlock_row_make(n);
  END LOOP;

  note := set_config('synchronous_commit', 'off', true); -- a queue entry need not survive a crash
  IF r.waiters > 0 AND r.until <= clock_timestamp() THEN
    wake := public.dlock_next(n, t, false);
    SELECT * INTO r FROM public.dlock_lease WHERE name = n;
  END IF;
  moment := clock_timestamp();
  number := r.fence;
  others := r.waiters;
  IF r.until > moment OR (r.readers_until > moment AND r.lim IS DISTINCT FROM most) THEN
    result := 3;
    number := CASE WHEN r.until > moment THEN 1 ELSE coalesce(r.lim, 1) END;
    RETURN;
  END IF;
  UPDATE public.dlock_reader d SET until = greatest(d.until, moment + lease)
    WHERE d.name = n AND d.token = t AND d.until > moment RETURNING d.fence, d.permit
    INTO number, permit;
  IF FOUND THEN
    result := 1;
  ELSE
    number := r.fence;
    SELECT count(*), min(d.until) INTO held, soonest FROM public.dlock_reader d
      WHERE d.name = n AND d.until > moment;
    IF what < 2 AND r.waiters = 0 AND held < most THEN
      number := r.fence + 32;
      permit := public.dlock_permit_add(n, t, most, number, moment, moment + lease, lbl);
      result := 1;
    END IF;
  END IF;
  IF result = 1 THEN
    UPDATE public.dlock_lease SET fence = greatest(fence, number), until = '-infinity', label = NULL,
      readers_until = greatest(readers_until, moment + lease), lim = most WHERE name = n;
    note := set_config('synchronous_commit', 'on', true);
    RETURN;
  END IF;
  IF held >= most THEN
    ms := ceil(extract(epoch FROM soonest - moment) * 1000);
  END IF;
  IF what > 0 THEN
    SELECT w.result, w.ahead, w.others INTO result, ahead, others FROM public.dlock_wait(n, r.head,
      r.tail, r.waiters::bigint, t, false, most, ttl, what, place, tell, lbl) w;
  END IF;
END $$;

-- Token t gives name n back; queued: and its queue entry, and says nothing of what it had. A lease
-- that has ended is lost. result: 1: it held the name; 0: it did not.
--
-- If nobody waits, the commit does not wait for the disk: a crash brings a lease back that ends by
-- itself.
CREATE OR REPLACE FUNCTION public.dlock_release(n bytea, t bytea, is_shared boolean, queued boolean,
  patience bigint, OUT result bigint, OUT wake text) LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE -- dlock version 1
  -- dlock functions 2
  -- dlock functions 3
  r public.dlock_lease;
  q public.dlock_queue;
  gone int;
  moment timestamptz;
  ended timestamptz;
  note text;
BEGIN
  IF patience > 0 THEN
    note := set_config('lock_timeout', patience::text, true);
  END IF;
  IF current_setting('enable_seqscan') = 'on' THEN
    note := set_config('enable_seqscan', 'off', true);
  END IF;
  IF NOT is_shared AND NOT queued THEN
    UPDATE public.dlock_lease SET until = '-infinity', label = NULL
      WHERE name = n AND token = t AND waiters = 0 AND until > clock_timestamp();
    IF FOUND THEN
      note := set_config('synchronous_commit', 'off', true);
      result := 1;
      RETURN;
    END IF;
  END IF;
  result := 0;
  SELECT * INTO r FROM public.dlock_lease WHERE name = n FOR UPDATE;
  IF NOT FOUND THEN
    note := set_config('synchronous_commit', 'off', true);
    RETURN;
  END IF;
  moment := clock_timestamp();
  IF r.token = t AND r.until > moment AND r.waiters > 0 AND r.readers_until = '-infinity'
      AND NOT queued THEN -- the usual case of dlock_next in half the time
    DELETE FROM public.dlock_queue WHERE name = n AND seq =
      (SELECT min(seq) FROM public.dlock_queue WHERE name = n AND seq > r.head)
      AND until > moment AND NOT shared AND lim IS NULL RETURNING * INTO q;
    IF FOUND THEN
      UPDATE public.dlock_lease SET token = q.token, fence = r.fence + 32,
        until = moment + q.grant_ms * interval '1 ms', since = moment, waiters = r.waiters - 1,
        head = q.seq, label = q.label WHERE name = n;
      IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        note := set_config('synchronous_commit', 'on', true);
      END IF;
      IF q.token <> t THEN
        wake := q.channel || ' ' || encode(q.token, 'hex') || ' ' || (r.fence + 32) || ' ' || q.grant_ms;
      END IF;
      result := 1;
      RETURN;
    END IF;
  END IF;
  note := set_config('synchronous_commit', 'off', true);
  IF r.token = t AND r.until > moment THEN
    result := 1;
  ELSIF r.readers_until > '-infinity' THEN
    DELETE FROM public.dlock_reader WHERE name = n AND token = t RETURNING until INTO ended;
    IF FOUND THEN
      result := (ended > clock_timestamp())::int;
      DELETE FROM public.dlock_reader WHERE name = n AND until <= clock_timestamp();
      UPDATE public.dlock_lease SET readers_until = coalesce(
        (SELECT max(until) FROM public.dlock_reader WHERE name = n), '-infinity') WHERE name = n;
    END IF;
  END IF;
  IF queued AND r.waiters > 0 THEN
    DELETE FROM public.dlock_queue WHERE name = n AND token = t;
    GET DIAGNOSTICS gone = ROW_COUNT;
    UPDATE public.dlock_lease SET waiters = greatest(waiters - gone, 0) WHERE name = n AND gone > 0;
  END IF;
  IF r.waiters > 0 THEN
    wake := public.dlock_next(n, t, r.token IS NOT DISTINCT FROM t);
  ELSIF r.token = t THEN
    UPDATE public.dlock_lease SET until = '-infinity', label = NULL WHERE name = n;
  END IF;
END $$;

-- As dlock_release of a lock or a permit, which stays taken for ms from now on, by nobody. Nobody is
-- let in, and the commit waits for the disk. The label stays, and the data do not.
-- since functions 2
CREATE OR REPLACE FUNCTION public.dlock_keep(n bytea, t bytea, ms bigint, patience bigint,
  OUT result bigint) LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE -- dlock version 1
  -- dlock functions 2
  -- dlock functions 3
  r public.dlock_lease;
  moment timestamptz;
  ends timestamptz;
  nobody bytea := uuid_send(gen_random_uuid());
  note text;
BEGIN
  IF patience > 0 THEN
    note := set_config('lock_timeout', patience::text, true);
  END IF;
  IF current_setting('enable_seqscan') = 'on' THEN
    note := set_config('enable_seqscan', 'off', true);
  END IF;
  note := set_config('synchronous_commit', 'on', true);
  result := 0;
  SELECT * INTO r FROM public.dlock_lease WHERE name = n FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  moment := clock_timestamp();
  ends := moment + ms * interval '1 ms';
  IF r.token = t AND r.until > moment THEN
    DELETE FROM public.dlock_reader WHERE name = n;
    INSERT INTO public.dlock_reader VALUES (n, nobody, r.fence, ends, r.since,
      substr(r.label, 1, coalesce(nullif(position(decode('00', 'hex') IN r.label), 0) - 1,
        length(r.label))), 1, 0, true);
    UPDATE public.dlock_lease SET until = '-infinity', readers_until = ends, lim = 1, label = NULL
      WHERE name = n;
    result := 1;
    RETURN;
  END IF;
  UPDATE public.dlock_reader SET token = nobody, until = ends, kept = true, label =
    substr(label, 1, coalesce(nullif(position(decode('00', 'hex') IN label), 0) - 1, length(label)))
    WHERE name = n AND token = t AND until > moment AND lim > 1;
  IF FOUND THEN
    UPDATE public.dlock_lease SET readers_until =
      (SELECT max(until) FROM public.dlock_reader WHERE name = n) WHERE name = n;
    result := 1;
  END IF;
END $$;

-- Ends the lease of token t, or of any holder if t is NULL. result: how many leases it ended.
CREATE OR REPLACE FUNCTION public.dlock_break(n bytea, t bytea, patience bigint,
  OUT result bigint, OUT wake text) LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE -- dlock version 1
  -- dlock functions 2
  -- dlock functions 3
  r public.dlock_lease;
  ended int;
  note text := set_config('lock_timeout', patience::text, true);
BEGIN
  IF current_setting('enable_seqscan') = 'on' THEN
    note := set_config('enable_seqscan', 'off', true);
  END IF;
  note := set_config('synchronous_commit', 'on', true);
  result := 0;
  SELECT * INTO r FROM public.dlock_lease WHERE name = n FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF r.until > clock_timestamp() AND (t IS NULL OR r.token = t) THEN
    UPDATE public.dlock_lease SET until = '-infinity', label = NULL WHERE name = n;
    result := 1;
  END IF;
  IF r.readers_until > '-infinity' THEN
    DELETE FROM public.dlock_reader
      WHERE name = n AND until > clock_timestamp() AND (t IS NULL OR token = t);
    GET DIAGNOSTICS ended = ROW_COUNT;
    result := result + ended;
    UPDATE public.dlock_lease SET readers_until = coalesce(
      (SELECT max(until) FROM public.dlock_reader WHERE name = n), '-infinity') WHERE name = n;
  END IF;
  IF r.waiters > 0 THEN
    wake := public.dlock_next(n, NULL::bytea, false);
  END IF;
END $$;

-- Extends leases, each by itself, in the order of the names. down: the exclusive holder becomes a
-- reader. patience below 0: a row that another transaction has locked is left out.
-- result of each: 1: extended; 0: the token does not hold the name; 2: left out.
CREATE OR REPLACE FUNCTION public.dlock_renew(names bytea[], tokens bytea[], ttls bigint[],
  downs boolean[], patience bigint)
  RETURNS TABLE (i bigint, result bigint, others bigint, wake text) LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
DECLARE -- dlock version 1
  -- dlock functions 2
  -- dlock functions 3
  r public.dlock_lease;
  o record;
  ends timestamptz;
  note text := set_config('lock_timeout', abs(patience)::text, true);
BEGIN
  IF current_setting('enable_seqscan') = 'on' THEN
    note := set_config('enable_seqscan', 'off', true);
  END IF;
  note := set_config('synchronous_commit', 'on', true);
  FOR o IN SELECT * FROM unnest(names, tokens, ttls, downs) WITH ORDINALITY
      AS x (name, token, ttl, down, i) ORDER BY x.name LOOP
    IF patience > 0 THEN
      SELECT * INTO r FROM public.dlock_lease l WHERE l.name = o.name FOR UPDATE;
    ELSE
      SELECT * INTO r FROM public.dlock_lease l WHERE l.name = o.name FOR UPDATE SKIP LOCKED;
    END IF;
    i := o.i;
    result := 0;
    others := 0;
    wake := NULL;
    IF NOT FOUND THEN
      IF patience < 0 THEN
        result := 2 * count(*) FROM public.dlock_lease l WHERE l.name = o.name;
      END IF;
      RETURN NEXT;
      CONTINUE;
    END IF;
    ends := clock_timestamp() + o.ttl * interval '1 ms';
    IF r.token = o.token AND r.until > clock_timestamp() AND NOT o.down THEN
      UPDATE public.dlock_lease l SET until = greatest(l.until, ends) WHERE l.name = o.name;
      result := 1;
    ELSIF r.token = o.token AND r.until > clock_timestamp() THEN
      INSERT INTO public.dlock_reader
        VALUES (o.name, o.token, r.fence, greatest(r.until, ends), r.since, r.label)
        ON CONFLICT (name, token) DO UPDATE SET until = EXCLUDED.until;
      UPDATE public.dlock_lease l SET until = '-infinity', readers_until = greatest(r.until, ends),
        lim = NULL, label = NULL WHERE l.name = o.name;
      result := 1;
      IF r.waiters > 0 THEN
        wake := public.dlock_next(r.name, NULL::bytea, false);
        SELECT l.waiters INTO r.waiters FROM public.dlock_lease l WHERE l.name = o.name;
      END IF;
    ELSE
      UPDATE public.dlock_reader d SET until = greatest(d.until, ends)
        WHERE d.name = o.name AND d.token = o.token AND d.until > clock_timestamp();
      IF FOUND THEN
        UPDATE public.dlock_lease l SET readers_until = greatest(l.readers_until, ends)
          WHERE l.name = o.name;
        result := 1;
      END IF;
    END IF;
    others := r.waiters * result;
    RETURN NEXT;
  END LOOP;
END $$;

-- Functions that an upgrade added may be called by those that may call dlock_take, which calls them
-- with the rights of its caller; whatever the default privileges are.
DO $$
DECLARE
  added regprocedure;
  g record;
BEGIN
  IF current_setting('dlock.upgrade', true) IS DISTINCT FROM 'on' THEN
    RETURN;
  END IF;
  FOR added IN SELECT unnest(ARRAY['public.dlock_reader_guard()'::regprocedure,
      'public.dlock_row_make(bytea)',
      'public.dlock_permit_add(bytea,bytea,bigint,bigint,timestamptz,timestamptz,bytea)',
      'public.dlock_wait(bytea,bigint,bigint,bigint,bytea,boolean,bigint,bigint,bigint,bigint,text,bytea)',
      'public.dlock_permit(bytea,bytea,bigint,bigint,bigint,bigint,text,bytea,bigint)',
      'public.dlock_keep(bytea,bytea,bigint,bigint)']) LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', added);
    FOR g IN SELECT x.grantee, x.is_grantable FROM pg_catalog.pg_proc p,
        aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) x
        WHERE p.oid = 'public.dlock_take(bytea,bytea,boolean,bigint,bigint,bigint,text,bytea,bigint)'
          ::regprocedure AND x.privilege_type = 'EXECUTE' LOOP
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s%s', added,
        CASE WHEN g.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(g.grantee)) END,
        CASE WHEN g.is_grantable AND g.grantee <> 0 THEN ' WITH GRANT OPTION' END);
    END LOOP;
  END LOOP;
END $$;

INSERT INTO public.dlock_meta VALUES (1, 'row', 1) ON CONFLICT DO NOTHING;
COMMIT;
