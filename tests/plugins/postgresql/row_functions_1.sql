-- SPDX-License-Identifier: MIT
-- Tables and functions of strategy=row as the first release made them, before functions 2.
--
-- The plugin runs this file when it opens a store, unless create=off. An administrator can run it
-- instead, as the owner of the tables:
--
--     psql -X -v ON_ERROR_STOP=1 -f row.sql DATABASE
--
-- For another schema or table prefix, replace "public.dlock_" everywhere. grants.sql has the rights
-- that an application needs. It does no harm to run the file twice, or at several places at once.
--
-- Each function locks the row of the name in dlock_lease first, and touches dlock_queue and
-- dlock_reader only while it holds that lock: there are no deadlocks. Each needs READ COMMITTED.
-- All times are the server's clock at the moment when they are read. A commit waits for the disk if
-- it gives or extends a lease, even if the role's default is off; other commits do not wait. A plan lives
-- as long as the connection, while a table that was small when it was made grows: no plan may read
-- a whole table.
--
--   dlock_lease    a row a name, for ever: fence; the exclusive holder (token, until); until when
--                  readers may hold the name ('-infinity': it has no readers); how many wait; the
--                  number of the last queue entry, and of the last one that left the head
--   dlock_reader   a row a reader. An exclusive grant deletes the rows that have ended
--   dlock_queue    a row a queue entry, in the order of arrival
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL client_min_messages = warning;
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
  label bytea
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS public.dlock_reader (
  name bytea,
  token bytea,
  fence bigint NOT NULL,
  until timestamp with time zone NOT NULL,
  since timestamp with time zone NOT NULL,
  label bytea,
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
  PRIMARY KEY (name, seq)
) WITH (fillfactor = 70);

-- Lets the waiters in that can hold the name now: one writer, or readers up to the next writer.
-- leaving: the exclusive holder gives the name back. Returns a line for each waiter that was let in,
-- t excepted: channel, token, fence, lease. The caller holds the lock of the name's row.
CREATE OR REPLACE FUNCTION public.dlock_next(n bytea, t bytea, leaving boolean) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE -- dlock version 1
  r public.dlock_lease;
  q public.dlock_queue;
  wake text;
  note text;
  ends timestamptz;
  blocked boolean := false;
  changed boolean := leaving;
  moment timestamptz := clock_timestamp();
BEGIN
  SELECT * INTO r FROM public.dlock_lease WHERE name = n;
  IF leaving OR r.until <= moment THEN
    r.until := '-infinity';
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
      blocked := q.until > moment AND NOT q.shared;
      EXIT WHEN blocked;
      DELETE FROM public.dlock_queue WHERE name = n AND seq = q.seq;
    END IF;
    changed := true;
    r.head := q.seq;
    r.waiters := r.waiters - 1;
    CONTINUE WHEN q.until <= moment;
    r.fence := r.fence + 32;
    ends := moment + q.grant_ms * interval '1 ms';
    IF q.shared THEN
      INSERT INTO public.dlock_reader VALUES (n, q.token, r.fence, ends, moment, q.label)
        ON CONFLICT (name, token) DO UPDATE SET fence = EXCLUDED.fence, until = EXCLUDED.until,
          since = EXCLUDED.since, label = EXCLUDED.label;
      r.readers_until := greatest(r.readers_until, ends);
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
                                               q.grant_ms));
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
      head = r.head, label = r.label WHERE name = n;
  END IF;
  RETURN wake;
END $$;

-- One attempt of token t to take name n for ttl ms.
--
-- what      0: try; 1: if it is held, queue me for place ms; 2: keep my queue entry for place ms more
-- channel   where to tell of a grant to my queue entry
-- patience  ms to wait for the row if another transaction has locked it; 0: as the session says
-- result    1: t holds it; 0: it does not, and is not queued; 2: it does not, and is queued
-- fence     of the grant; else the counter
-- ms        what the holder has left; -1: nobody holds it
-- ahead     entries before mine
-- others    that wait
-- wake      who was let in, as of dlock_next
CREATE OR REPLACE FUNCTION public.dlock_take(n bytea, t bytea, is_shared boolean, ttl bigint,
  what bigint, place bigint, tell text, lbl bytea, patience bigint, OUT result bigint,
  OUT number bigint, OUT ms bigint, OUT ahead bigint, OUT others bigint, OUT wake text)
