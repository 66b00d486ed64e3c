-- The tables and functions of PostgresQuotaStore, schema version 2, for PostgreSQL 14 and later. Running this again changes nothing.
--
-- What a service needs, beside USAGE on the schema (the second line only if functions are not executable by everyone):
--   GRANT SELECT, INSERT, UPDATE, DELETE ON llm_quota, llm_quota_place TO service;
--   GRANT EXECUTE ON FUNCTION llm_quota_now, llm_quota_sweep, llm_quota_acquire, llm_quota_acquire_one, llm_quota_release, llm_quota_peek, llm_quota_forget, llm_quota_list, llm_quota_inspect, llm_quota_clear TO service;
-- To remove everything:
--   DROP TABLE llm_quota, llm_quota_place;
--   DROP FUNCTION llm_quota_now, llm_quota_sweep, llm_quota_acquire, llm_quota_acquire_one, llm_quota_release, llm_quota_peek, llm_quota_forget, llm_quota_list, llm_quota_inspect, llm_quota_clear, llm_quota_version_2;
--
-- Locks are taken in one order: states by name, counters and then places in the order of the arrays, which the store sorts. Columns are always
-- qualified, because a table can have the name of any variable. Times are milliseconds; a time of null is that of the server's clock.
DO $schema$ BEGIN
PERFORM pg_advisory_xact_lock(hashtextextended('fastify-llm-quota', 0)); -- for migrations that run at the same time

-- The counters, and for each quota's counters a row of the caller 'overflow' and one of the caller 'state', whose lock is needed to insert or
-- delete a counter. Losing the table cannot separate them. HOT updates need free space in each page, and no index on a column that decisions change.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota (
  count bigint, window_start double precision, last_seen double precision, nonce bigint,
  window_end double precision, -- of a day or month of a time zone, in milliseconds since the epoch
  tracked bigint, -- the number of callers' own counters, including those that a sweep has yet to delete
  swept_at double precision, -- the latest sweep; for a counter, as of its latest decision or before
  sweeps bigint, window_length double precision,
  unswept text COLLATE "C", -- a sweep has yet to check the callers after this one; null if it is over
  latest double precision, clock_offset double precision, -- only where counters is '': the latest time, and by how much the clock has been set back
  counters text COLLATE "C" NOT NULL, caller text COLLATE "C" NOT NULL,
  PRIMARY KEY (counters, caller)
) WITH (fillfactor = 50);

-- The places of requests in flight that a process (the holder) holds for a caller. A row of 0 places keeps its sequence number for late statements.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota_place (
  held bigint NOT NULL, renewed_at double precision NOT NULL, sequence bigint NOT NULL,
  counters text COLLATE "C" NOT NULL, caller text COLLATE "C" NOT NULL, holder text COLLATE "C" NOT NULL,
  PRIMARY KEY (counters, caller, holder)
) WITH (fillfactor = 50);

-- Services with another version of this schema use tables of their own.
IF EXISTS (SELECT FROM pg_proc AS own, pg_class AS counters WHERE counters.oid = 'llm_quota'::regclass AND own.pronamespace = counters.relnamespace
    AND starts_with(own.proname, counters.relname || '_version_') AND own.proname <> counters.relname || '_version_2') THEN
  RAISE EXCEPTION 'the table % has the layout of another version: use another table', 'llm_quota'::regclass;
END IF;

