-- The tables and functions of PostgresQuotaStore, schema version 1, for PostgreSQL 14 and later. Running this again changes nothing.
-- All times are milliseconds: of the server's clock, or of the clock that the store was given. All parameters are text, so that any client
-- can send them without knowing their types.

-- The counters. The caller is a digest. HOT updates need free space in each page, and no index on a column that decisions change.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota (
  count bigint NOT NULL,
  window_start double precision NOT NULL,
  last_seen double precision NOT NULL,
  admitted boolean NOT NULL, -- whether the last decision admitted
  quota text COLLATE "C" NOT NULL,
  caller text COLLATE "C" NOT NULL,
  PRIMARY KEY (caller, quota)
) WITH (fillfactor = 50);

-- One row for each quota. Whoever inserts or deletes a counter holds the lock of this row, and takes it before the lock of any counter.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota_state (
  quota text COLLATE "C" PRIMARY KEY,
  tracked bigint NOT NULL DEFAULT 0, -- the number of counters, dead ones included
  swept_at double precision,
  sweeps bigint NOT NULL DEFAULT 0,
  next_page bigint NOT NULL DEFAULT 0, -- where the sweep goes on to delete dead counters
  pages_left bigint NOT NULL DEFAULT 0, -- 0: none is dead
  overflow_count bigint NOT NULL DEFAULT 0,
  overflow_start double precision NOT NULL DEFAULT '-Infinity',
  clock_offset double precision NOT NULL DEFAULT 0 -- how far the clock has been set back
) WITH (fillfactor = 10);

-- The places of requests in flight that a process holds for a caller.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota_place (
  quota text COLLATE "C" NOT NULL,
  caller text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL,
  held bigint NOT NULL,
  renewed_at double precision NOT NULL,
  PRIMARY KEY (caller, quota, holder)
) WITH (fillfactor = 50);


