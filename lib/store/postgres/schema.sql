-- The table and functions of PostgresQuotaStore, schema version 3, for PostgreSQL 14 and later. Running this again changes nothing.
-- docs/postgres.md lists the privileges that a service needs, and how to remove everything.
--
-- Columns are always qualified, because a table can have the name of any variable. Times are milliseconds; null is that of the server.
-- Locks are taken in one order: advisory ones, states, places, counters, each in the order of the arrays, which the store sorts.
DO $schema$ BEGIN
PERFORM pg_advisory_xact_lock(hashtextextended('fastify-llm-quota', 0)); -- for migrations that run at the same time
IF to_regclass('llm_quota') IS NOT NULL AND to_regproc('llm_quota_version_3') IS NULL THEN
  RAISE EXCEPTION 'the table % has the layout of another version: use another table', to_regclass('llm_quota');
END IF;

-- The counters of callers, and for each quota a row of the caller 'overflow' and one of the caller 'state', whose lock is needed to insert
-- or delete a counter. For requests in flight, a row for each caller and process: its window is the lease of the places, and without places
-- it keeps the number for late calls. HOT updates need free space in each page, and no index on a column that decisions change.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota (
  count bigint, window_start float8, window_length float8, last_seen float8,
  window_end float8, -- of a day or month of a time zone, in milliseconds since the epoch
  number bigint, -- identifies the window; for places, the latest call that wrote them
  tracked bigint, -- the number of callers' own counters, including those that a sweep has yet to delete
  swept_at float8, sweeps bigint, -- the latest sweep, and the number of sweeps
  unswept text COLLATE "C", -- a sweep has yet to check the callers after this one; null if it is over
  clock_offset float8, -- only where counters is '': by how much the clock has been set back
  counters text COLLATE "C" NOT NULL, caller text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL DEFAULT '', -- the process that holds the places
  PRIMARY KEY (counters, caller, holder)
) WITH (fillfactor = 50);

-- Returns the time, and what it adds to the clock. It never runs backwards by more than 100 ms: if the clock has been set back, the
-- difference is added from then on. The row of the clock is the state of the counters ''. Nothing ever waits for it once it is there.
CREATE OR REPLACE FUNCTION llm_quota_now(given_time float8, OUT moment float8, OUT shift float8) LANGUAGE plpgsql AS $function$
DECLARE latest float8;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'the request quota needs the isolation level read committed, not %', current_setting('transaction_isolation');
  END IF;
  SELECT own.last_seen, own.clock_offset INTO latest, shift FROM llm_quota AS own WHERE own.counters = '' AND own.caller = 'state';
  -- The clock is read after the row, so that the time of another decision is never later.
  shift := coalesce(shift, 0); moment := coalesce(given_time, date_part('epoch', clock_timestamp()) * 1000) + shift;
  IF latest IS NULL THEN
    INSERT INTO llm_quota (counters, caller, last_seen, clock_offset) VALUES ('', 'state', moment, 0) ON CONFLICT DO NOTHING;
  ELSIF moment - latest NOT BETWEEN 0 AND 100 THEN
    shift := shift + greatest(0, latest - moment); moment := greatest(moment, latest);
    UPDATE llm_quota AS own SET last_seen = greatest(own.last_seen, moment), clock_offset = greatest(own.clock_offset, shift)
    WHERE own.caller = 'state' AND own.counters = (
      SELECT free.counters FROM llm_quota AS free WHERE free.counters = '' AND free.caller = 'state' FOR UPDATE SKIP LOCKED);
  END IF;
END $function$;

