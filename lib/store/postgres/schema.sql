-- The tables and functions of PostgresQuotaStore, schema version 11, for PostgreSQL 14 and later.
-- Running this again changes nothing. docs/postgres.md lists the privileges that a service needs,
-- and how to remove everything.
--
-- What it promises, and why it holds:
--
-- * A call counts each of its requests in full or not at all, and never above a limit. Calls that
--   change something run one after the other: each begins by taking one lock, which it keeps until
--   its transaction ends (llm_quota_begin). So no other call changes anything between the
--   statements of a call.
-- * What a call costs does not grow with the callers, or with what others have left: rows are found
--   by their keys, and a call deletes at most 1,000 rows of each kind that have had their time
--   (llm_quota_clean). Only a caller's own places are counted one by one (llm_quota_read). The
--   server plans a statement once, perhaps for an empty table; the settings of llm_quota_decide
--   have it choose the plan that also suits a million rows. But while another transaction keeps an
--   old snapshot open, the server reads all versions that a row has had since.
-- * A cap on callers holds because their number is kept: whichever statement inserts or deletes
--   counters changes it, by a trigger (llm_quota_count_callers).
-- * The sum of the journal's rows of a window is what the window counts: wherever the column
--   `journaled` changes, the same function writes the difference.
--
-- The order below: the tables; llm_quota_decide, which does all of a call; its steps, in the order
-- in which it takes them; the number of callers; the rules of a counter, each of them once; and
-- what is no decision.
--
-- Times are whole milliseconds, of the server's clock or of the store's; days, weeks and months of
-- a time zone end at milliseconds since the epoch. Names of counters and callers are stored as
-- ASCII, escaped as in JSON. A column is always named with the alias of its table, since the table
-- that the host has chosen can have the name of any variable.
DO $schema$
DECLARE
  own_schema CONSTANT text := current_schema();  -- or the schema in the option table
  keeps_journal CONSTANT boolean := false;       -- the option journal
  outer_path CONSTANT text := current_setting('search_path');
BEGIN
PERFORM pg_advisory_xact_lock(hashtextextended('fastify-llm-quota', 0)); -- other migrations
IF to_regnamespace(quote_ident(own_schema)) IS NULL THEN
  RAISE EXCEPTION 'there is no schema % for the tables of the request quota', own_schema;
END IF;
-- All names below are those of this schema, whatever else is in the search path.
PERFORM set_config('search_path', quote_ident(own_schema) || ', pg_temp', true);

IF to_regclass('llm_quota') IS NOT NULL AND to_regproc('llm_quota_version_11') IS NULL THEN
  RAISE EXCEPTION 'the table % is not of version 11 of the schema', to_regclass('llm_quota')
    USING HINT = 'Drop it with its functions and other tables, as the documentation of their '
      'version describes, or choose another table.';
END IF;
IF to_regclass('llm_quota') IS NOT NULL
  AND (to_regclass('llm_quota_journal') IS NOT NULL) <> keeps_journal THEN
  RAISE EXCEPTION 'the table % was created with another value of the option journal',
    to_regclass('llm_quota')
    USING HINT = 'Choose another table. The journal is complete only from the first count on.';
END IF;

