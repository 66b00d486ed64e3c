-- The tables and functions of PostgresQuotaStore, schema version 1, for PostgreSQL 14 and later. Running this again changes nothing. Times are
-- milliseconds. Parameters are text, so that every client can send them; a null time is that of the server's clock.

-- The counters. HOT updates need free space in each page, and no index on a column that decisions change.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota (
  count bigint NOT NULL, window_start double precision NOT NULL, last_seen double precision NOT NULL,
  admitted boolean NOT NULL, -- the last decision
  quota text COLLATE "C" NOT NULL, caller text COLLATE "C" NOT NULL, -- the name of a quota; a digest, or 'overflow' for the overflow counter
  PRIMARY KEY (caller, quota)
) WITH (fillfactor = 50);

-- One row for each quota. Its lock is needed to insert or delete a counter and comes before the locks of counters.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota_state (
  quota text COLLATE "C" PRIMARY KEY,
  tracked bigint NOT NULL DEFAULT 0, -- the number of callers' own counters, including those that a sweep has yet to delete
  swept_at double precision, sweeps bigint NOT NULL DEFAULT 0,
  next_page bigint NOT NULL DEFAULT 0, pages_left bigint NOT NULL DEFAULT 0, -- of the counters, where the sweep continues
  clock_offset double precision NOT NULL DEFAULT 0 -- by how much the clock has been set back
) WITH (fillfactor = 10);

-- The places of requests in flight that a process (the holder) holds for a caller.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota_place (
  quota text COLLATE "C" NOT NULL, caller text COLLATE "C" NOT NULL, holder text COLLATE "C" NOT NULL,
  held bigint NOT NULL, renewed_at double precision NOT NULL,
  PRIMARY KEY (caller, quota, holder)
) WITH (fillfactor = 50);

CREATE OR REPLACE FUNCTION llm_quota_time(given_time text) RETURNS double precision LANGUAGE sql VOLATILE AS $function$
  SELECT coalesce(given_time::double precision, date_part('epoch', clock_timestamp()) * 1000)
$function$;