LANGUAGE plpgsql AS $$
DECLARE -- dlock version 1
  r public.dlock_lease;
  q public.dlock_queue;
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
    SELECT * INTO r FROM public.dlock_lease WHERE name = n;
    moment := clock_timestamp();
    IF NOT FOUND AND what = 2 THEN
      result := 0;
      ms := -1;
      RETURN;
    ELSIF NOT FOUND THEN -- also after a DELETE by hand, under holders and waiters
      INSERT INTO public.dlock_lease
        SELECT n, NULL, extract(epoch FROM moment) * 1000000, '-infinity', NULL,
          coalesce((SELECT max(until) FROM public.dlock_reader WHERE name = n), '-infinity'),
          count(*), 0, coalesce(max(seq), 0), NULL FROM public.dlock_queue WHERE name = n
        ON CONFLICT (name) DO NOTHING;
      CONTINUE;
    ELSIF what = 0 AND r.token IS DISTINCT FROM t AND (r.until > moment
        OR (NOT is_shared AND r.readers_until > moment)) THEN -- writes nothing
      result := 0;
      number := r.fence;
      ms := ceil(extract(epoch FROM greatest(r.until, r.readers_until) - moment) * 1000);
      others := r.waiters;
      RETURN;
    END IF;
    SELECT * INTO r FROM public.dlock_lease WHERE name = n FOR UPDATE;
    EXIT WHEN FOUND; -- from here on alone with this name
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
    ELSIF what < 2 AND r.waiters = 0 AND r.until <= moment THEN
      INSERT INTO public.dlock_reader VALUES (n, t, r.fence + 32, moment + lease, moment, lbl)
        ON CONFLICT (name, token) DO UPDATE SET fence = EXCLUDED.fence, until = EXCLUDED.until,
          since = EXCLUDED.since, label = EXCLUDED.label;
      result := 1;
      number := r.fence + 32;
    END IF;
    IF result = 1 THEN
      UPDATE public.dlock_lease SET fence = greatest(fence, number), until = '-infinity',
        readers_until = greatest(readers_until, moment + lease) WHERE name = n;
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
  IF greatest(r.until, r.readers_until) > moment THEN
    ms := ceil(extract(epoch FROM greatest(r.until, r.readers_until) - moment) * 1000);
  END IF;
  IF what > 0 THEN
    SELECT * INTO q FROM public.dlock_queue WHERE name = n AND seq > r.head AND token = t;
    IF FOUND AND q.until > moment THEN
      UPDATE public.dlock_queue SET until = moment + place * interval '1 ms',
        grant_ms = least(place, ttl), channel = tell WHERE name = n AND seq = q.seq;
      result := 2;
      others := r.waiters - 1;
      SELECT count(*) INTO ahead FROM public.dlock_queue
        WHERE name = n AND seq > r.head AND seq < q.seq;
      RETURN;
    ELSIF FOUND THEN
      DELETE FROM public.dlock_queue WHERE name = n AND seq = q.seq;
      r.waiters := r.waiters - 1;
      UPDATE public.dlock_lease SET waiters = greatest(r.waiters, 0) WHERE name = n;
    END IF;
  END IF;
  IF what = 1 THEN
    INSERT INTO public.dlock_queue VALUES (n, r.tail + 1, t, is_shared, least(place, ttl),
      moment + place * interval '1 ms', tell, lbl);
    UPDATE public.dlock_lease SET waiters = r.waiters + 1, tail = tail + 1 WHERE name = n;
    result := 2;
    ahead := r.waiters;
  END IF;
END $$;

-- Token t gives name n back; queued: and its queue entry, and says nothing of what it had. A lease
-- that has ended is lost. result: 1: it held the name; 0: it did not.
--
-- If nobody waits, the commit does not wait for the disk: a crash brings a lease back that ends by
-- itself.
CREATE OR REPLACE FUNCTION public.dlock_release(n bytea, t bytea, is_shared boolean, queued boolean,
  patience bigint, OUT result bigint, OUT wake text) LANGUAGE plpgsql AS $$
DECLARE -- dlock version 1
  r public.dlock_lease;
  gone int;
  ended timestamptz;
  note text;
BEGIN
  IF patience > 0 THEN
    note := set_config('lock_timeout', patience::text, true);
  END IF;
  IF current_setting('enable_seqscan') = 'on' THEN
    note := set_config('enable_seqscan', 'off', true);
  END IF;
  note := set_config('synchronous_commit', 'off', true);
  IF NOT is_shared AND NOT queued THEN
    UPDATE public.dlock_lease SET until = '-infinity'
      WHERE name = n AND token = t AND waiters = 0 AND until > clock_timestamp();
    IF FOUND THEN
      result := 1;
      RETURN;
    END IF;
  END IF;
  result := 0;
  SELECT * INTO r FROM public.dlock_lease WHERE name = n FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF r.token = t AND r.until > clock_timestamp() THEN
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
    UPDATE public.dlock_lease SET until = '-infinity' WHERE name = n;
  END IF;
END $$;

-- Ends the lease of token t, or of any holder if t is NULL. result: how many leases it ended.
CREATE OR REPLACE FUNCTION public.dlock_break(n bytea, t bytea, patience bigint,
  OUT result bigint, OUT wake text) LANGUAGE plpgsql AS $$
DECLARE -- dlock version 1
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
    UPDATE public.dlock_lease SET until = '-infinity' WHERE name = n;
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
    wake := public.dlock_next(n, NULL, false);
  END IF;
END $$;

-- Extends leases, each by itself, in the order of the names. down: the exclusive holder becomes a
-- reader. patience below 0: a row that another transaction has locked is left out.
-- result of each: 1: extended; 0: the token does not hold the name; 2: left out.
CREATE OR REPLACE FUNCTION public.dlock_renew(names bytea[], tokens bytea[], ttls bigint[],
  downs boolean[], patience bigint)
  RETURNS TABLE (i bigint, result bigint, others bigint, wake text) LANGUAGE plpgsql AS $$
DECLARE -- dlock version 1
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
      UPDATE public.dlock_lease l SET until = '-infinity', readers_until = greatest(r.until, ends)
        WHERE l.name = o.name;
      result := 1;
      IF r.waiters > 0 THEN
        wake := public.dlock_next(o.name, NULL, false);
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

INSERT INTO public.dlock_meta VALUES (1, 'row', 1) ON CONFLICT DO NOTHING;
COMMIT;
