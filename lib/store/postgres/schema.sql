-- The tables and functions of PostgresQuotaStore, schema version 7, for PostgreSQL 14 and later.
-- Running this again changes nothing. docs/postgres.md lists the privileges that a service needs,
-- and how to remove everything.
--
-- Calls that change something run one after the other: each begins by taking one lock, which it
-- keeps until its transaction ends. So no other call changes anything between its statements.
--
-- Times are whole milliseconds, of the server's clock or of the store's; days, weeks and months of
-- a time zone end at milliseconds since the epoch. Names of counters and callers are stored as
-- ASCII, escaped as in JSON. Columns are always qualified, because a table can have the name of any
-- variable. Rows are found one by one, by their keys: the server plans a statement once, perhaps
-- for an empty table, and the plan must also suit a million rows.
DO $schema$ BEGIN
PERFORM pg_advisory_xact_lock(hashtextextended('fastify-llm-quota', 0)); -- other migrations
IF to_regclass('llm_quota') IS NOT NULL AND to_regproc('llm_quota_version_7') IS NULL THEN
  RAISE EXCEPTION 'the table % is not of version 7 of the schema', to_regclass('llm_quota')
    USING HINT = 'Drop it with its functions and other tables, as the documentation of their '
      'version describes, or choose another table.';
END IF;

IF to_regclass('llm_quota') IS NULL THEN
  -- The quotas with windows.
  CREATE UNLOGGED TABLE llm_quota (
    counters text COLLATE "C" PRIMARY KEY,
    tracked bigint NOT NULL,            -- callers with a counter of their own
    sweeps bigint NOT NULL,
    swept_at bigint NOT NULL,           -- when the latest sweep began
    unswept text COLLATE "C"            -- it has yet to look at the callers from this one on
  ) WITH (fillfactor = 50);

  -- The counters of these quotas. An update leaves the indexes as they are if the page has free
  -- space and no column that changes is in an index.
  CREATE UNLOGGED TABLE llm_quota_counters (
    counters text COLLATE "C" NOT NULL,
    caller text COLLATE "C" NOT NULL,   -- all others are '"overflow"', which is no escaped name
    count bigint NOT NULL,
    held bigint NOT NULL,               -- of what was admitted in the period
    held_before bigint NOT NULL,        -- of what was admitted in the period before
    period bigint NOT NULL,             -- of ten minutes
    ends bigint NOT NULL,
    is_zoned boolean NOT NULL,          -- whether it ends with a day, week or month of a time zone
    window_id bigint NOT NULL,          -- used once
    dead_from bigint NOT NULL,          -- a sweep deletes it from then on
    PRIMARY KEY (counters, caller)
  ) WITH (fillfactor = 50);

  -- The places of concurrent requests. One that has ended counts no longer.
  CREATE UNLOGGED TABLE llm_quota_places (
    counters text COLLATE "C" NOT NULL,
    caller text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    ends bigint NOT NULL,
    PRIMARY KEY (counters, caller, name)
  );
  CREATE INDEX ON llm_quota_places (ends);

  -- The latest time that is known, and by how much the clock has been set back since the beginning.
  -- These are sequences because a sequence has no old versions, which the server would keep, and
  -- read again and again, as long as another transaction with an old snapshot is open.
  CREATE SEQUENCE llm_quota_latest MINVALUE 0;
  CREATE SEQUENCE llm_quota_set_back MINVALUE 0;

  -- What a request asks of a quota: `Demand` of lib/store/store.ts.
  CREATE TYPE llm_quota_demand AS (
    counters text,
    caller text,
    quota_limit bigint,
    least bigint,
    most bigint,
    is_estimate boolean,
    window_length bigint,               -- null for a place
    window_start bigint,
    window_end bigint,
    place text,                         -- the name of the place
    is_last boolean                     -- of its request
  );

  -- What changes in a window: `Settlement` of lib/store/shared/driver.ts.
  CREATE TYPE llm_quota_settlement AS (
    counters text,
    caller text,
    window_id bigint,
    less_count bigint,
    less_held json                      -- by period
  );

  -- The counters with where their rows are, so that a write finds them without a look at an index.
  -- A caller's places have the same row type, with the columns `count`, `held`, `held_before` and
  -- `period`, and null in all others.
  CREATE VIEW llm_quota_counter AS
  SELECT stored.ctid AS row_id, stored.* FROM llm_quota_counters AS stored;