-- Decides for callers in ascending order, so that calls never wait for each other in a circle. Returns for each, followed by a comma: count,
-- time left in the window, and 1 if admitted plus 2 if on the overflow counter; nothing if it must be asked again. given_asked is how often it has
-- been. A new caller at the cap is asked again while a sweep is unfinished, but at most 8 times: then it uses the overflow counter.
CREATE OR REPLACE FUNCTION llm_quota_acquire(
  quota_name text, given_window text, given_cap text, given_time text, given_asked text, given_callers text, given_limits text, given_costs text
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off AS $function$
DECLARE
  most CONSTANT bigint := 9007199254740991; step CONSTANT bigint := 8; -- pages of a sweep
  window_length CONSTANT double precision := given_window;
  callers text[] := given_callers; limits CONSTANT bigint[] := given_limits; costs CONSTANT bigint[] := given_costs;
  state llm_quota_state%ROWTYPE; own llm_quota%ROWTYPE;
  time double precision := llm_quota_time(given_time); latest double precision := '-Infinity';
  needs_lock boolean := given_asked::integer > 0; has_lock boolean := false;
  deleted bigint; pages bigint; pause timestamptz;
  place integer := 1; reply text := '';
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true); -- a crash may lose the counts of the last moments
  SELECT * INTO state FROM llm_quota_state WHERE quota = quota_name;
  time := time + coalesce(state.clock_offset, 0);
  needs_lock := needs_lock OR state.swept_at IS NULL OR time - state.swept_at >= 60000;
  WHILE place <= cardinality(callers) LOOP
    IF needs_lock AND NOT has_lock THEN
      INSERT INTO llm_quota_state (quota) VALUES (quota_name) ON CONFLICT DO NOTHING;
      SELECT * INTO state FROM llm_quota_state WHERE quota = quota_name FOR UPDATE;
      has_lock := true;
      time := greatest(llm_quota_time(given_time) + state.clock_offset, state.swept_at); -- for a new counter, if the clock has been set back
      pages := pg_relation_size('llm_quota'::regclass) / current_setting('block_size')::bigint;
      -- A sweep decides by its time which counters are dead. They are deleted step by step. The first request only starts the interval.
      IF time - state.swept_at >= 60000 THEN
        state.sweeps := state.sweeps + 1;
        state.pages_left := pages + step;
        state.swept_at := time;
      END IF;
      state.swept_at := coalesce(state.swept_at, time);
      latest := state.swept_at;
    END IF;

    -- After a wait for the counter, this is evaluated again with its new values. Time never runs backwards for a counter.
    UPDATE llm_quota SET
      count = least(most, CASE WHEN greatest(time, last_seen) - window_start >= window_length THEN costs[place]
        WHEN count < limits[place] THEN count + costs[place] ELSE count END),
      admitted = count < limits[place] OR greatest(time, last_seen) - window_start >= window_length,
      window_start = CASE WHEN greatest(time, last_seen) - window_start >= window_length THEN greatest(time, last_seen) ELSE window_start END,
      last_seen = greatest(time, last_seen)
    WHERE caller = callers[place] AND quota = quota_name RETURNING * INTO own;
    IF NOT FOUND THEN
      IF NOT has_lock AND reply = '' THEN
        needs_lock := true; CONTINUE;
      ELSIF has_lock AND (state.tracked < given_cap::bigint OR callers[place] = 'overflow') THEN
        INSERT INTO llm_quota (count, window_start, last_seen, admitted, quota, caller)
        VALUES (least(costs[place], most), time, time, true, quota_name, callers[place]) RETURNING * INTO own;
        state.tracked := state.tracked + (callers[place] <> 'overflow')::integer;
      ELSIF has_lock AND (state.pages_left = 0 OR given_asked::integer >= 8) THEN
        callers[place] := 'overflow'; CONTINUE;
      END IF;
    END IF;
    latest := greatest(latest, own.last_seen);
    reply := reply || coalesce(own.count || ' ' || window_length - (own.last_seen - own.window_start)
      || ' ' || own.admitted::integer + 2 * (own.caller = 'overflow')::integer, '') || ',';
    place := place + 1;
  END LOOP;
  IF has_lock THEN
    -- The rest is left to later decisions, so that no lock is held for long.
    pause := clock_timestamp() + interval '2 ms';
    WHILE state.pages_left > 0 AND clock_timestamp() < pause LOOP
      -- A dead counter that is locked is being used again. Its window is over, so it has the results of a new one.
      DELETE FROM llm_quota WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM llm_quota
        WHERE ctid >= ('(' || state.next_page || ',0)')::tid AND ctid < ('(' || state.next_page + step || ',0)')::tid
          AND quota = quota_name AND caller <> 'overflow' AND state.swept_at - last_seen >= window_length + 60000
        FOR UPDATE SKIP LOCKED));
      GET DIAGNOSTICS deleted = ROW_COUNT;
      state.tracked := state.tracked - deleted;
      state.pages_left := greatest(state.pages_left - step, 0);
      state.next_page := CASE WHEN state.next_page + step < pages THEN state.next_page + step ELSE 0 END;
    END LOOP;
    UPDATE llm_quota_state SET tracked = state.tracked, swept_at = state.swept_at, sweeps = state.sweeps,
      next_page = state.next_page, pages_left = state.pages_left WHERE quota = quota_name;
  END IF;
  -- If the clock has been set back, the difference is added to it from now on, so that windows do not become longer. This never waits.
  IF latest - state.clock_offset - llm_quota_time(given_time) > 100 THEN
    UPDATE llm_quota_state SET clock_offset = greatest(clock_offset, latest - llm_quota_time(given_time))
    WHERE quota = (SELECT quota FROM llm_quota_state WHERE quota = quota_name FOR UPDATE SKIP LOCKED);
  END IF;
  RETURN reply;
END
$function$;