-- Decides on requests in turn. What they need is in slots: counters, places, and for requests that were asked before the state and the
-- overflow counter of each quota with windows. Returns as JSON an array of: between which times of the clock, while nobody sets it back, no
-- sweep is due, and what to add to the clock; and for each request null if it must be asked again, or an array of its demands: count, time
-- left or end of the window, 1 if there is room plus 2 if on the overflow counter, and number of the window. A new caller is asked again
-- with the lock of the state, and at the cap until a sweep is over.
CREATE OR REPLACE FUNCTION llm_quota_acquire(
  given_time float8, cap bigint, call_number bigint,
  names text[], keys text[], holders text[], lengths float8[], helds bigint[], -- of slots
  sizes int[], -- of requests: the number of demands
  slots int[], states int[], overflows int[], numbers bigint[], limits bigint[], costs bigint[], finishes float8[] -- of demands
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $function$
DECLARE most CONSTANT bigint := 9007199254740991;
  has_places CONSTANT boolean := '' < ANY (holders); has_states CONSTANT boolean := 'state' = ANY (keys);
  clock record; moment float8; due float8; seen float8; sweep record; next_rest text; removed bigint;
  totals bigint[]; starts float8[]; ends float8[]; marks bigint[]; tracks bigint[]; rests text[]; others bigint[];
  demand int := 0; slot int; state int; has_room boolean[]; is_admitted boolean; is_decided boolean; decided text; reply text;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true); -- a crash may lose the counts of the last moments
  IF has_places THEN
    -- Until the transaction ends, no other process takes places of these callers. Waits before the table is written, because of clear.
    PERFORM pg_advisory_xact_lock(locks.number) FROM (
      SELECT DISTINCT hashtextextended(given.key, hashtextextended(given.name, 0)) AS number
      FROM unnest(names, keys, holders) AS given (name, key, holder) WHERE given.holder <> '' ORDER BY 1) AS locks;
  END IF;
  clock := llm_quota_now(given_time); moment := clock.moment;
  due := (SELECT min(own.swept_at) + 60000 FROM llm_quota AS own WHERE own.counters = ANY (names) AND own.caller = 'state');
  reply := format('[[%s,%s,%s]', moment - clock.shift, least(moment + 100, due) - clock.shift, clock.shift);
  IF has_places OR has_states THEN -- a state that is already there is only locked
    INSERT INTO llm_quota AS own (counters, caller, holder, window_length, count, window_start, number, tracked, swept_at, sweeps)
    SELECT given.*, moment, call_number, 0, moment, 0 FROM unnest(names, keys, holders, lengths, helds) AS given (name, key, holder)
    WHERE given.holder <> '' OR given.key = 'state'
    ON CONFLICT (counters, caller, holder) DO UPDATE SET count = excluded.count, window_start = moment, number = call_number
    WHERE own.holder <> '' AND own.number <= call_number;
  END IF;

  SELECT array_agg(own.count), array_agg(own.window_start), array_agg(own.window_end), array_agg(own.number), array_agg(own.tracked),
    array_agg(own.unswept), array_agg(coalesce(other.held, 0)), max(own.last_seen)
  INTO totals, starts, ends, marks, tracks, rests, others, seen
  FROM unnest(names, keys, holders) AS given (name, key, holder)
  LEFT JOIN LATERAL (SELECT own.* FROM llm_quota AS own
    WHERE own.counters = given.name AND own.caller = given.key AND own.holder = given.holder FOR UPDATE) AS own ON true
  LEFT JOIN LATERAL (SELECT sum(own.count)::bigint AS held FROM llm_quota AS own WHERE given.holder <> '' AND own.counters = given.name
    AND own.caller = given.key AND own.holder <> given.holder AND moment - own.window_start < own.window_length) AS other ON true;
  moment := greatest(moment, seen);

  FOR request IN 1 .. cardinality(sizes) LOOP
    is_decided := true; is_admitted := true; decided := NULL;
    FOR each IN demand + 1 .. demand + sizes[request] LOOP
      slot := slots[each]; state := states[each];
      IF holders[slot] <> '' THEN
        is_decided := marks[slot] <= call_number; -- otherwise this call is late
      ELSIF starts[slot] IS NULL AND tracks[state] < cap THEN
        tracks[state] := tracks[state] + 1;
      ELSIF starts[slot] IS NULL THEN
        is_decided := tracks[state] IS NOT NULL AND rests[state] IS NULL;
        slot := overflows[each]; slots[each] := slot;
      END IF;
      EXIT WHEN NOT is_decided;
      IF starts[slot] IS NULL THEN
        INSERT INTO llm_quota (counters, caller, window_length) VALUES (names[slot], keys[slot], lengths[slot]);
      END IF;
      IF coalesce(finishes[each] <= ends[slot], moment - starts[slot] < lengths[slot]) IS NOT TRUE THEN
        totals[slot] := 0; starts[slot] := moment; ends[slot] := finishes[each]; marks[slot] := numbers[each];
      END IF;
      has_room[each] := totals[slot] + others[slot] + greatest(costs[each], 1) <= limits[each] OR limits[each] = most;
      is_admitted := is_admitted AND has_room[each];
    END LOOP;
    FOR each IN demand + 1 .. demand + sizes[request] LOOP
      EXIT WHEN NOT is_decided;
      slot := slots[each];
      IF is_admitted THEN totals[slot] := least(most, totals[slot] + costs[each]); END IF;
      decided := concat_ws(',', decided, format('[%s,%s,%s,%s]', totals[slot] + others[slot],
        coalesce(ends[slot], starts[slot] + lengths[slot] - moment), has_room[each]::int + 2 * (keys[slot] = 'overflow')::int,
        marks[slot]));
    END LOOP;
    demand := demand + sizes[request]; reply := reply || coalesce(',[' || decided || ']', ',null');
  END LOOP;

  UPDATE llm_quota AS own SET count = given.total, window_start = given.start, window_end = given.finish, last_seen = moment,
    number = given.mark, tracked = given.tracked
  FROM unnest(names, keys, holders, totals, starts, ends, marks, tracks) AS given (name, key, holder, total, start, finish, mark, tracked)
  WHERE own.counters = given.name AND own.caller = given.key AND own.holder = given.holder AND given.total IS NOT NULL;
  -- A sweep decides by its time which counters are dead. The first request only starts the interval. It deletes them step by step, except
  -- those that are locked, which are being used again. It is not in the order of the locks, so it never waits, and nothing waits after it.
  IF has_states OR moment >= due THEN
    FOR sweep IN
      SELECT own.* FROM llm_quota AS own WHERE own.counters = ANY (names) AND own.caller = 'state'
        AND (moment - own.swept_at >= 60000 OR own.unswept IS NOT NULL) FOR UPDATE SKIP LOCKED
    LOOP
      IF moment - sweep.swept_at >= 60000 THEN
        sweep.swept_at := moment; sweep.sweeps := sweep.sweeps + 1; sweep.unswept := '';
      END IF;
      next_rest := (SELECT own.caller FROM llm_quota AS own WHERE own.counters = sweep.counters AND own.caller > sweep.unswept
        ORDER BY own.caller OFFSET 1999 LIMIT 1);
      DELETE FROM llm_quota AS own WHERE own.counters = sweep.counters AND own.caller = ANY (ARRAY(
        SELECT dead.caller FROM llm_quota AS dead WHERE dead.counters = sweep.counters AND dead.caller > sweep.unswept
          AND dead.caller <= coalesce(next_rest, (SELECT max(own.caller) FROM llm_quota AS own WHERE own.counters = sweep.counters))
          AND dead.caller NOT IN ('state', 'overflow')
          AND sweep.swept_at - dead.last_seen >= dead.window_length + 60000 FOR UPDATE SKIP LOCKED));
      GET DIAGNOSTICS removed = ROW_COUNT;
      UPDATE llm_quota AS own SET swept_at = sweep.swept_at, sweeps = sweep.sweeps, unswept = next_rest, tracked = own.tracked - removed
      WHERE own.counters = sweep.counters AND own.caller = 'state';
    END LOOP;
  END IF;
  RETURN reply || ']';