IF to_regclass('llm_quota') IS NULL THEN
  -- The counters of quotas with windows. An update leaves the indexes as they are if the page has
  -- free space and no column that changes is in an index: so `dead_from` changes only when a window
  -- opens.
  CREATE UNLOGGED TABLE llm_quota (
    counters text COLLATE "C" NOT NULL,
    caller text COLLATE "C" NOT NULL,   -- '"overflow"', which is no escaped name, has all others
    count bigint NOT NULL,
    held bigint NOT NULL,               -- of what was admitted in the period
    held_before bigint NOT NULL,        -- of what was admitted in the period before
    period bigint NOT NULL,             -- the latest in which something was admitted
    ends bigint NOT NULL,               -- when the window ends; lowered if the clock was set back
    first_end bigint NOT NULL,          -- `ends` as the window opened: its name in the journal
    is_zoned boolean NOT NULL,          -- whether it ends with a day, week or month of a time zone
    window_id bigint NOT NULL,          -- used once
    dead_from bigint NOT NULL,          -- a minute after it could last be open; it is then deleted
    journaled bigint NOT NULL,          -- the part of the count that is in the journal
    PRIMARY KEY (counters, caller)
  ) WITH (fillfactor = 50);
  CREATE INDEX ON llm_quota (dead_from);

  -- How many callers of a quota have a counter of their own.
  CREATE UNLOGGED TABLE llm_quota_callers (
    counters text COLLATE "C" PRIMARY KEY,
    callers bigint NOT NULL
  ) WITH (fillfactor = 50);

  -- The places of concurrent requests. One that has ended does not count.
  CREATE UNLOGGED TABLE llm_quota_places (
    counters text COLLATE "C" NOT NULL,
    caller text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    ends bigint NOT NULL,
    PRIMARY KEY (counters, caller, name)
  );
  CREATE INDEX ON llm_quota_places (ends);

  -- The names of settlements that are applied once.
  CREATE UNLOGGED TABLE llm_quota_once (
    name text COLLATE "C" PRIMARY KEY,
    dead_from bigint NOT NULL           -- that of its counter
  );
  CREATE INDEX ON llm_quota_once (dead_from);

  IF keeps_journal THEN
    -- Each change of what a window counts. The rows are the host's: none is read or deleted here.
    CREATE TABLE llm_quota_journal (
      at timestamptz NOT NULL,
      counters text COLLATE "C" NOT NULL,
      caller_key text COLLATE "C" NOT NULL,
      window_end timestamptz NOT NULL,  -- as it was when the window opened
      change bigint NOT NULL,
      reference text                    -- escaped as in JSON; null if it is forgotten or cleared
    ) PARTITION BY RANGE (window_end);
    CREATE TABLE llm_quota_journal_rest PARTITION OF llm_quota_journal DEFAULT;
  END IF;

  -- Until when everything that has had its time is deleted. A sequence has no old versions, which
  -- the server would read again and again as long as another transaction with an old snapshot is
  -- open.
  CREATE SEQUENCE llm_quota_cleaned MINVALUE 0;

  -- A counter, or the places of a caller, of which a call uses each once. Its settlements, demands
  -- and standings refer to it by its position.
  CREATE TYPE llm_quota_key AS (
    counters text,
    caller text,
    window_length bigint,               -- the longest of its windows; null for places
    overflow integer                    -- the key of the overflow counter; null without a cap
  );

  -- The demands of a request, which are counted all or not at all.
  CREATE TYPE llm_quota_request AS (
    first integer,                      -- the position of its first demand
    last integer,                       -- that of its last demand
    place text                          -- the name of the places that it takes; null without any
  );

  -- What a request asks of a quota: `Demand` of lib/store/store.ts.
  CREATE TYPE llm_quota_demand AS (
    key integer,
    quota_limit bigint,                 -- null if there is always room
    least bigint,
    most bigint,
    unit integer,                       -- the first demand of its unit: 1 for the request's first
    is_estimate boolean,
    reference text,                     -- null if it is not for the journal
    window_id bigint,                   -- of the window that it opens
    window_start bigint,                -- of a day, week or month of a time zone, or else null
    window_end bigint,                  -- the same
    kept_until bigint                   -- the same: until when its counter is kept
  );

  -- What only looks at a counter, or at the places of a caller.
  CREATE TYPE llm_quota_standing AS (
    key integer,
    window_start bigint                 -- as that of a demand
  );

  -- What changes in a window: `Settlement` of lib/store/shared/driver.ts.
  CREATE TYPE llm_quota_settlement AS (
    key integer,
    window_id bigint,
    less_count bigint,
    less_held json,                     -- by period
    once text,                          -- its name; null if it can be applied again
    reference text                      -- null if it is not for the journal
  );

  -- What a call knows of a key. Its `kind` is one of
  --   'stored'  a counter that has a row; `row_id` is where, so that a write needs no index
  --   'absent'  a caller without a counter, with `counters` and `caller` alone
  --   'opened'  a counter that had no row, with the window that the call has opened
  --   'places'  the places of a caller, with `counters`, `caller` and `count` alone
  CREATE VIEW llm_quota_counter AS
  SELECT 'stored' AS kind, stored.ctid AS row_id, stored.* FROM llm_quota AS stored;
END IF;

-- Does all of a call (`Call` of lib/store/shared/driver.ts) in one step, and returns its reply as
-- JSON. It reads the counters of all keys at once, works on what it has read, and writes what has
-- changed at once: to start a statement costs more than all else. Lists are arrays as text, because
-- clients differ in what they make of a parameter of another type; null if they are empty.
-- `jit = off`, because to compile a statement takes longer than to run it.
CREATE OR REPLACE FUNCTION llm_quota_decide(
  given_time bigint,
  wall_time bigint,        -- by the clock of the process, in milliseconds since the epoch
  period_length bigint,
  place_duration bigint,
  cap bigint,              -- how many callers of a quota have a counter of their own; null for all
  freed text,              -- of llm_quota_places, without an end
  renewed text,            -- the same
  asked_keys text,         -- of llm_quota_key
  settlements text,        -- of llm_quota_settlement
  requests text,           -- of llm_quota_request
  demands text,            -- of llm_quota_demand
  standings text           -- of llm_quota_standing
) RETURNS text LANGUAGE plpgsql
SET search_path FROM CURRENT SET lock_timeout = '1s' SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $function$
DECLARE
  moment CONSTANT bigint := llm_quota_begin(given_time);
  this_period CONSTANT bigint := moment / period_length;
  keys CONSTANT llm_quota_key[] := asked_keys::llm_quota_key[];
  state llm_quota_counter[];           -- of each key
  step record;                         -- a state, and a part of the reply
  applied text;
  decided text;
  seen text;