-- Returns the counter that the caller's next request would use, as above; nothing for a new window. A large table is not searched, as in inspect.
CREATE OR REPLACE FUNCTION llm_quota_peek(
  quota_name text, given_window text, given_cap text, given_time text, caller_key text
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
DECLARE
  window_length CONSTANT double precision := given_window;
  state llm_quota_state%ROWTYPE; own llm_quota%ROWTYPE;
  time double precision;
BEGIN
  SELECT * INTO state FROM llm_quota_state WHERE quota = quota_name;
  time := llm_quota_time(given_time) + state.clock_offset;
  SELECT * INTO own FROM llm_quota WHERE caller = caller_key AND quota = quota_name;
  IF NOT FOUND THEN
    IF time - state.swept_at >= 60000 THEN state.swept_at := time; state.pages_left := 1; END IF;
    IF state.tracked >= given_cap::bigint AND (state.pages_left = 0 OR pg_relation_size('llm_quota'::regclass) > 8388608 OR NOT EXISTS (
      SELECT FROM llm_quota WHERE quota = quota_name AND state.swept_at - last_seen >= window_length + 60000)) THEN
      SELECT * INTO own FROM llm_quota WHERE caller = 'overflow' AND quota = quota_name;
    END IF;
  END IF;
  time := window_length - (greatest(time, own.last_seen) - own.window_start);
  RETURN CASE WHEN time > 0 THEN own.count || ' ' || time || ' ' || 2 * (own.caller = 'overflow')::integer ELSE '' END;
END
$function$;

CREATE OR REPLACE FUNCTION llm_quota_forget(quota_name text, caller_key text) RETURNS void LANGUAGE sql SET lock_timeout = '1s' AS $function$
  SELECT FROM llm_quota_state WHERE quota = quota_name FOR UPDATE;
  UPDATE llm_quota_state AS state SET tracked = tracked - (SELECT count(*) FROM llm_quota AS own WHERE caller = caller_key AND own.quota = state.quota)
  WHERE quota = quota_name;
  DELETE FROM llm_quota WHERE caller = caller_key AND quota = quota_name;
$function$;

-- Removes the counters of a named quota, or of all quotas if it is the default one. The other functions read the state first, so this waits until
-- they have ended, and they wait for it. A function in SQL would lock the tables before its first statement, so two could wait for each other.
CREATE OR REPLACE FUNCTION llm_quota_clear(quota_name text) RETURNS void LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
BEGIN
  LOCK TABLE llm_quota_state;
  DELETE FROM llm_quota_state WHERE quota_name IN (quota, 'default');
  DELETE FROM llm_quota WHERE quota_name IN (quota, 'default');
END
$function$;

-- Returns the number of tracked callers and the number of sweeps.
CREATE OR REPLACE FUNCTION llm_quota_inspect(quota_name text, given_window text) RETURNS text LANGUAGE sql STABLE SET lock_timeout = '1s' AS $function$
  SELECT CASE WHEN pages_left = 0 OR pg_relation_size('llm_quota'::regclass) > 8388608 THEN tracked ELSE (
    SELECT count(*) FROM llm_quota AS own WHERE own.quota = quota_name AND caller <> 'overflow' AND swept_at - last_seen < given_window::double precision + 60000
  ) END || ' ' || sweeps FROM llm_quota_state WHERE quota = quota_name
$function$;

-- Takes a place for each limit above the caller's places and writes how many the holder has. A null limit only writes. Places that have not been
-- renewed for 30 s are lost. Returns for each, followed by a comma: the caller's places, and 1 if one was taken.
CREATE OR REPLACE FUNCTION llm_quota_enter(
  holder_name text, given_time text, given_quotas text, given_callers text, given_limits text, given_helds text
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off AS $function$
DECLARE
  quotas CONSTANT text[] := given_quotas; callers CONSTANT text[] := given_callers;
  limits CONSTANT bigint[] := given_limits; helds CONSTANT bigint[] := given_helds;
  held_now bigint; others bigint; taken integer; reply text := '';
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  FOR place IN 1 .. cardinality(callers) LOOP
    IF (quotas[place], callers[place]) IS DISTINCT FROM (quotas[place - 1], callers[place - 1]) THEN held_now := helds[place]; END IF;
    others := 0;
    IF limits[place] IS NOT NULL THEN
      -- Until the transaction ends, no other process takes a place for the caller.
      PERFORM pg_advisory_xact_lock(hashtextextended(callers[place], hashtextextended(quotas[place], 0)));
      SELECT coalesce(sum(held), 0) INTO others FROM llm_quota_place WHERE caller = callers[place] AND quota = quotas[place]
        AND holder <> holder_name AND abs(llm_quota_time(given_time) - renewed_at) < 30000;
    END IF;
    taken := coalesce((others + held_now < limits[place])::integer, 0);
    held_now := held_now + taken;
    IF held_now > 0 THEN
      INSERT INTO llm_quota_place (quota, caller, holder, held, renewed_at)
      VALUES (quotas[place], callers[place], holder_name, held_now, llm_quota_time(given_time))
      ON CONFLICT (caller, quota, holder) DO UPDATE SET held = excluded.held, renewed_at = excluded.renewed_at;
    ELSE
      DELETE FROM llm_quota_place WHERE caller = callers[place] AND quota = quotas[place] AND holder = holder_name;
    END IF;
    reply := reply || others + held_now || ' ' || taken || ',';
  END LOOP;
  RETURN reply;
END
$function$;

-- Deletes the places that are lost.
CREATE OR REPLACE FUNCTION llm_quota_free(given_time text) RETURNS void LANGUAGE sql SET lock_timeout = '1s' AS $function$
  DELETE FROM llm_quota_place WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM llm_quota_place WHERE abs(llm_quota_time(given_time) - renewed_at) >= 30000 FOR UPDATE SKIP LOCKED))
$function$;

-- The store looks for this function before its first decision.
CREATE OR REPLACE FUNCTION llm_quota_version_1() RETURNS void LANGUAGE sql AS '';