-- Decides on requests of different callers or of the same one. The callers must be in order, so that two calls never wait for each other.
-- Returns for each, separated by commas: the count, the time left in the window, and 1 if admitted plus 2 if the overflow counter was used;
-- nothing if it must be asked again.
CREATE OR REPLACE FUNCTION llm_quota_acquire(
  quota_name text, given_window text, given_cap text, given_time text, given_callers text, given_limits text, given_costs text
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off AS $function$
DECLARE
  greatest_count CONSTANT bigint := 9007199254740991;
  pages_a_step CONSTANT bigint := 64;
  window_length CONSTANT double precision := given_window;
  cap CONSTANT bigint := given_cap;
  callers CONSTANT text[] := given_callers;
  limits CONSTANT bigint[] := given_limits;
  costs CONSTANT bigint[] := given_costs;
  state llm_quota_state%ROWTYPE;
  clock double precision := coalesce(given_time::double precision, date_part('epoch', clock_timestamp()) * 1000);
  time double precision;
  latest double precision := '-Infinity';
  needs_lock boolean;
  has_lock boolean := false;
  has_counted boolean := false;
  place integer := 1;
  last_place CONSTANT integer := cardinality(callers);
  asked_limit bigint;
  cost bigint;
  reply text := '';
  new_count bigint;
  was_admitted boolean;
  time_left double precision;
  seen double precision;
  first_tid tid;
  end_tid tid;
  deleted bigint;
BEGIN
  -- Until this transaction ends. A crash of the server loses at most the counts of its last moments.
  PERFORM set_config('synchronous_commit', 'off', true);
  SELECT * INTO state FROM llm_quota_state WHERE quota = quota_name;
  time := clock + coalesce(state.clock_offset, 0);
  needs_lock := state.swept_at IS NULL OR time - state.swept_at >= 60000;

  WHILE place <= last_place LOOP
    IF needs_lock AND NOT has_lock THEN
      SELECT * INTO state FROM llm_quota_state WHERE quota = quota_name FOR UPDATE;
      IF NOT FOUND THEN
        INSERT INTO llm_quota_state (quota) VALUES (quota_name) ON CONFLICT DO NOTHING;
        SELECT * INTO state FROM llm_quota_state WHERE quota = quota_name FOR UPDATE;
      END IF;
      has_lock := true;
      clock := coalesce(given_time::double precision, date_part('epoch', clock_timestamp()) * 1000);
      time := clock + state.clock_offset;

      -- The first request only starts the interval. A sweep marks the dead counters by its time; they are deleted step by step.
      IF state.swept_at IS NULL THEN
        state.swept_at := time;
      ELSIF time - state.swept_at >= 60000 THEN
        state.swept_at := time;
        state.sweeps := state.sweeps + 1;
        state.pages_left := pages_a_step + pg_relation_size('llm_quota'::regclass) / current_setting('block_size')::bigint;
      END IF;
      latest := state.swept_at;
      IF state.pages_left > 0 THEN
        first_tid := '(' || state.next_page || ',0)';
        end_tid := '(' || state.next_page + pages_a_step || ',0)';
        -- A counter that another decision has locked is about to be used again, which has the result of a new one.
        DELETE FROM llm_quota WHERE ctid = ANY (ARRAY(
          SELECT ctid FROM llm_quota
          WHERE ctid >= first_tid AND ctid < end_tid AND quota = quota_name AND state.swept_at - last_seen >= window_length + 60000
          FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS deleted = ROW_COUNT;
        state.tracked := state.tracked - deleted;
        state.pages_left := greatest(state.pages_left - pages_a_step, 0);
        state.next_page := state.next_page + pages_a_step;
        IF state.next_page >= pg_relation_size('llm_quota'::regclass) / current_setting('block_size')::bigint THEN
          state.next_page := 0;
        END IF;
      END IF;
    END IF;

    asked_limit := limits[place];
    cost := costs[place];
    -- After a wait for the lock, the expressions are evaluated again with the counter's new values, so time never runs backwards for it.
    UPDATE llm_quota SET
      count = CASE
        WHEN greatest(time, last_seen) - window_start >= window_length THEN least(cost, greatest_count)
        WHEN count < asked_limit THEN least(count + cost, greatest_count)
        ELSE count
      END,
      admitted = count < asked_limit OR greatest(time, last_seen) - window_start >= window_length,
      window_start = CASE WHEN greatest(time, last_seen) - window_start >= window_length THEN greatest(time, last_seen) ELSE window_start END,
      last_seen = greatest(time, last_seen)
    WHERE caller = callers[place] AND quota = quota_name
    RETURNING count, admitted, window_length - (last_seen - window_start), last_seen INTO new_count, was_admitted, time_left, seen;

    IF FOUND THEN
      has_counted := true;
      latest := greatest(latest, seen);
      reply := reply || new_count || ' ' || time_left || CASE WHEN was_admitted THEN ' 1,' ELSE ' 0,' END;
    ELSIF NOT has_lock THEN
      -- The lock of the quota comes before the locks of counters, so a call that holds one must not wait for it.
      IF NOT has_counted THEN
        needs_lock := true;
        CONTINUE;
      END IF;
      reply := reply || ',';
    ELSIF state.tracked < cap THEN
      INSERT INTO llm_quota (count, window_start, last_seen, admitted, quota, caller)
      VALUES (least(cost, greatest_count), time, time, true, quota_name, callers[place]);
      state.tracked := state.tracked + 1;
      reply := reply || least(cost, greatest_count) || ' ' || window_length || ' 1,';
    ELSIF state.pages_left > 0 THEN
      reply := reply || ',';
    ELSE
      seen := greatest(time, state.overflow_start);
      latest := greatest(latest, seen);
      IF seen - state.overflow_start >= window_length THEN
        state.overflow_start := seen;
        state.overflow_count := 0;
      END IF;
      was_admitted := state.overflow_count < asked_limit;
      IF was_admitted THEN
        state.overflow_count := least(state.overflow_count + cost, greatest_count);
      END IF;
      reply := reply || state.overflow_count || ' ' || window_length - (seen - state.overflow_start) || CASE WHEN was_admitted THEN ' 3,' ELSE ' 2,' END;
    END IF;
    place := place + 1;
  END LOOP;

  IF has_lock THEN
    UPDATE llm_quota_state SET
      tracked = state.tracked, swept_at = state.swept_at, sweeps = state.sweeps, next_page = state.next_page, pages_left = state.pages_left,
      overflow_count = state.overflow_count, overflow_start = state.overflow_start
    WHERE quota = quota_name;
  END IF;
  -- The clock has been set back: from now on the difference is added, so that windows do not become longer. This never waits.
  clock := coalesce(given_time::double precision, date_part('epoch', clock_timestamp()) * 1000);
  IF latest - clock - state.clock_offset > 100 THEN
    UPDATE llm_quota_state SET clock_offset = greatest(clock_offset, latest - clock)
    WHERE quota = (SELECT quota FROM llm_quota_state WHERE quota = quota_name FOR UPDATE SKIP LOCKED);
  END IF;
  RETURN reply;
END
$function$;

-- Returns the counter that the caller's next request would use, as above; nothing if it would open a new window.
CREATE OR REPLACE FUNCTION llm_quota_peek(
  quota_name text, given_window text, given_cap text, given_time text, caller_key text
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
DECLARE
  window_length CONSTANT double precision := given_window;
  cap CONSTANT bigint := given_cap;
  state llm_quota_state%ROWTYPE;
  time double precision := coalesce(given_time::double precision, date_part('epoch', clock_timestamp()) * 1000);
  found_count bigint;
  found_start double precision;
  found_seen double precision;
  is_due boolean;
  overflow text := '0';
BEGIN
  SELECT * INTO state FROM llm_quota_state WHERE quota = quota_name;
  IF NOT FOUND THEN
    RETURN '';
  END IF;
  time := time + state.clock_offset;
  SELECT count, window_start, last_seen INTO found_count, found_start, found_seen
  FROM llm_quota WHERE caller = caller_key AND quota = quota_name;
  IF NOT FOUND THEN
    is_due := time - state.swept_at >= 60000;
    IF state.tracked < cap OR (is_due OR state.pages_left > 0) AND EXISTS (
      SELECT FROM llm_quota
      WHERE quota = quota_name AND CASE WHEN is_due THEN time ELSE state.swept_at END - last_seen >= window_length + 60000
    ) THEN
      RETURN '';
    END IF;
    found_count := state.overflow_count;
    found_start := state.overflow_start;
    found_seen := state.overflow_start;
    overflow := '2';
  END IF;
  time := greatest(time, found_seen);
  IF time - found_start >= window_length THEN
    RETURN '';
  END IF;
  RETURN found_count || ' ' || window_length - (time - found_start) || ' ' || overflow;
END
$function$;

CREATE OR REPLACE FUNCTION llm_quota_forget(quota_name text, caller_key text) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
DECLARE
  deleted bigint;
BEGIN
  PERFORM FROM llm_quota_state WHERE quota = quota_name FOR UPDATE;
  DELETE FROM llm_quota WHERE caller = caller_key AND quota = quota_name;
  GET DIAGNOSTICS deleted = ROW_COUNT;
  UPDATE llm_quota_state SET tracked = tracked - deleted WHERE quota = quota_name;
  RETURN '';
END
$function$;

-- Removes the counters of a named quota, or those of all quotas if it is the default one.
CREATE OR REPLACE FUNCTION llm_quota_clear(quota_name text) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
BEGIN
  LOCK TABLE llm_quota_state, llm_quota IN SHARE ROW EXCLUSIVE MODE;
  DELETE FROM llm_quota_state WHERE quota_name IN (quota, 'default');
  DELETE FROM llm_quota WHERE quota_name IN (quota, 'default');
  RETURN '';
END
$function$;

-- Returns the number of tracked callers and the number of sweeps.
CREATE OR REPLACE FUNCTION llm_quota_inspect(quota_name text, given_window text) RETURNS text LANGUAGE sql STABLE AS $function$
  SELECT CASE
    WHEN pages_left = 0 THEN tracked
    ELSE (SELECT count(*) FROM llm_quota AS own WHERE own.quota = quota_name AND swept_at - last_seen < given_window::double precision + 60000)
  END || ' ' || sweeps
  FROM llm_quota_state WHERE quota = quota_name
$function$;

-- Writes how many places a process holds for each of several callers, in order, after it has taken one for each limit that is not null
-- and above the caller's places. A process that has not renewed its places for 30 s has lost them. Returns for each: the caller's places,
-- and 1 if one was taken.
CREATE OR REPLACE FUNCTION llm_quota_enter(
  holder_name text, given_time text, given_quotas text, given_callers text, given_limits text, given_helds text
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off AS $function$
DECLARE
  quotas CONSTANT text[] := given_quotas;
  callers CONSTANT text[] := given_callers;
  limits CONSTANT bigint[] := given_limits;
  helds CONSTANT bigint[] := given_helds;
  time double precision;
  held_now bigint;
  others bigint;
  was_admitted boolean;
  reply text := '';
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  FOR place IN 1 .. cardinality(callers) LOOP
    IF place = 1 OR quotas[place] <> quotas[place - 1] OR callers[place] <> callers[place - 1] THEN
      held_now := helds[place];
    END IF;
    was_admitted := false;
    others := 0;
    IF limits[place] IS NOT NULL THEN
      -- Processes take places for a caller one after another. The lock ends with the transaction.
      PERFORM pg_advisory_xact_lock(hashtextextended(callers[place], hashtextextended(quotas[place], 0)));
      time := coalesce(given_time::double precision, date_part('epoch', clock_timestamp()) * 1000);
      SELECT coalesce(sum(held), 0) INTO others FROM llm_quota_place
      WHERE caller = callers[place] AND quota = quotas[place] AND holder <> holder_name AND abs(time - renewed_at) < 30000;
      was_admitted := others + held_now < limits[place];
      IF was_admitted THEN
        held_now := held_now + 1;
      END IF;
    END IF;
    IF held_now > 0 THEN
      INSERT INTO llm_quota_place (quota, caller, holder, held, renewed_at)
      VALUES (quotas[place], callers[place], holder_name, held_now, coalesce(given_time::double precision, date_part('epoch', clock_timestamp()) * 1000))
      ON CONFLICT (caller, quota, holder) DO UPDATE SET held = excluded.held, renewed_at = excluded.renewed_at;
    ELSE
      DELETE FROM llm_quota_place WHERE caller = callers[place] AND quota = quotas[place] AND holder = holder_name;
    END IF;
    reply := reply || others + held_now || CASE WHEN was_admitted THEN ' 1,' ELSE ' 0,' END;
  END LOOP;
  RETURN reply;
END
$function$;

-- Deletes the places that processes have lost.
CREATE OR REPLACE FUNCTION llm_quota_free(given_time text) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
DECLARE
  time double precision := coalesce(given_time::double precision, date_part('epoch', clock_timestamp()) * 1000);
BEGIN
  DELETE FROM llm_quota_place WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM llm_quota_place WHERE abs(time - renewed_at) >= 30000 FOR UPDATE SKIP LOCKED));
  RETURN '';
END
$function$;

-- The store looks for this function before its first decision.
CREATE OR REPLACE FUNCTION llm_quota_version_1() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 1';