BEGIN
  PERFORM llm_quota_clean(moment, place_duration);

  IF freed IS NOT NULL THEN
    DELETE FROM llm_quota_places AS place USING unnest(freed::llm_quota_places[]) AS given
    WHERE place.counters = given.counters AND place.caller = given.caller
      AND place.name = given.name;
  END IF;
  IF renewed IS NOT NULL THEN
    INSERT INTO llm_quota_places AS place (counters, caller, name, ends)
    SELECT held.counters, held.caller, held.name, moment + place_duration
    FROM unnest(renewed::llm_quota_places[]) AS held
    ON CONFLICT (counters, caller, name) DO UPDATE SET ends = excluded.ends;
  END IF;

  IF keys IS NOT NULL THEN
    state := llm_quota_read(keys, moment);
  END IF;
  IF settlements IS NOT NULL THEN
    step := llm_quota_settle(state, settlements::llm_quota_settlement[], moment);
    state := step.state;
    applied := step.applied;
  END IF;
  IF requests IS NOT NULL THEN
    step := llm_quota_decide_demands(
      state, keys, requests::llm_quota_request[], demands::llm_quota_demand[], cap, moment,
      wall_time, this_period, place_duration
    );
    state := step.state;
    decided := step.decided;
  END IF;
  IF standings IS NOT NULL THEN
    seen := llm_quota_look(
      state, keys, standings::llm_quota_standing[], cap, moment, this_period
    );
  END IF;
  IF keys IS NOT NULL THEN
    -- `dead_from`, which has an index, changes only with a new window.
    UPDATE llm_quota AS stored
    SET count = counter.count, held = counter.held, held_before = counter.held_before,
      period = counter.period, ends = counter.ends, first_end = counter.first_end,
      is_zoned = counter.is_zoned, window_id = counter.window_id, dead_from = counter.dead_from,
      journaled = counter.journaled
    FROM unnest(state) AS counter
    WHERE stored.ctid = counter.row_id AND (
      stored.count, stored.held, stored.held_before, stored.period, stored.ends, stored.window_id,
      stored.journaled
    ) IS DISTINCT FROM (
      counter.count, counter.held, counter.held_before, counter.period, counter.ends,
      counter.window_id, counter.journaled
    );
  END IF;
  RETURN format(
    '{"period":%s,"applied":[%s],"decided":[%s],"standings":[%s]}', this_period, applied, decided,
    seen
  );
END $function$;

-- Begins a call that changes something: waits for earlier calls, and makes later ones wait until
-- the transaction ends. Its commit does not wait for the disk: what a crash of the server loses is
-- lost in the counters and in the journal alike. Returns the time.
CREATE OR REPLACE FUNCTION llm_quota_begin(given_time bigint) RETURNS bigint
LANGUAGE plpgsql AS $function$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'the request quota needs the isolation level read committed, not %',
      current_setting('transaction_isolation');
  END IF;
  PERFORM set_config('synchronous_commit', 'off', true),
    pg_advisory_xact_lock(hashtext('fastify-llm-quota'), 'llm_quota'::regclass::oid::int);
  RETURN llm_quota_now(given_time);
END $function$;

-- The time of the server's clock, in milliseconds since the epoch.
CREATE OR REPLACE FUNCTION llm_quota_date() RETURNS bigint LANGUAGE sql VOLATILE AS $function$
  SELECT floor(date_part('epoch', clock_timestamp()) * 1000)::bigint
$function$;