-- Returns the time. It never runs backwards by more than 100 ms: if the clock has been set back, the difference is added to it from then on. The row
-- of the clock is the state of the counters ''. Nothing ever waits for it.
CREATE OR REPLACE FUNCTION llm_quota_now(given_time double precision) RETURNS double precision LANGUAGE plpgsql AS $function$
DECLARE
  clock_time double precision; known_time double precision; shift double precision;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'the request quota needs the isolation level read committed, not %', current_setting('transaction_isolation');
  END IF;
  -- The clock is read after the row, so that the time of another decision is never later.
  SELECT coalesce(given_time, date_part('epoch', clock_timestamp()) * 1000), own.latest, own.clock_offset INTO clock_time, known_time, shift
  FROM llm_quota AS own WHERE own.counters = '' AND own.caller = 'state';
  IF NOT FOUND THEN
    INSERT INTO llm_quota (counters, caller, latest, clock_offset) VALUES ('', 'state', '-Infinity', 0) ON CONFLICT DO NOTHING;
    RETURN llm_quota_now(given_time);
  END IF;
  IF clock_time + shift - known_time NOT BETWEEN 0 AND 100 THEN
    shift := greatest(shift, known_time - clock_time);
    UPDATE llm_quota AS own SET latest = greatest(own.latest, clock_time + shift), clock_offset = greatest(own.clock_offset, shift)
    WHERE own.caller = 'state' AND own.counters = (
      SELECT free.counters FROM llm_quota AS free WHERE free.counters = '' AND free.caller = 'state' FOR UPDATE SKIP LOCKED);
  END IF;
  RETURN clock_time + shift;
END
$function$;

-- Continues a sweep whose state is locked, for 2 ms, and leaves the rest to later decisions. A dead counter that is locked is being used again.
CREATE OR REPLACE FUNCTION llm_quota_sweep(name text) RETURNS void LANGUAGE plpgsql AS $function$
DECLARE
  state record; next_rest text; removed bigint; pause CONSTANT timestamptz := clock_timestamp() + interval '2 ms';