END $function$;

-- Decides on a single demand as above; on a known caller with room, between the times of an earlier reply, at half the cost.
CREATE OR REPLACE FUNCTION llm_quota_acquire_one(
  given_time float8, since float8, until float8, shift float8, cap bigint,
  name text, key text, length float8, number bigint, allowed bigint, cost bigint, finish float8
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $function$
DECLARE clock CONSTANT float8 := coalesce(given_time, date_part('epoch', clock_timestamp()) * 1000);
  moment CONSTANT float8 := clock + shift; reply text;
BEGIN
  IF clock >= since AND clock < until THEN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE llm_quota AS own SET count = own.count + cost, last_seen = greatest(own.last_seen, moment)
    WHERE own.counters = name AND own.caller = key AND own.count + greatest(cost, 1) <= allowed
      AND coalesce(finish <= own.window_end, moment - own.window_start < own.window_length)
    RETURNING format('[null,[[%s,%s,1,%s]]]', own.count, coalesce(own.window_end, own.window_start + length - own.last_seen), own.number)
      INTO reply;
    IF FOUND THEN RETURN reply; END IF;
  END IF;
  RETURN llm_quota_acquire(given_time, cap, 0, ARRAY[name], ARRAY[key], ARRAY[''], ARRAY[length], ARRAY[0],
    ARRAY[1], ARRAY[1], ARRAY[0], ARRAY[0], ARRAY[number], ARRAY[allowed], ARRAY[cost], ARRAY[finish]);
END $function$;

-- Writes how many places this process holds, and gives back amounts in windows. Deletes places whose lease is over, from some pages.
CREATE OR REPLACE FUNCTION llm_quota_release(
  given_time float8, process text, lease float8, call_number bigint,
  place_names text[], place_keys text[], helds bigint[], names text[], keys text[], numbers bigint[], amounts bigint[]
) RETURNS void LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $function$
DECLARE moment CONSTANT float8 := (llm_quota_now(given_time)).moment; pages CONSTANT bigint := 8; page bigint;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  INSERT INTO llm_quota AS own (counters, caller, count, holder, window_length, window_start, number)
  SELECT given.*, process, lease, moment, call_number FROM unnest(place_names, place_keys, helds) AS given
  ON CONFLICT (counters, caller, holder) DO UPDATE SET count = excluded.count, window_start = moment, number = call_number
  WHERE own.number <= call_number;
  FOR slot IN 1 .. cardinality(names) LOOP
    UPDATE llm_quota AS own SET count = greatest(0, own.count - amounts[slot])
    WHERE own.counters = names[slot] AND own.caller = keys[slot] AND own.number = numbers[slot];
  END LOOP;
  -- After the last statement that can wait. On average, more rows are looked at than written.
  IF cardinality(helds) > random() * 32 THEN
    page := floor(random() * (1 + pg_relation_size('llm_quota'::regclass) / current_setting('block_size')::bigint / pages)) * pages;
    DELETE FROM llm_quota AS own WHERE own.ctid = ANY (ARRAY(
      SELECT dead.ctid FROM llm_quota AS dead
      WHERE dead.ctid >= format('(%s,0)', page)::tid AND dead.ctid < format('(%s,0)', page + pages)::tid
        AND dead.holder <> '' AND moment - dead.window_start >= dead.window_length FOR UPDATE SKIP LOCKED));
  END IF;
END $function$;

-- Returns the counter that a demand would use now, as above; nothing for a new window.
CREATE OR REPLACE FUNCTION llm_quota_peek(given_time float8, cap bigint, name text, key text, finish float8) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
DECLARE moment CONSTANT float8 := (llm_quota_now(given_time)).moment; state record;
BEGIN
  SELECT own.* INTO state FROM llm_quota AS own WHERE own.counters = name AND own.caller = 'state';
  IF moment - state.swept_at >= 60000 THEN state.swept_at := moment; state.unswept := ''; END IF;
  IF state.tracked >= cap AND NOT EXISTS (SELECT FROM llm_quota AS own WHERE own.counters = name AND own.caller = key)
    AND NOT EXISTS (SELECT FROM llm_quota AS dead WHERE dead.counters = name AND dead.caller > state.unswept
      AND dead.caller NOT IN ('state', 'overflow') AND state.swept_at - dead.last_seen >= dead.window_length + 60000)
  THEN key := 'overflow'; END IF;
  RETURN (
    SELECT '[' || sum(own.count) || ','
      || max(coalesce(own.window_end, own.window_start + own.window_length - greatest(moment, own.last_seen)))
      || ',' || 2 * (key = 'overflow')::int || ',0]'
    FROM llm_quota AS own WHERE own.counters = name AND own.caller = key
      AND coalesce(finish <= own.window_end, greatest(moment, own.last_seen) - own.window_start < own.window_length));
END $function$;

CREATE OR REPLACE FUNCTION llm_quota_forget(name text, key text) RETURNS void LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
BEGIN
  PERFORM FROM llm_quota AS own WHERE own.counters = name AND own.caller = 'state' FOR UPDATE;
  DELETE FROM llm_quota AS own WHERE own.counters = name AND own.caller = key AND own.holder = '';
  UPDATE llm_quota AS own SET tracked = own.tracked - 1 WHERE FOUND AND own.counters = name AND own.caller = 'state';
END $function$;

-- Returns a page of callers after a cursor as JSON.
CREATE OR REPLACE FUNCTION llm_quota_list(given_time float8, given_date float8, name text, cursor text) RETURNS text
LANGUAGE sql SET lock_timeout = '1s' AS $function$
  SELECT json_build_object('cursor', CASE WHEN count(*) = 1000 THEN max(page.caller) END, 'callers', coalesce(json_agg(json_build_object(
    'callerKey', page.caller, 'count', page.count, 'windowRemaining', page.rest)) FILTER (WHERE page.count IS NOT NULL), '[]'))::text
  FROM (
    SELECT own.caller, sum(own.count) FILTER (WHERE (own.holder = '' OR own.count > 0)
        AND coalesce(given_date < own.window_end, clock.moment - own.window_start < own.window_length)) AS count,
      max(own.window_start + own.window_length - clock.moment) FILTER (WHERE own.holder = '' AND own.window_end IS NULL) AS rest
    FROM llm_quota_now(given_time) AS clock, llm_quota AS own
    WHERE own.counters = name AND own.caller > cursor AND own.caller NOT IN ('state', 'overflow')
    GROUP BY own.caller ORDER BY own.caller LIMIT 1000) AS page
$function$;

-- Returns the number of tracked callers, without those that a sweep has yet to delete, and the number of sweeps, as JSON.
CREATE OR REPLACE FUNCTION llm_quota_inspect(name text) RETURNS text LANGUAGE sql STABLE SET lock_timeout = '1s' AS $function$
  SELECT json_build_object('sweeps', coalesce(state.sweeps, 0), 'trackedCallers', coalesce(
    state.tracked - (SELECT count(*) FROM llm_quota AS dead WHERE dead.counters = name AND dead.caller > state.unswept
      AND dead.caller NOT IN ('state', 'overflow') AND state.swept_at - dead.last_seen >= dead.window_length + 60000),
    (SELECT count(DISTINCT own.caller) FROM llm_quota AS own WHERE own.counters = name AND own.count > 0)))::text
  FROM (SELECT) AS one LEFT JOIN llm_quota AS state ON state.counters = name AND state.caller = 'state'
$function$;

-- The lock lets only readers pass, so that no other call waits for a row of this one while this one waits for a row of the other.
-- In the language sql, analysing DELETE would take a lock of the table before.
CREATE OR REPLACE FUNCTION llm_quota_clear() RETURNS void LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
BEGIN LOCK TABLE llm_quota IN EXCLUSIVE MODE; DELETE FROM llm_quota; END $function$;

-- The store looks for this function before its first decision.
CREATE OR REPLACE FUNCTION llm_quota_version_3() RETURNS void LANGUAGE sql AS '';
END $schema$;