-- The time of the store's clock, or else of the server's.
CREATE OR REPLACE FUNCTION llm_quota_now(given_time bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $function$
  SELECT coalesce(given_time, llm_quota_date())
$function$;

-- Deletes what has had its time, once a second, and at most 1,000 rows of each kind: the next call
-- goes on if there are more. A call writes fewer rows, so nothing piles up. It looks only at what
-- has had its time since the last look: beside an old snapshot, what was deleted before is still
-- there to be read. Every ten minutes it looks at all, because a call that was rolled back has
-- deleted nothing. If the clock was set back, places end no later than if they were taken now: at
-- most 1,000 more in each call.
CREATE OR REPLACE FUNCTION llm_quota_clean(moment bigint, place_duration bigint) RETURNS void
LANGUAGE plpgsql AS $function$
DECLARE
  cleaned bigint := coalesce(pg_sequence_last_value('llm_quota_cleaned'::regclass), 0);
  after bigint := CASE WHEN moment / 600000 = cleaned / 600000 THEN cleaned ELSE 0 END;
  most bigint;                         -- how many rows, of the kind of which most were found
BEGIN
  IF moment BETWEEN cleaned AND cleaned + 999 THEN
    RETURN;
  END IF;
  WITH deleted_counter AS (
    DELETE FROM llm_quota AS stored WHERE stored.ctid = ANY (ARRAY(
      SELECT dead.ctid FROM llm_quota AS dead
      WHERE dead.dead_from > after AND dead.dead_from <= moment
      ORDER BY dead.dead_from LIMIT 1000
    )) RETURNING 1
  ), deleted_name AS (
    DELETE FROM llm_quota_once AS stored WHERE stored.ctid = ANY (ARRAY(
      SELECT dead.ctid FROM llm_quota_once AS dead
      WHERE dead.dead_from > after AND dead.dead_from <= moment
      ORDER BY dead.dead_from LIMIT 1000
    )) RETURNING 1
  ), deleted_place AS (
    DELETE FROM llm_quota_places AS place WHERE place.ctid = ANY (ARRAY(
      SELECT ended.ctid FROM llm_quota_places AS ended
      WHERE ended.ends > after AND ended.ends <= moment
      ORDER BY ended.ends LIMIT 1000
    )) RETURNING 1
  ), shortened_place AS (
    UPDATE llm_quota_places AS place SET ends = moment + place_duration
    WHERE place.ctid = ANY (ARRAY(
      SELECT late.ctid FROM llm_quota_places AS late WHERE late.ends > moment + place_duration
      ORDER BY late.ends LIMIT 1000
    )) RETURNING 1
  )
  SELECT greatest(
    (SELECT count(*) FROM deleted_counter),
    (SELECT count(*) FROM deleted_name),
    (SELECT count(*) FROM deleted_place),
    (SELECT count(*) FROM shortened_place)
  ) INTO most;
  IF most < 1000 THEN
    PERFORM setval('llm_quota_cleaned', moment);
  END IF;
END $function$;

-- Returns what is stored of each key, in the order of the view's columns. If the clock was set
-- back, a window ends no later than if it opened now, but for one of a time zone.
CREATE OR REPLACE FUNCTION llm_quota_read(keys llm_quota_key[], moment bigint)
RETURNS llm_quota_counter[] LANGUAGE plpgsql AS $function$
BEGIN
  RETURN ARRAY(
    SELECT CASE WHEN key.window_length IS NULL THEN (
      'places', NULL, key.counters, key.caller, (
        SELECT count(*) FROM llm_quota_places AS place
        WHERE place.counters = key.counters AND place.caller = key.caller AND place.ends > moment
      ), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    )::llm_quota_counter ELSE coalesce((
      SELECT (
        stored.kind, stored.row_id, stored.counters, stored.caller, stored.count, stored.held,
        stored.held_before, stored.period,
        CASE WHEN stored.is_zoned THEN stored.ends
          ELSE least(stored.ends, moment + key.window_length) END,
        stored.first_end, stored.is_zoned, stored.window_id, stored.dead_from, stored.journaled
      )::llm_quota_counter
      FROM llm_quota_counter AS stored
      WHERE stored.counters = key.counters AND stored.caller = key.caller
    ), (
      'absent', NULL, key.counters, key.caller, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
      NULL, NULL
    )::llm_quota_counter) END
    FROM unnest(keys) AS key
  );
END $function$;

-- Takes off what each settlement says, in the window that has counted it and in no other; nothing
-- falls below 0. One with a name is applied only if its name is new and the window lasts: by the
-- server's date in a time zone, otherwise by the time of the call.
-- `applied` is, for each, false if one with a name was not applied.
CREATE OR REPLACE FUNCTION llm_quota_settle(
  INOUT state llm_quota_counter[], settlements llm_quota_settlement[], moment bigint,
  OUT applied text
) LANGUAGE plpgsql AS $function$
DECLARE
  settlement llm_quota_settlement;
  counter llm_quota_counter;
  is_applied boolean;
  change bigint;
  of_each text[];
BEGIN
  FOREACH settlement IN ARRAY settlements LOOP
    counter := state[settlement.key];
    is_applied := true;
    IF settlement.once IS NOT NULL THEN
      INSERT INTO llm_quota_once (name, dead_from)
      SELECT settlement.once, counter.dead_from
      WHERE counter.window_id = settlement.window_id
        AND llm_quota_lasts(counter, moment, llm_quota_date())
      ON CONFLICT (name) DO NOTHING;
      is_applied := FOUND;
    END IF;
    of_each := array_append(of_each, is_applied::text);

    IF is_applied AND counter.window_id = settlement.window_id THEN
      counter.count := greatest(0, counter.count - settlement.less_count);
      counter.held := greatest(0, counter.held
        - llm_quota_less(settlement.less_held, counter.period));
      counter.held_before := greatest(0, counter.held_before
        - llm_quota_less(settlement.less_held, counter.period - 1));
      IF settlement.reference IS NOT NULL THEN
        change := -least(settlement.less_count, counter.journaled);
        PERFORM llm_quota_write_down(counter, change, settlement.reference);
        counter.journaled := counter.journaled + change;
      END IF;
      state[settlement.key] := counter;
    END IF;
  END LOOP;
  applied := array_to_string(of_each, ',');
END $function$;

-- What a settlement takes from what was admitted in a period.
CREATE OR REPLACE FUNCTION llm_quota_less(less_held json, period bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $function$
  SELECT coalesce((less_held ->> period::text)::bigint, 0)
$function$;

-- Writes a change of what a window counts into the journal.
CREATE OR REPLACE FUNCTION llm_quota_write_down(
  counter llm_quota_counter, change bigint, reference text
) RETURNS void LANGUAGE plpgsql AS $function$
BEGIN
  IF change <> 0 THEN
    INSERT INTO llm_quota_journal (at, counters, caller_key, window_end, change, reference)
    VALUES (
      clock_timestamp(), counter.counters, counter.caller,
      to_timestamp(counter.first_end / 1000.0), change, reference
    );
  END IF;
END $function$;

-- Decides on the requests in their order: counts each demand of a request if all have room, and
-- none otherwise. Opens the windows that are needed even if it rejects. `decided` is, as JSON, what
-- was decided on each demand. One function, because the state is copied for each that changes it:
-- with one for each request, a call of 64 took 3 ms more.
CREATE OR REPLACE FUNCTION llm_quota_decide_demands(
  INOUT state llm_quota_counter[], keys llm_quota_key[], requests llm_quota_request[],
  demands llm_quota_demand[], cap bigint, moment bigint, wall_time bigint, this_period bigint,
  place_duration bigint, OUT decided text
) LANGUAGE plpgsql AS $function$
DECLARE
  callers_left bigint[] := llm_quota_callers_left(keys, cap);
  request llm_quota_request;
  demand llm_quota_demand;
  counter llm_quota_counter;
  overflow integer;                    -- the key of the overflow counter; null without a cap
  is_admitted boolean;
  alone bigint[];                      -- of each unit: the least that one of its demands would be
                                       -- granted if it were the only demand
  granted bigint;
  taken llm_quota_places[];
  has_opened boolean := false;         -- whether a counter is to be inserted
  decisions text[];
BEGIN
  FOREACH request IN ARRAY requests LOOP
    -- In which counter and window each demand counts, and whether all have room.
    is_admitted := true;
    alone := NULL;
    FOR position IN request.first .. request.last LOOP
      demand := demands[position];
      counter := state[demand.key];
      IF counter.kind = 'absent' THEN
        overflow := keys[demand.key].overflow;
        IF callers_left[overflow] <= 0 THEN
          -- As many callers as the cap have a counter: this one counts in the overflow counter.
          demand.key := overflow;
          demands[position] := demand;
          counter := state[overflow];
        ELSIF overflow IS NOT NULL THEN
          -- The caller gets a counter, whose window is opened below.
          callers_left[overflow] := callers_left[overflow] - 1;
        END IF;
      END IF;
      IF NOT llm_quota_is_open(counter, demand.window_start, moment) THEN
        has_opened := has_opened OR counter.kind = 'absent';
        counter := llm_quota_open(
          counter, keys[demand.key].window_length, demand, moment, wall_time, this_period
        );
        state[demand.key] := counter;
      END IF;
      is_admitted := is_admitted AND llm_quota_has_room(counter.count, demand);
      alone[demand.unit] := least(alone[demand.unit], llm_quota_grant(counter.count, demand));
    END LOOP;

    -- What each is granted.
    FOR position IN request.first .. request.last LOOP
      demand := demands[position];
      counter := state[demand.key];
      granted := 0;
      IF is_admitted THEN
        -- No more than the other demands of its unit, but its least.
        granted := greatest(alone[demand.unit], demand.least);
        IF counter.kind = 'places' THEN
          counter.count := counter.count + 1;
          taken := array_append(taken, (
            counter.counters, counter.caller, request.place, moment + place_duration
          )::llm_quota_places);
        ELSE
          counter := llm_quota_count(counter, demand, granted, this_period);
        END IF;
        state[demand.key] := counter;
      END IF;
      decisions := array_append(decisions, format(
        '{"hasRoom":%s,"granted":%s,%s}',
        (is_admitted OR llm_quota_has_room(counter.count, demand))::text, granted,
        llm_quota_state(counter, moment, this_period)
      ));
    END LOOP;
  END LOOP;

  IF taken IS NOT NULL THEN
    INSERT INTO llm_quota_places (counters, caller, name, ends)
    SELECT place.counters, place.caller, place.name, place.ends FROM unnest(taken) AS place;
  END IF;
  IF has_opened THEN
    INSERT INTO llm_quota (
      counters, caller, count, held, held_before, period, ends, first_end, is_zoned, window_id,
      dead_from, journaled
    )
    SELECT opened.counters, opened.caller, opened.count, opened.held, opened.held_before,
      opened.period, opened.ends, opened.first_end, opened.is_zoned, opened.window_id,
      opened.dead_from, opened.journaled
    FROM unnest(state) AS opened
    WHERE opened.kind = 'opened';
  END IF;
  decided := array_to_string(decisions, ',');
END $function$;

-- Returns a counter with a new window for a demand.
CREATE OR REPLACE FUNCTION llm_quota_open(
  counter llm_quota_counter, window_length bigint, demand llm_quota_demand, moment bigint,
  wall_time bigint, this_period bigint
) RETURNS llm_quota_counter LANGUAGE plpgsql AS $function$
BEGIN
  IF counter.kind = 'absent' THEN
    counter.kind := 'opened';
  END IF;
  counter.count := 0;
  counter.held := 0;
  counter.held_before := 0;
  counter.period := this_period;
  counter.is_zoned := demand.window_end IS NOT NULL;
  IF counter.is_zoned THEN
    counter.ends := demand.window_end;
    -- By the clock that is behind, so that the counter outlasts the window by either.
    counter.dead_from := moment + demand.kept_until - least(wall_time, llm_quota_date());
  ELSE
    counter.ends := moment + window_length;
    counter.dead_from := counter.ends + 60000;
  END IF;
  counter.first_end := counter.ends;
  counter.window_id := demand.window_id;
  counter.journaled := 0;
  RETURN counter;
END $function$;

-- Returns a counter that has counted what a demand was granted.
CREATE OR REPLACE FUNCTION llm_quota_count(
  counter llm_quota_counter, demand llm_quota_demand, granted bigint, this_period bigint
) RETURNS llm_quota_counter LANGUAGE plpgsql AS $function$
DECLARE
  greatest_count CONSTANT bigint := 9007199254740991; -- the greatest exact number of JSON
  change CONSTANT bigint := least(granted, greatest_count - counter.count);
BEGIN
  counter.count := counter.count + change;
  IF counter.period <> this_period THEN
    counter.held_before := CASE counter.period WHEN this_period - 1 THEN counter.held ELSE 0 END;
    counter.held := 0;
    counter.period := this_period;
  END IF;
  IF demand.is_estimate THEN
    counter.held := counter.held + change;
  END IF;
  IF demand.reference IS NOT NULL THEN
    PERFORM llm_quota_write_down(counter, change, demand.reference);
    counter.journaled := counter.journaled + change;
  END IF;
  RETURN counter;
END $function$;

-- Returns, as JSON, the state of the counter that a demand with the key of each standing would
-- reach; null if it would open a window.
CREATE OR REPLACE FUNCTION llm_quota_look(
  state llm_quota_counter[], keys llm_quota_key[], standings llm_quota_standing[], cap bigint,
  moment bigint, this_period bigint
) RETURNS text LANGUAGE plpgsql AS $function$
DECLARE
  callers_left CONSTANT bigint[] := llm_quota_callers_left(keys, cap);
  standing llm_quota_standing;
  counter llm_quota_counter;
  overflow integer;                    -- the key of the overflow counter
  seen text[];
BEGIN
  FOREACH standing IN ARRAY standings LOOP
    counter := state[standing.key];
    IF counter.kind = 'absent' THEN
      overflow := keys[standing.key].overflow;
      IF callers_left[overflow] <= 0 THEN
        counter := state[overflow];
      END IF;
    END IF;
    seen := array_append(seen, CASE
      WHEN llm_quota_is_open(counter, standing.window_start, moment)
      THEN format('{%s}', llm_quota_state(counter, moment, this_period)) ELSE 'null' END);
  END LOOP;
  RETURN array_to_string(seen, ',');
END $function$;

-- Returns, for each key of an overflow counter, how many more callers its quota can have; null for
-- all others, and without a cap.
CREATE OR REPLACE FUNCTION llm_quota_callers_left(keys llm_quota_key[], cap bigint)
RETURNS bigint[] LANGUAGE plpgsql AS $function$
BEGIN
  IF cap IS NULL THEN
    RETURN NULL;
  END IF;
  RETURN ARRAY(
    SELECT CASE key.caller WHEN '"overflow"'
      THEN cap - coalesce((llm_quota_callers_of(key.counters)).callers, 0) END
    FROM unnest(keys) AS key
  );
END $function$;

-- Returns how many callers a quota has, and the row that says so; null if there is none. The row
-- changes often, and beside an old snapshot its old versions stay. An index has those of one key in
-- the order of their places in the table, so the latest is found first from the end. With `=` the
-- server would see that there is nothing to sort, and begin at the start.
CREATE OR REPLACE FUNCTION llm_quota_callers_of(quota text, OUT row_id tid, OUT callers bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $function$
BEGIN
  SELECT latest.ctid, latest.callers INTO row_id, callers FROM llm_quota_callers AS latest
  WHERE latest.counters >= quota AND latest.counters <= quota
  ORDER BY latest.counters DESC LIMIT 1;
END $function$;

-- Keeps llm_quota_callers, whoever opens or deletes counters: a statement has inserted or deleted
-- the rows `changed` of llm_quota, or truncated it.
CREATE OR REPLACE FUNCTION llm_quota_count_callers() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $function$
DECLARE
  quota text;
  change bigint;
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    DELETE FROM llm_quota_callers;
    RETURN NULL;
  END IF;
  FOR quota, change IN
    SELECT changed.counters, CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE -count(*) END
    FROM changed WHERE changed.caller <> '"overflow"' GROUP BY changed.counters
  LOOP
    UPDATE llm_quota_callers AS stored SET callers = stored.callers + change
    WHERE stored.ctid = (llm_quota_callers_of(quota)).row_id;
    IF NOT FOUND THEN
      -- There is none yet, or a statement of the host's has changed it meanwhile.
      INSERT INTO llm_quota_callers AS stored (counters, callers) VALUES (quota, change)
      ON CONFLICT (counters) DO UPDATE SET callers = stored.callers + excluded.callers;
    END IF;
  END LOOP;
  RETURN NULL;
END $function$;
IF NOT EXISTS (
  SELECT FROM pg_trigger WHERE tgfoid = to_regproc('llm_quota_count_callers')
) THEN
  CREATE TRIGGER llm_quota_inserted AFTER INSERT ON llm_quota REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION llm_quota_count_callers();
  CREATE TRIGGER llm_quota_deleted AFTER DELETE ON llm_quota REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION llm_quota_count_callers();
  CREATE TRIGGER llm_quota_truncated AFTER TRUNCATE ON llm_quota
    FOR EACH STATEMENT EXECUTE FUNCTION llm_quota_count_callers();
END IF;

-- The rules of a counter (docs/rules.md), each of them once.

CREATE OR REPLACE FUNCTION llm_quota_has_room(count bigint, demand llm_quota_demand)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $function$
  SELECT coalesce(count + greatest(demand.least, 1) <= demand.quota_limit, true)
$function$;

-- What a demand that has room would be granted if it were the only one; least() ignores null.
CREATE OR REPLACE FUNCTION llm_quota_grant(count bigint, demand llm_quota_demand)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $function$
  SELECT least(demand.most, demand.quota_limit - count)
$function$;

-- Whether a demand finds a window open. One that follows the days, weeks or months of a time zone
-- is over once the present one has started, and any other at its end. Places have no window: they
-- are always open.
CREATE OR REPLACE FUNCTION llm_quota_is_open(
  counter llm_quota_counter, window_start bigint, moment bigint
) RETURNS boolean LANGUAGE sql IMMUTABLE AS $function$
  SELECT CASE counter.kind WHEN 'places' THEN true WHEN 'absent' THEN false
    ELSE counter.ends > coalesce(window_start, moment) END
$function$;

-- Whether the end of a window is still to come: in a time zone, by a date.
CREATE OR REPLACE FUNCTION llm_quota_lasts(
  counter llm_quota_counter, moment bigint, date bigint
) RETURNS boolean LANGUAGE sql IMMUTABLE AS $function$
  SELECT counter.ends > CASE WHEN counter.is_zoned THEN date ELSE moment END
$function$;

-- What was admitted in this period or in the one before, and not settled since.
CREATE OR REPLACE FUNCTION llm_quota_held(counter llm_quota_counter, this_period bigint)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $function$
  SELECT least(counter.count, CASE this_period - counter.period
    WHEN 0 THEN counter.held + counter.held_before
    WHEN 1 THEN counter.held
    ELSE 0
  END)
$function$;

-- Returns the state of a counter, or of a caller's places, as fields of JSON: those of `Decided` of
-- lib/store/shared/driver.ts, where `rest` is the time until the window ends, and `end` when it
-- ends; null for places. format() takes half as long as json_build_object().
CREATE OR REPLACE FUNCTION llm_quota_state(
  counter llm_quota_counter, moment bigint, this_period bigint
) RETURNS text LANGUAGE sql STABLE AS $function$
  SELECT format(
    '"count":%s,"held":%s,"rest":%s,"end":%s,"overflow":%s,"windowId":%s',
    counter.count,
    CASE counter.kind WHEN 'places' THEN counter.count
      ELSE llm_quota_held(counter, this_period) END,
    coalesce((counter.ends - moment)::text, 'null'), coalesce(counter.ends::text, 'null'),
    coalesce(counter.caller = '"overflow"', false)::text, coalesce(counter.window_id, 0)
  )
$function$;

-- What is no decision.

-- Forgets a caller in one quota. What a window that is over has counted was used, and stays in the
-- journal.
CREATE OR REPLACE FUNCTION llm_quota_forget(
  given_time bigint, quota text, key text
) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '1s'
AS $function$
DECLARE
  moment CONSTANT bigint := llm_quota_begin(given_time);
BEGIN
  PERFORM llm_quota_write_down(stored, -stored.journaled, NULL) FROM llm_quota_counter AS stored
  WHERE stored.counters = quota AND stored.caller = key
    AND llm_quota_lasts(stored, moment, llm_quota_date());
  DELETE FROM llm_quota AS stored WHERE stored.counters = quota AND stored.caller = key;
END $function$;

-- Forgets all callers, and removes all places.
CREATE OR REPLACE FUNCTION llm_quota_clear(given_time bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '1s'
AS $function$
DECLARE
  moment CONSTANT bigint := llm_quota_begin(given_time);
BEGIN
  PERFORM llm_quota_write_down(stored, -stored.journaled, NULL) FROM llm_quota_counter AS stored
  WHERE llm_quota_lasts(stored, moment, llm_quota_date());
  DELETE FROM llm_quota;
  DELETE FROM llm_quota_callers;
  DELETE FROM llm_quota_places;
  DELETE FROM llm_quota_once;
  PERFORM setval('llm_quota_cleaned', 0);
END $function$;

-- Returns a page of callers as JSON, from one caller on: with an open window, or with places. Each
-- part has a limit of its own, without which the server would sort all callers for each page.
CREATE OR REPLACE FUNCTION llm_quota_list(
  given_time bigint, date bigint, period_length bigint, quota text, first_caller text
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '1s'
AS $function$
DECLARE
  moment CONSTANT bigint := llm_quota_now(given_time);
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
          SELECT stored.caller, stored.count,
            llm_quota_held(stored, moment / period_length) AS held,
            CASE WHEN NOT stored.is_zoned THEN stored.ends - moment END AS rest,
            CASE WHEN stored.is_zoned THEN stored.ends END AS "end"
          FROM llm_quota_counter AS stored
          WHERE stored.counters = quota AND stored.caller >= first_caller
            AND stored.caller <> '"overflow"'
            AND llm_quota_lasts(stored, moment, date)
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

-- Returns the number of callers, who have a counter of their own or places.
CREATE OR REPLACE FUNCTION llm_quota_inspect(given_time bigint, quota text) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '1s'
AS $function$
DECLARE
  moment CONSTANT bigint := llm_quota_now(given_time);
BEGIN
  RETURN json_build_object('trackedCallers', (
    SELECT count(*) FROM llm_quota AS stored
    WHERE stored.counters = quota AND stored.caller <> '"overflow"' AND stored.dead_from > moment
  ) + (
    SELECT count(DISTINCT place.caller) FROM llm_quota_places AS place
    WHERE place.counters = quota AND place.ends > moment
  ));
END $function$;

-- The store looks for this function before its first decision.
CREATE OR REPLACE FUNCTION llm_quota_version_11() RETURNS void LANGUAGE sql AS '';

PERFORM set_config('search_path', outer_path, true);
END $schema$;