BEGIN
  SELECT own.* INTO state FROM llm_quota AS own WHERE own.counters = name AND own.caller = 'state';
  WHILE state.unswept IS NOT NULL AND clock_timestamp() < pause LOOP
    next_rest := (SELECT own.caller FROM llm_quota AS own WHERE own.counters = name AND own.caller > state.unswept ORDER BY own.caller OFFSET 199 LIMIT 1);
    DELETE FROM llm_quota AS own WHERE own.counters = name AND own.caller = ANY (ARRAY(
      SELECT dead.caller FROM llm_quota AS dead
      WHERE dead.counters = name AND dead.caller > state.unswept AND dead.caller <= coalesce(next_rest, chr(1114111))
        AND dead.caller <> 'overflow' AND state.swept_at - dead.last_seen >= state.window_length + 60000
      FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    state.tracked := state.tracked - removed; state.unswept := next_rest;
    UPDATE llm_quota AS own SET tracked = state.tracked, unswept = state.unswept WHERE own.counters = name AND own.caller = 'state';
  END LOOP;
END
$function$;

-- Decides on requests in turn. What they need is in slots: a counter, or, where the length of the window is null, the places of a caller, of which
-- this process holds as many as given. Each request has a number of demands, each on a slot. Returns for each request, followed by a semicolon, nothing
-- if it must be asked again, or for each demand, followed by a comma: count, time left or end of the window, 1 if there is room plus 2 if on the
-- overflow counter, and nonce. A new caller is asked again with the lock of the state; at the cap, while a sweep is unfinished, up to 8 times.
CREATE OR REPLACE FUNCTION llm_quota_acquire(
  given_time double precision, cap bigint, process text, call_number bigint,
  names text[], keys text[], lengths double precision[], helds bigint[],
  sizes integer[], asked integer[], numbers bigint[],
  slots integer[], limits bigint[], costs bigint[], finishes double precision[]
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
  most CONSTANT bigint := 9007199254740991;
  moment double precision := llm_quota_now(given_time); seen double precision; swept double precision;
  own_slots CONSTANT integer := cardinality(names); -- beside those of overflow counters
  states text[] := '{}'; tracks bigint[]; rests text[];
  totals bigint[]; starts double precision[]; ends double precision[]; marks bigint[]; tuples tid[]; is_used boolean[]; before bigint[]; is_late boolean[]; places record;
  demand integer := 0; slot integer; state integer; length double precision; has_room boolean[]; is_admitted boolean; is_decided boolean;
  reply text := '';
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true); -- a crash may lose the counts of the last moments
  swept := (SELECT min(own.swept_at) FROM llm_quota AS own WHERE own.counters = ANY (names) AND own.caller = 'state');
  IF 0 < ANY (asked) OR moment - swept >= 60000 THEN
    INSERT INTO llm_quota (counters, caller, tracked, swept_at, sweeps)
    SELECT DISTINCT given.name, 'state', 0, moment, 0 FROM unnest(names, lengths) AS given (name, length) WHERE given.length IS NOT NULL ORDER BY 1
    ON CONFLICT DO NOTHING;
    states := ARRAY(SELECT own.counters FROM llm_quota AS own WHERE own.counters = ANY (names) AND own.caller = 'state' ORDER BY own.counters FOR UPDATE);
    -- A sweep decides by its time which counters are dead. They are deleted step by step. The first request only starts the interval.
    UPDATE llm_quota AS own SET swept_at = moment, sweeps = own.sweeps + 1, unswept = ''
    WHERE own.counters = ANY (states) AND own.caller = 'state' AND moment - own.swept_at >= 60000;
    SELECT array_agg(own.tracked ORDER BY own.counters), array_agg(own.unswept ORDER BY own.counters), min(own.swept_at) INTO tracks, rests, swept
    FROM llm_quota AS own WHERE own.counters = ANY (states) AND own.caller = 'state';
    FOR state IN 1 .. cardinality(states) LOOP
      lengths := lengths || lengths[array_position(names, states[state])]; names := names || states[state]; keys := keys || 'overflow'::text;
    END LOOP;
  END IF;

  SELECT array_agg(own.count), array_agg(own.window_start), array_agg(own.window_end), array_agg(own.nonce), array_agg(own.tuple), max(own.last_seen)
  INTO totals, starts, ends, marks, tuples, seen
  FROM unnest(names, keys) AS given (name, key)
  LEFT JOIN LATERAL (SELECT own.ctid AS tuple, own.count, own.window_start, own.window_end, own.nonce, own.last_seen FROM llm_quota AS own WHERE own.counters = given.name AND own.caller = given.key FOR UPDATE) AS own ON true;
  moment := greatest(moment, seen);
  is_used := array_fill(false, ARRAY[cardinality(names)]);

  IF array_position(lengths, NULL) IS NOT NULL THEN
    -- Until the transaction ends, no other process takes places of these callers.
    PERFORM pg_advisory_xact_lock(locks.number) FROM (
      SELECT DISTINCT hashtextextended(given.key, hashtextextended(given.name, 0)) AS number FROM unnest(names, keys, lengths) AS given (name, key, length)
      WHERE given.length IS NULL ORDER BY 1) AS locks;
    INSERT INTO llm_quota_place AS own (counters, caller, holder, held, renewed_at, sequence)
    SELECT given.name, given.key, process, given.held, moment, call_number FROM unnest(names, keys, lengths, helds) AS given (name, key, length, held)
    WHERE given.length IS NULL
    ON CONFLICT (counters, caller, holder) DO UPDATE SET held = excluded.held, renewed_at = excluded.renewed_at, sequence = excluded.sequence
    WHERE own.sequence <= excluded.sequence;
    FOR slot IN 1 .. own_slots LOOP
      CONTINUE WHEN lengths[slot] IS NOT NULL;
      SELECT sum(own.held) FILTER (WHERE abs(moment - own.renewed_at) < 30000) AS total, bool_or(own.holder = process AND own.sequence > call_number) AS is_late
      INTO places FROM llm_quota_place AS own WHERE own.counters = names[slot] AND own.caller = keys[slot];
      totals[slot] := places.total; before[slot] := places.total; is_late[slot] := places.is_late;
    END LOOP;
  END IF;

  FOR request IN 1 .. cardinality(sizes) LOOP
    is_decided := true; is_admitted := true;
    FOR each IN demand + 1 .. demand + sizes[request] LOOP
      slot := slots[each]; length := lengths[slot];
      IF length IS NOT NULL THEN
        IF starts[slot] IS NULL THEN
          state := array_position(states, names[slot]);
          IF tracks[state] < cap THEN
            tracks[state] := tracks[state] + 1;
          ELSIF state IS NOT NULL AND (rests[state] IS NULL OR asked[request] >= 8) THEN
            slot := own_slots + state; slots[each] := slot;
          ELSE
            is_decided := false; EXIT;
          END IF;
        END IF;
        IF (CASE WHEN ends[slot] IS NULL OR finishes[each] IS NULL THEN moment - starts[slot] < length ELSE finishes[each] <= ends[slot] END) IS NOT TRUE THEN
          totals[slot] := 0; starts[slot] := moment; ends[slot] := finishes[each]; marks[slot] := numbers[request] + each - demand - 1;
        END IF;
        is_used[slot] := true;
      END IF;
      has_room[each] := (totals[slot] + greatest(costs[each], 1) <= limits[each] OR limits[each] = most) AND is_late[slot] IS NOT TRUE;
      is_admitted := is_admitted AND has_room[each];
    END LOOP;
    IF is_decided THEN
      FOR each IN demand + 1 .. demand + sizes[request] LOOP
        slot := slots[each];
        IF is_admitted THEN totals[slot] := least(most, totals[slot] + costs[each]); END IF;
        reply := reply || totals[slot] || ' ' || coalesce(ends[slot], starts[slot] + lengths[slot] - moment, 0) || ' '
          || has_room[each]::integer + 2 * (slot > own_slots)::integer || ' ' || coalesce(marks[slot], 0) || ',';
      END LOOP;
    END IF;
    demand := demand + sizes[request]; reply := reply || ';';
  END LOOP;

  UPDATE llm_quota AS own SET count = given.total, window_start = given.start, window_end = given.finish, last_seen = moment, swept_at = swept, nonce = given.mark
  FROM unnest(tuples, totals, starts, ends, marks, is_used) AS given (tuple, total, start, finish, mark, is_used) WHERE own.ctid = given.tuple AND given.is_used;
  INSERT INTO llm_quota (counters, caller, count, window_start, window_end, last_seen, swept_at, nonce)
  SELECT given.name, given.key, given.total, given.start, given.finish, moment, swept, given.mark
  FROM unnest(names, keys, tuples, totals, starts, ends, marks, is_used) AS given (name, key, tuple, total, start, finish, mark, is_used)
  WHERE given.tuple IS NULL AND given.is_used AND states <> '{}';
  FOR slot IN 1 .. own_slots LOOP
    CONTINUE WHEN (totals[slot] > before[slot]) IS NOT TRUE;
    UPDATE llm_quota_place AS own SET held = own.held + totals[slot] - before[slot]
    WHERE own.counters = names[slot] AND own.caller = keys[slot] AND own.holder = process;
  END LOOP;
  FOR state IN 1 .. cardinality(states) LOOP
    UPDATE llm_quota AS own SET tracked = tracks[state], window_length = lengths[own_slots + state]
    WHERE own.counters = states[state] AND own.caller = 'state';
    PERFORM llm_quota_sweep(states[state]);
  END LOOP;
  RETURN reply;
END
$function$;

-- Decides on a single demand as above. A known caller with room is decided on here, at half the cost.
CREATE OR REPLACE FUNCTION llm_quota_acquire_one(
  given_time double precision, cap bigint, name text, key text, length double precision, number bigint, allowed bigint, cost bigint, finish double precision
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off AS $function$
DECLARE
  moment double precision := coalesce(given_time, date_part('epoch', clock_timestamp()) * 1000); reply text;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  SELECT moment + own.clock_offset INTO moment FROM llm_quota AS own WHERE own.counters = '' AND own.caller = 'state'
    AND moment + own.clock_offset - own.latest BETWEEN 0 AND 100 AND current_setting('transaction_isolation') = 'read committed';
  IF FOUND THEN
    UPDATE llm_quota AS own SET count = own.count + cost, last_seen = greatest(own.last_seen, moment)
    WHERE own.counters = name AND own.caller = key AND own.count + greatest(cost, 1) <= allowed AND moment - own.swept_at < 60000
      AND CASE WHEN own.window_end IS NULL OR finish IS NULL THEN moment - own.window_start < length ELSE finish <= own.window_end END
    RETURNING own.count || ' ' || coalesce(own.window_end, own.window_start + length - own.last_seen) || ' 1 ' || own.nonce INTO reply;
    IF FOUND THEN RETURN reply; END IF;
  END IF;
  RETURN llm_quota_acquire(given_time, cap, '', 0, ARRAY[name], ARRAY[key], ARRAY[length], ARRAY[0], ARRAY[1], ARRAY[0], ARRAY[number],
    ARRAY[1], ARRAY[allowed], ARRAY[cost], ARRAY[finish]);
END
$function$;

-- Gives back amounts in windows, in the order of the arrays, and writes how many places this process holds. Places are lost 30 s after they were
-- written. Their rows are deleted by one process at a time, from some pages of the table each 100 ms.
CREATE OR REPLACE FUNCTION llm_quota_release(
  given_time double precision, process text, call_number bigint,
  names text[], keys text[], marks bigint[], amounts bigint[], place_names text[], place_keys text[], helds bigint[]
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $function$
DECLARE
  moment CONSTANT double precision := llm_quota_now(given_time); step CONSTANT bigint := 32; page bigint;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  FOR slot IN 1 .. cardinality(names) LOOP
    UPDATE llm_quota AS own SET count = greatest(0, own.count - amounts[slot])
    WHERE own.counters = names[slot] AND own.caller = keys[slot] AND own.nonce = marks[slot];
  END LOOP;
  IF cardinality(place_names) > 0 THEN
    INSERT INTO llm_quota_place AS own (counters, caller, holder, held, renewed_at, sequence)
    SELECT given.name, given.key, process, given.held, moment, call_number FROM unnest(place_names, place_keys, helds) AS given (name, key, held)
    ON CONFLICT (counters, caller, holder) DO UPDATE SET held = excluded.held, renewed_at = excluded.renewed_at, sequence = excluded.sequence
    WHERE own.sequence <= excluded.sequence;
    -- After the last statement that can wait.
    UPDATE llm_quota AS own SET swept_at = moment, sweeps = coalesce(own.sweeps, 0) + 1 WHERE own.caller = 'state' AND own.counters = (
      SELECT free.counters FROM llm_quota AS free
      WHERE free.counters = '' AND free.caller = 'state' AND coalesce(moment - free.swept_at >= 100, true) FOR UPDATE SKIP LOCKED)
    RETURNING own.sweeps % (1 + pg_relation_size('llm_quota_place'::regclass) / current_setting('block_size')::bigint / step) * step INTO page;
    IF FOUND THEN
      DELETE FROM llm_quota_place AS own WHERE own.ctid = ANY (ARRAY(
        SELECT dead.ctid FROM llm_quota_place AS dead WHERE dead.ctid >= ('(' || page || ',0)')::tid AND dead.ctid < ('(' || page + step || ',0)')::tid
          AND abs(moment - dead.renewed_at) >= 30000 FOR UPDATE SKIP LOCKED));
    END IF;
  END IF;
  RETURN '';
END
$function$;

-- Returns the counter that a demand would use now, as above; nothing for a new window.
CREATE OR REPLACE FUNCTION llm_quota_peek(
  given_time double precision, cap bigint, name text, key text, length double precision, finish double precision
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
DECLARE
  moment double precision := llm_quota_now(given_time); state record; found_counter record;
BEGIN
  IF length IS NULL THEN
    RETURN (SELECT coalesce(sum(own.held), 0) || ' 0 0 0' FROM llm_quota_place AS own
      WHERE own.counters = name AND own.caller = key AND abs(moment - own.renewed_at) < 30000);
  END IF;
  SELECT own.* INTO found_counter FROM llm_quota AS own WHERE own.counters = name AND own.caller = key;
  IF NOT FOUND THEN
    SELECT own.* INTO state FROM llm_quota AS own WHERE own.counters = name AND own.caller = 'state';
    IF moment - state.swept_at >= 60000 THEN state.swept_at := moment; state.unswept := ''; END IF;
    IF state.tracked >= cap AND NOT EXISTS (SELECT FROM llm_quota AS dead WHERE dead.counters = name AND dead.caller > state.unswept
      AND dead.caller <> 'overflow' AND state.swept_at - dead.last_seen >= length + 60000) THEN
      SELECT own.* INTO found_counter FROM llm_quota AS own WHERE own.counters = name AND own.caller = 'overflow';
    END IF;
  END IF;
  moment := greatest(moment, found_counter.last_seen);
  RETURN CASE WHEN CASE WHEN found_counter.window_end IS NULL OR finish IS NULL THEN moment - found_counter.window_start < length ELSE finish <= found_counter.window_end END
    THEN found_counter.count || ' ' || coalesce(found_counter.window_end, found_counter.window_start + length - moment)
      || ' ' || 2 * (found_counter.caller = 'overflow')::integer || ' ' || found_counter.nonce ELSE '' END;
END
$function$;

CREATE OR REPLACE FUNCTION llm_quota_forget(name text, key text) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
BEGIN
  PERFORM FROM llm_quota AS own WHERE own.counters = name AND own.caller = 'state' FOR UPDATE;
  DELETE FROM llm_quota AS own WHERE own.counters = name AND own.caller = key AND key NOT IN ('state', 'overflow');
  IF FOUND THEN
    UPDATE llm_quota AS own SET tracked = own.tracked - 1 WHERE own.counters = name AND own.caller = 'state';
  END IF;
  RETURN '';
END
$function$;

-- Returns a page of callers after a cursor as JSON: the caller, count and time left, or null, of each, and the next cursor or null.
CREATE OR REPLACE FUNCTION llm_quota_list(given_time double precision, given_date double precision, name text, cursor text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
DECLARE
  moment CONSTANT double precision := llm_quota_now(given_time);
BEGIN
  RETURN (WITH page AS MATERIALIZED (
    (SELECT own.caller, own.count, own.window_end, own.window_start + state.window_length - moment AS rest
    FROM llm_quota AS own, llm_quota AS state WHERE state.counters = name AND state.caller = 'state'
      AND own.counters = name AND own.caller > cursor ORDER BY own.caller LIMIT 1000)
    UNION ALL
    (SELECT own.caller, coalesce(sum(own.held) FILTER (WHERE abs(moment - own.renewed_at) < 30000), 0), NULL, NULL FROM llm_quota_place AS own
    WHERE own.counters = name AND own.caller > cursor GROUP BY own.caller ORDER BY own.caller LIMIT 1000))
  SELECT json_build_object(
    'callers', coalesce(json_agg(json_build_array(page.caller, page.count, CASE WHEN page.window_end IS NULL THEN page.rest END) ORDER BY page.caller)
      FILTER (WHERE page.caller NOT IN ('state', 'overflow')
        AND CASE WHEN page.window_end IS NOT NULL THEN page.window_end > given_date WHEN page.rest IS NOT NULL THEN page.rest > 0 ELSE page.count > 0 END), '[]'),
    'cursor', CASE WHEN count(*) >= 1000 THEN max(page.caller) END) FROM page);
END
$function$;

-- Returns the number of tracked callers, without those that a sweep has yet to delete, and the number of sweeps.
CREATE OR REPLACE FUNCTION llm_quota_inspect(name text) RETURNS text LANGUAGE plpgsql STABLE SET lock_timeout = '1s' AS $function$
DECLARE
  state record;
BEGIN
  SELECT own.* INTO state FROM llm_quota AS own WHERE own.counters = name AND own.caller = 'state';
  RETURN CASE WHEN state IS NULL THEN (SELECT count(DISTINCT own.caller) FROM llm_quota_place AS own WHERE own.counters = name AND own.held > 0) || ' 0'
    ELSE state.tracked - (SELECT count(*) FROM llm_quota AS dead WHERE dead.counters = name AND dead.caller > state.unswept
      AND dead.caller <> 'overflow' AND state.swept_at - dead.last_seen >= state.window_length + 60000) || ' ' || state.sweeps END;
END
$function$;

-- The locks let only readers pass, so that no other call waits for a row of this one while this one waits for a row of the other.
CREATE OR REPLACE FUNCTION llm_quota_clear() RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
BEGIN
  LOCK TABLE llm_quota, llm_quota_place IN EXCLUSIVE MODE;
  DELETE FROM llm_quota;
  DELETE FROM llm_quota_place;
  RETURN '';
END
$function$;

-- The store looks for this function before its first decision.
CREATE OR REPLACE FUNCTION llm_quota_version_2() RETURNS bigint LANGUAGE sql AS $function$
  SELECT count(own.counters || own.unswept || own.clock_offset || place.sequence) FROM llm_quota AS own, llm_quota_place AS place
$function$;
END $schema$;