END IF;

-- The rules of a counter (docs/rules.md), each of them once.

CREATE OR REPLACE FUNCTION llm_quota_has_room(count bigint, at_least bigint, quota_limit bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE AS
'SELECT count + greatest(at_least, 1) <= quota_limit OR quota_limit = 9007199254740991';

-- Whether a window is open. If it follows the days, weeks or months of a time zone, it is over once
-- the present one has started, and otherwise at its end.
CREATE OR REPLACE FUNCTION llm_quota_is_open(ends bigint, moment bigint, present_start bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE AS
'SELECT coalesce(ends > coalesce(present_start, moment), false)';

CREATE OR REPLACE FUNCTION llm_quota_period(moment bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS
'SELECT moment / 600000';

-- What was admitted in this period of ten minutes, or in the one before, and not settled since.
CREATE OR REPLACE FUNCTION llm_quota_held(counter llm_quota_counter, moment bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $function$
  SELECT least(counter.count, CASE llm_quota_period(moment) - counter.period
    WHEN 0 THEN counter.held + counter.held_before
    WHEN 1 THEN counter.held
    ELSE 0
  END)
$function$;

-- Returns what a settlement takes from what was admitted in a period.
CREATE OR REPLACE FUNCTION llm_quota_less(less_held json, period bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS
'SELECT coalesce((less_held ->> period::text)::bigint, 0)';

-- Returns the state of a counter, or of a caller's places, as fields of JSON: those of `Decided` of
-- lib/store/shared/driver.ts, where `rest` is the time until the window ends, and `end` when it
-- ends; null for places. format() takes half as long as json_build_object().
CREATE OR REPLACE FUNCTION llm_quota_state(counter llm_quota_counter, moment bigint) RETURNS text
LANGUAGE sql STABLE AS $function$
  SELECT format(
    '"count":%s,"held":%s,"rest":%s,"end":%s,"overflow":%s,"windowId":%s',
    counter.count, llm_quota_held(counter, moment), coalesce((counter.ends - moment)::text, 'null'),
    coalesce(counter.ends::text, 'null'), coalesce(counter.caller = '"overflow"', false)::text,
    coalesce(counter.window_id, 0)
  )
$function$;

-- Waits for earlier calls, and makes later ones wait until the transaction ends, whose commit does
-- not wait for the disk.
CREATE OR REPLACE FUNCTION llm_quota_lock() RETURNS void LANGUAGE plpgsql AS $function$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'the request quota needs the isolation level read committed, not %',
      current_setting('transaction_isolation');
  END IF;
  PERFORM set_config('synchronous_commit', 'off', true);
  PERFORM pg_advisory_xact_lock(hashtext('fastify-llm-quota'), 'llm_quota'::regclass::oid::int);
END $function$;

-- Returns the time, which is never earlier than the latest time: if the clock has been set back,
-- the difference is added from then on. llm_quota_begin keeps what has changed, `latest` or
-- `set_back`.
CREATE OR REPLACE FUNCTION llm_quota_now(
  given_time bigint, OUT moment bigint, OUT latest bigint, OUT set_back bigint
) LANGUAGE plpgsql AS $function$
BEGIN
  SELECT known.last_value, shift.last_value INTO latest, set_back
  FROM llm_quota_latest AS known, llm_quota_set_back AS shift;
  moment := set_back
    + coalesce(given_time, floor(date_part('epoch', clock_timestamp()) * 1000)::bigint);
  IF moment < latest THEN
    set_back := set_back + latest - moment;
    moment := latest;
  END IF;
END $function$;

-- Begins a call that decides: takes the lock, and returns the time. The first call in each second
-- deletes places that have ended, at most 1,000.
CREATE OR REPLACE FUNCTION llm_quota_begin(given_time bigint) RETURNS bigint
LANGUAGE plpgsql AS $function$
DECLARE
  clock record;
BEGIN
  PERFORM llm_quota_lock();
  clock := llm_quota_now(given_time);
  IF clock.moment > clock.latest THEN
    PERFORM setval('llm_quota_latest', clock.moment);
  ELSE
    PERFORM setval('llm_quota_set_back', clock.set_back);
  END IF;
  IF clock.moment / 1000 > clock.latest / 1000 THEN
    DELETE FROM llm_quota_places AS place WHERE place.ctid = ANY (ARRAY(
      SELECT ended.ctid FROM llm_quota_places AS ended WHERE ended.ends <= clock.moment
      ORDER BY ended.ends LIMIT 1000
    ));
  END IF;
  RETURN clock.moment;
END $function$;

-- Returns which of the next 1,000 counters, from this caller on, a sweep at this time deletes; none
-- if there is no sweep.
CREATE OR REPLACE FUNCTION llm_quota_dead(quota text, first_caller text, swept_at bigint)
RETURNS SETOF tid LANGUAGE sql STABLE AS $function$
  SELECT page.place
  FROM (
    SELECT stored.ctid AS place, stored.caller, stored.dead_from
    FROM llm_quota_counters AS stored
    WHERE stored.counters = quota AND stored.caller >= first_caller
    ORDER BY stored.caller LIMIT 1000
  ) AS page
  WHERE page.dead_from <= swept_at AND page.caller <> '"overflow"'
$function$;

-- Sweeps a quota if a sweep is due or under way: looks at the next 1,000 counters. A sweep that is
-- due while another one is under way begins after it.
CREATE OR REPLACE FUNCTION llm_quota_sweep(moment bigint, quota text) RETURNS void
LANGUAGE plpgsql AS $function$
DECLARE
  sweep record;
  next_unswept text;
  deleted bigint;
BEGIN
  SELECT stored.* INTO sweep FROM llm_quota AS stored WHERE stored.counters = quota;
  IF NOT FOUND THEN
    INSERT INTO llm_quota VALUES (quota, 0, 0, moment, NULL);
    RETURN;
  END IF;
  IF sweep.unswept IS NULL THEN
    IF moment - sweep.swept_at < 60000 THEN
      RETURN;
    END IF;
    sweep.swept_at := moment;
    sweep.sweeps := sweep.sweeps + 1;
    sweep.unswept := '';
  END IF;

  next_unswept := (
    SELECT stored.caller FROM llm_quota_counters AS stored
    WHERE stored.counters = quota AND stored.caller >= sweep.unswept
    ORDER BY stored.caller OFFSET 1000 LIMIT 1
  );
  DELETE FROM llm_quota_counters AS stored WHERE stored.ctid = ANY (ARRAY(
    SELECT llm_quota_dead(quota, sweep.unswept, sweep.swept_at)
  ));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  UPDATE llm_quota AS stored
  SET tracked = stored.tracked - deleted, sweeps = sweep.sweeps, swept_at = sweep.swept_at,
    unswept = next_unswept
  WHERE stored.counters = quota;
END $function$;

-- Returns the places of a caller as a counter.
CREATE OR REPLACE FUNCTION llm_quota_places_of(moment bigint, demand llm_quota_demand)
RETURNS llm_quota_counter LANGUAGE plpgsql AS $function$
DECLARE
  counter llm_quota_counter;
BEGIN
  SELECT count(*) INTO counter.count FROM llm_quota_places AS place
  WHERE place.counters = demand.counters AND place.caller = demand.caller AND place.ends > moment;
  counter.held := counter.count;
  counter.held_before := 0;
  counter.period := llm_quota_period(moment);
  RETURN counter;
END $function$;

-- Returns the counter that a demand reaches: the caller's own, or at the caller cap the overflow
-- counter, with a new window if the last one is over. For a place, only what is counted.
CREATE OR REPLACE FUNCTION llm_quota_reach(moment bigint, cap bigint, demand llm_quota_demand)
RETURNS llm_quota_counter LANGUAGE plpgsql AS $function$
DECLARE
  this_period CONSTANT bigint := llm_quota_period(moment);
  owner text := demand.caller;
  counter llm_quota_counter;
BEGIN
  IF demand.window_length IS NULL THEN
    RETURN llm_quota_places_of(moment, demand);
  END IF;

  SELECT stored.* INTO counter FROM llm_quota_counter AS stored
  WHERE stored.counters = demand.counters AND stored.caller = owner;
  IF NOT FOUND THEN
    UPDATE llm_quota AS quota SET tracked = quota.tracked + 1
    WHERE quota.counters = demand.counters AND quota.tracked < cap;
    IF NOT FOUND THEN
      owner := '"overflow"';
      SELECT stored.* INTO counter FROM llm_quota_counter AS stored
      WHERE stored.counters = demand.counters AND stored.caller = owner;
    END IF;
  END IF;

  IF NOT llm_quota_is_open(counter.ends, moment, demand.window_start) THEN
    INSERT INTO llm_quota_counters AS stored VALUES (
      demand.counters, owner, 0, 0, 0, this_period,
      coalesce(demand.window_end, moment + demand.window_length), demand.window_end IS NOT NULL,
      floor(random() * 9007199254740991), 0
    )
    ON CONFLICT (counters, caller) DO UPDATE SET count = 0, held = 0, held_before = 0,
      period = excluded.period, ends = excluded.ends, is_zoned = excluded.is_zoned,
      window_id = excluded.window_id
    RETURNING stored.ctid, stored.* INTO counter;
  ELSIF counter.period < this_period THEN
    counter.held_before := CASE WHEN counter.period = this_period - 1 THEN counter.held ELSE 0 END;
    counter.held := 0;
    counter.period := this_period;
  END IF;
  RETURN counter;
END $function$;

-- Decides on a request: counts each of its demands if all have room, and none otherwise. Returns
-- what was decided on them, as a list of JSON.
CREATE OR REPLACE FUNCTION llm_quota_decide_request(
  moment bigint, cap bigint, demands llm_quota_demand[]
) RETURNS text LANGUAGE plpgsql AS $function$
DECLARE
  unlimited CONSTANT bigint := 9007199254740991;
  demand llm_quota_demand;
  counter llm_quota_counter;
  reached llm_quota_counter[];         -- the counters of the demands
  has_room boolean;
  is_admitted boolean := true;
  granted bigint := 0;
  decided text[];
BEGIN
  FOREACH demand IN ARRAY demands LOOP
    counter := llm_quota_reach(moment, cap, demand);
    reached := array_append(reached, counter);
    is_admitted := is_admitted
      AND llm_quota_has_room(counter.count, demand.least, demand.quota_limit);
  END LOOP;

  FOR index IN 1 .. cardinality(demands) LOOP
    demand := demands[index];
    counter := reached[index];
    has_room := is_admitted OR llm_quota_has_room(counter.count, demand.least, demand.quota_limit);
    IF is_admitted THEN
      granted := CASE WHEN demand.quota_limit = unlimited THEN demand.most
        ELSE least(demand.most, demand.quota_limit - counter.count) END;
    END IF;
    counter.count := least(unlimited, counter.count + granted);
    IF demand.is_estimate THEN
      counter.held := least(unlimited, counter.held + granted);
    END IF;
    IF demand.window_length IS NOT NULL THEN
      UPDATE llm_quota_counters AS stored
      SET count = counter.count, held = counter.held, held_before = counter.held_before,
        period = counter.period,
        dead_from = greatest(stored.dead_from, moment + demand.window_length + 60000)
      WHERE stored.ctid = counter.row_id;
    ELSIF is_admitted THEN
      -- If the same call arrives twice, the place is there.
      INSERT INTO llm_quota_places
      VALUES (demand.counters, demand.caller, demand.place, moment + 30000)
      ON CONFLICT DO NOTHING;
    END IF;
    decided := array_append(decided, format(
      '{"hasRoom":%s,"granted":%s,%s}', has_room::text, granted, llm_quota_state(counter, moment)
    ));
  END LOOP;
  RETURN format('[%s]', array_to_string(decided, ','));
END $function$;

-- Does all of a call (`Call` of lib/store/shared/driver.ts) in one step. Lists are arrays as text,
-- because clients differ in what they make of a parameter of another type; null if they are empty.
-- The settings have each statement planned once, to find rows by their keys. Without `jit = off`,
-- the server would compile what reads the sequences, which have no index.
CREATE OR REPLACE FUNCTION llm_quota_decide(
  given_time bigint,
  cap bigint,
  freed text,          -- of llm_quota_places, without an end
  renewed text,        -- the same
  settlements text,    -- of llm_quota_settlement
  quotas text,         -- the names of the quotas with windows that are asked
  demands text         -- of llm_quota_demand, of all requests
) RETURNS text LANGUAGE plpgsql
SET lock_timeout = '1s' SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $function$
DECLARE
  moment CONSTANT bigint := llm_quota_begin(given_time);
  demand llm_quota_demand;
  request llm_quota_demand[];
  decided text[];
BEGIN
  IF freed IS NOT NULL THEN
    DELETE FROM llm_quota_places AS place USING unnest(freed::llm_quota_places[]) AS given
    WHERE place.ctid = (
      SELECT taken.ctid FROM llm_quota_places AS taken
      WHERE taken.counters = given.counters AND taken.caller = given.caller
        AND taken.name = given.name
    );
  END IF;
  IF renewed IS NOT NULL THEN
    INSERT INTO llm_quota_places AS place
    SELECT held.counters, held.caller, held.name, moment + 30000
    FROM unnest(renewed::llm_quota_places[]) AS held
    ON CONFLICT (counters, caller, name) DO UPDATE SET ends = excluded.ends;
  END IF;

  IF settlements IS NOT NULL THEN
    UPDATE llm_quota_counters AS stored
    SET count = greatest(0, stored.count - given.less_count),
      held = greatest(0, stored.held - llm_quota_less(given.less_held, stored.period)),
      held_before = greatest(
        0, stored.held_before - llm_quota_less(given.less_held, stored.period - 1)
      )
    FROM unnest(settlements::llm_quota_settlement[]) AS given
    WHERE stored.ctid = (
      SELECT counted.ctid FROM llm_quota_counters AS counted
      WHERE counted.counters = given.counters AND counted.caller = given.caller
        AND counted.window_id = given.window_id
    );
  END IF;

  IF demands IS NOT NULL THEN
    PERFORM llm_quota_sweep(moment, asked.counters)
    FROM unnest(quotas::text[]) AS asked (counters);
    FOREACH demand IN ARRAY demands::llm_quota_demand[] LOOP
      request := array_append(request, demand);
      IF demand.is_last THEN
        decided := array_append(decided, llm_quota_decide_request(moment, cap, request));
        request := NULL;
      END IF;
    END LOOP;
  END IF;
  RETURN format(
    '{"period":%s,"decided":[%s]}', llm_quota_period(moment), array_to_string(decided, ',')
  );
END $function$;

-- Returns the state of the counter that a demand, as text, would reach now, after a sweep if one is
-- due; null for a new window. Changes nothing.
CREATE OR REPLACE FUNCTION llm_quota_peek(given_time bigint, cap bigint, demand text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
DECLARE
  moment CONSTANT bigint := (llm_quota_now(given_time)).moment;
  asked CONSTANT llm_quota_demand := demand::llm_quota_demand;
  counter llm_quota_counter;
  sweep record;
BEGIN
  IF asked.window_length IS NULL THEN
    counter := llm_quota_places_of(moment, asked);
    RETURN format('{%s}', llm_quota_state(counter, moment));
  END IF;

  SELECT stored.* INTO counter FROM llm_quota_counter AS stored
  WHERE stored.counters = asked.counters AND stored.caller = asked.caller;
  IF NOT FOUND THEN
    SELECT stored.tracked, coalesce(stored.unswept, '') AS unswept,
      CASE WHEN stored.unswept IS NOT NULL THEN stored.swept_at
        WHEN moment - stored.swept_at >= 60000 THEN moment
      END AS swept_at
    INTO sweep FROM llm_quota AS stored WHERE stored.counters = asked.counters;
    IF sweep.tracked >= cap AND NOT EXISTS (
      SELECT FROM llm_quota_dead(asked.counters, sweep.unswept, sweep.swept_at)
    ) THEN
      SELECT stored.* INTO counter FROM llm_quota_counter AS stored
      WHERE stored.counters = asked.counters AND stored.caller = '"overflow"';
    END IF;
  END IF;
  IF llm_quota_is_open(counter.ends, moment, asked.window_start) THEN
    RETURN format('{%s}', llm_quota_state(counter, moment));
  END IF;
  RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION llm_quota_forget(quota text, key text) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
BEGIN
  PERFORM llm_quota_lock();
  DELETE FROM llm_quota_counters AS stored WHERE stored.counters = quota AND stored.caller = key;
  IF FOUND THEN
    UPDATE llm_quota AS stored SET tracked = stored.tracked - 1 WHERE stored.counters = quota;
  END IF;
END $function$;

-- Returns a page of callers as JSON, from one caller on: with an open window, or with places. Each
-- part has a limit of its own, without which the server would sort all callers for each page.
CREATE OR REPLACE FUNCTION llm_quota_list(
  given_time bigint, given_date bigint, quota text, first_caller text
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
DECLARE
  moment CONSTANT bigint := (llm_quota_now(given_time)).moment;
BEGIN
  RETURN (
    SELECT json_build_object(
      'callers', coalesce(json_agg(listed) FILTER (WHERE listed.position <= 1000), '[]'),
      'cursor', max(listed.caller) FILTER (WHERE listed.position > 1000)
    )
    FROM (
      SELECT found.*, row_number() OVER (ORDER BY found.caller) AS position
      FROM (
        (
          SELECT stored.caller, stored.count, llm_quota_held(stored, moment) AS held,
            CASE WHEN NOT stored.is_zoned THEN stored.ends - moment END AS rest,
            CASE WHEN stored.is_zoned THEN stored.ends END AS "end"
          FROM llm_quota_counter AS stored
          WHERE stored.counters = quota AND stored.caller >= first_caller
            AND stored.caller <> '"overflow"'
            AND stored.ends > CASE WHEN stored.is_zoned THEN given_date ELSE moment END
          ORDER BY stored.caller LIMIT 1001
        )
        UNION ALL
        (
          SELECT place.caller, count(*), count(*), NULL, NULL
          FROM llm_quota_places AS place
          WHERE place.counters = quota AND place.caller >= first_caller AND place.ends > moment
          GROUP BY place.caller
          ORDER BY place.caller LIMIT 1001
        )
      ) AS found
      ORDER BY found.caller LIMIT 1001
    ) AS listed
  );
END $function$;

-- Returns the number of callers, who have a counter of their own or places, and of sweeps.
CREATE OR REPLACE FUNCTION llm_quota_inspect(given_time bigint, quota text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
DECLARE
  moment CONSTANT bigint := (llm_quota_now(given_time)).moment;
  state record;
BEGIN
  SELECT coalesce(sum(stored.tracked), 0) AS tracked, coalesce(sum(stored.sweeps), 0) AS sweeps
  INTO state FROM llm_quota AS stored WHERE stored.counters = quota;
  RETURN json_build_object(
    'trackedCallers', state.tracked + (
      SELECT count(DISTINCT place.caller) FROM llm_quota_places AS place
      WHERE place.counters = quota AND place.ends > moment
    ),
    'sweeps', state.sweeps
  );
END $function$;

CREATE OR REPLACE FUNCTION llm_quota_clear() RETURNS void
LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
BEGIN
  PERFORM llm_quota_lock();
  DELETE FROM llm_quota;
  DELETE FROM llm_quota_counters;
  DELETE FROM llm_quota_places;
  PERFORM setval('llm_quota_latest', 0), setval('llm_quota_set_back', 0);
END $function$;

-- The store looks for this function before its first decision.
CREATE OR REPLACE FUNCTION llm_quota_version_7() RETURNS void LANGUAGE sql AS '';
END $schema$;
