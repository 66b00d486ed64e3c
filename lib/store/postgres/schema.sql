-- The tables and functions of PostgresQuotaStore, schema version 5, for PostgreSQL 14 and later.
-- Running this again changes nothing. docs/postgres.md lists the privileges that a service needs,
-- and how to remove everything; docs/shared-stores.md describes one decision from call to reply.
--
-- A decision reads the rows that it needs, decides on its requests in their order, and writes the
-- rows back. Times are milliseconds of the server's clock or of the store's; days and months of a
-- time zone end at milliseconds since the epoch. Columns are always qualified, because a table can
-- have the name of any variable.
--
-- Locks are taken in one order, so that nothing waits in a circle: the lease of the process,
-- places, counters of callers, tracking; rows of one kind in the order in which the store has
-- sorted them. Overflow counters need the lock of tracking. What is cleaned up comes last, and
-- skips what is locked.
--
-- Rows are found by LATERAL subqueries with FOR UPDATE or OFFSET 0, because the planner joins them
-- by their primary key however small it believes a table to be; a plan is kept for all calls.
DO $schema$ BEGIN
PERFORM pg_advisory_xact_lock(hashtextextended('fastify-llm-quota', 0)); -- other migrations
IF to_regclass('llm_quota') IS NOT NULL AND to_regproc('llm_quota_version_5') IS NULL THEN
  RAISE EXCEPTION 'the table % has the layout of another version: use another table',
    to_regclass('llm_quota');
END IF;

-- The counters. Names of counters and callers are stored as ASCII, escaped as in JSON. A HOT update
-- needs free space in the page, and no index on a column that decisions change.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota (
  counters text COLLATE "C" NOT NULL,
  caller text COLLATE "C" NOT NULL,   -- '' for the overflow counter
  kind text COLLATE "C" NOT NULL,     -- 'caller', 'overflow', or 'places' in flight
  count bigint NOT NULL,
  held bigint NOT NULL,
  ends float8,                        -- null for places
  is_zoned boolean,                   -- whether it is a day or month of a time zone
  window_id bigint,                   -- used once
  last_seen float8,
  PRIMARY KEY (counters, caller, kind)
) WITH (fillfactor = 50);

-- What belongs to all callers of a quota with windows. Its row is locked by whoever inserts or
-- deletes a caller's counter, or uses the overflow counter.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota_tracking (
  counters text COLLATE "C" PRIMARY KEY,
  window_length float8 NOT NULL,
  tracked bigint NOT NULL,            -- callers with a counter of their own
  swept_at float8 NOT NULL,
  sweeps bigint NOT NULL,
  unswept text COLLATE "C"            -- the sweep has yet to check the callers from this one on
) WITH (fillfactor = 50);

-- The leases of processes, without which their places do not count.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota_leases (
  process text COLLATE "C" PRIMARY KEY,
  number bigint NOT NULL,             -- of the latest call
  ends float8 NOT NULL,
  complete bigint NOT NULL,           -- places of earlier generations are held no longer
  frees_at float8 NOT NULL,           -- from when on places are to be taken from the totals
  UNIQUE (frees_at, process)
);

-- What each process holds for each caller. The total is the counter of the kind 'places', whose
-- lock is needed to change any of its parts.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota_places (
  process text COLLATE "C" NOT NULL,
  counters text COLLATE "C" NOT NULL,
  caller text COLLATE "C" NOT NULL,
  held bigint NOT NULL,
  generation bigint NOT NULL,
  PRIMARY KEY (process, counters, caller)
);

-- One row: the latest time that is known, and by how much the clock has been set back.
CREATE UNLOGGED TABLE IF NOT EXISTS llm_quota_clock (
  one boolean PRIMARY KEY CHECK (one),
  latest float8 NOT NULL,
  set_back float8 NOT NULL
);

-- What a quota asks, as `Demand` of the store, and which rows of the call it is about.
IF to_regtype('llm_quota_demand') IS NULL THEN
  CREATE TYPE llm_quota_demand AS (
    quota int,                        -- null for a place
    slot int,                         -- of the caller's own counter, or of its places
    overflow_slot int,                -- null for a place
    quota_limit bigint,
    least bigint,
    most bigint,
    is_estimate boolean,
    window_length float8,
    window_end float8
  );
END IF;

-- Returns the time, and what it adds to the clock. The time never runs backwards by more than
-- 100 ms: if the clock has been set back, the difference is added from then on. Nothing ever waits
-- for the row of the clock once it is there.
CREATE OR REPLACE FUNCTION llm_quota_now(given_time float8, OUT moment float8, OUT shift float8)
LANGUAGE plpgsql AS $function$
DECLARE
  known_latest float8;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'the request quota needs the isolation level read committed, not %',
      current_setting('transaction_isolation');
  END IF;
  SELECT clock.latest, clock.set_back INTO known_latest, shift
  FROM llm_quota_clock AS clock WHERE clock.one;
  shift := coalesce(shift, 0);
  -- The clock is read after the row, so that the time of another decision is never later.
  moment := coalesce(given_time, date_part('epoch', clock_timestamp()) * 1000) + shift;
  IF known_latest IS NULL THEN
    INSERT INTO llm_quota_clock VALUES (true, moment, 0) ON CONFLICT DO NOTHING;
  ELSIF moment - known_latest NOT BETWEEN 0 AND 100 THEN
    shift := shift + greatest(0, known_latest - moment);
    moment := greatest(moment, known_latest);
    UPDATE llm_quota_clock AS clock
    SET latest = greatest(clock.latest, moment), set_back = greatest(clock.set_back, shift)
    WHERE clock.one = (
      SELECT free.one FROM llm_quota_clock AS free WHERE free.one FOR UPDATE SKIP LOCKED
    );
  END IF;
END $function$;

-- The rules of a counter (docs/rules.md), each of them once.

CREATE OR REPLACE FUNCTION llm_quota_is_open(ends float8, moment float8, given_end float8)
RETURNS boolean LANGUAGE sql IMMUTABLE AS
'SELECT coalesce(given_end <= ends, moment < ends, false)';

CREATE OR REPLACE FUNCTION llm_quota_has_room(count bigint, at_least bigint, quota_limit bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE AS
'SELECT count + greatest(at_least, 1) <= quota_limit OR quota_limit = 9007199254740991';

-- Whether a sweep at this time deletes the counter of a caller who was last seen at that one.
CREATE OR REPLACE FUNCTION llm_quota_is_dead(
  last_seen float8, swept_at float8, window_length float8
) RETURNS boolean LANGUAGE sql IMMUTABLE AS
'SELECT swept_at - last_seen >= window_length + 60000';

-- Returns what was decided on a demand as JSON: as `Decided` of lib/store/shared/driver.ts, where
-- `rest` is the time until the window ends, and `end` when it ends; null for a place.
CREATE OR REPLACE FUNCTION llm_quota_decided(own llm_quota, granted bigint, has_room boolean)
RETURNS text LANGUAGE sql STABLE AS $function$
  SELECT format(
    '{"count":%s,"held":%s,"granted":%s,"hasRoom":%s,"rest":%s,"end":%s,"overflow":%s,'
    '"windowId":%s}',
    own.count, own.held, granted, coalesce(has_room::text, 'null'),
    coalesce((own.ends - own.last_seen)::text, 'null'),
    coalesce(floor(own.ends)::text, 'null'), (own.kind = 'overflow')::text,
    coalesce(own.window_id, 0)
  )
$function$;

-- Sweeps a quota, whose row of tracking this transaction has locked, if a sweep is due or has yet
-- to be finished: deletes the dead counters among the next callers, as many as `page`, and among
-- the rows of the call. Returns the rows of the call, without a count if they have been deleted.
-- Skips the counters that others have locked, because they are being used again.
CREATE OR REPLACE FUNCTION llm_quota_sweep(
  quota text, moment float8, page integer, given_rows llm_quota[]
) RETURNS llm_quota[] LANGUAGE plpgsql AS $function$
DECLARE
  after_all CONSTANT text COLLATE "C" := chr(127); -- greater than each name
  tracking llm_quota_tracking;
  next_unswept text COLLATE "C";
  dead tid[];
  deleted bigint;
BEGIN
  SELECT stored.* INTO tracking FROM llm_quota_tracking AS stored WHERE stored.counters = quota;
  IF moment - tracking.swept_at >= 60000 THEN
    tracking.swept_at := moment;
    tracking.sweeps := tracking.sweeps + 1;
    tracking.unswept := '';
  END IF;
  IF tracking.unswept IS NULL THEN
    RETURN given_rows;
  END IF;

  next_unswept := (
    SELECT stored.caller FROM llm_quota AS stored
    WHERE stored.counters = quota AND stored.caller >= tracking.unswept AND stored.kind = 'caller'
    ORDER BY stored.caller OFFSET page LIMIT 1
  );
  dead := ARRAY(
    SELECT stored.ctid FROM llm_quota AS stored
    WHERE stored.counters = quota AND stored.kind = 'caller'
      AND stored.caller >= tracking.unswept AND stored.caller < coalesce(next_unswept, after_all)
      AND llm_quota_is_dead(stored.last_seen, tracking.swept_at, tracking.window_length)
    FOR UPDATE SKIP LOCKED
  );
  FOR slot IN 1 .. cardinality(given_rows) LOOP
    IF given_rows[slot].counters = quota AND given_rows[slot].kind = 'caller'
      AND llm_quota_is_dead(
        given_rows[slot].last_seen, tracking.swept_at, tracking.window_length
      )
    THEN
      dead := dead || (
        SELECT stored.ctid FROM llm_quota AS stored
        WHERE stored.counters = quota AND stored.caller = given_rows[slot].caller
          AND stored.kind = 'caller'
      );
      given_rows[slot].count := NULL;
      given_rows[slot].ends := NULL;
      given_rows[slot].window_id := NULL;
    END IF;
  END LOOP;

  DELETE FROM llm_quota AS stored WHERE stored.ctid = ANY (dead);
  GET DIAGNOSTICS deleted = ROW_COUNT;
  UPDATE llm_quota_tracking AS stored
  SET tracked = stored.tracked - deleted, swept_at = tracking.swept_at,
    sweeps = tracking.sweeps, unswept = next_unswept
  WHERE stored.counters = quota;
  RETURN given_rows;
END $function$;

-- Takes what is held no longer from the totals, at most 1,000 parts at a time: the places of leases
-- that have ended, and those of earlier generations. Skips the callers that others have locked.
CREATE OR REPLACE FUNCTION llm_quota_free_places(moment float8) RETURNS void
LANGUAGE plpgsql AS $function$
DECLARE
  leases llm_quota_leases[];
  parts llm_quota_places[];
  totals llm_quota[];
BEGIN
  leases := ARRAY(
    SELECT stored FROM llm_quota_leases AS stored WHERE stored.frees_at <= moment
    ORDER BY stored.frees_at LIMIT 1000 FOR UPDATE SKIP LOCKED
  );
  parts := ARRAY(
    SELECT found.part FROM unnest(leases) AS lease CROSS JOIN LATERAL (
      SELECT part FROM llm_quota_places AS part
      WHERE part.process = lease.process
        AND (lease.ends <= moment OR part.generation < lease.complete)
      LIMIT 1000
    ) AS found LIMIT 1000
  );
  totals := ARRAY(
    SELECT found.total
    FROM (SELECT DISTINCT part.counters, part.caller FROM unnest(parts) AS part) AS freed
    CROSS JOIN LATERAL (
      SELECT total FROM llm_quota AS total
      WHERE total.counters = freed.counters AND total.caller = freed.caller
        AND total.kind = 'places'
      FOR UPDATE SKIP LOCKED
    ) AS found
  );
  parts := ARRAY(
    SELECT part FROM unnest(parts) AS part
    WHERE (part.counters, part.caller) IN (
      SELECT total.counters, total.caller FROM unnest(totals) AS total
    ) OR NOT EXISTS (
      SELECT FROM llm_quota AS total
      WHERE total.counters = part.counters AND total.caller = part.caller
        AND total.kind = 'places'
      OFFSET 0
    )
  );

  INSERT INTO llm_quota AS stored (counters, caller, kind, count, held)
  SELECT part.counters, part.caller, 'places', sum(part.held), sum(part.held)
  FROM unnest(parts) AS part
  JOIN unnest(totals) AS total ON total.counters = part.counters AND total.caller = part.caller
  GROUP BY part.counters, part.caller
  ON CONFLICT (counters, caller, kind) DO UPDATE SET
    count = greatest(0, stored.count - excluded.count),
    held = greatest(0, stored.held - excluded.held);
  DELETE FROM llm_quota AS stored WHERE stored.ctid = ANY (ARRAY(
    SELECT found.place FROM unnest(totals) AS total CROSS JOIN LATERAL (
      SELECT empty.ctid AS place FROM llm_quota AS empty
      WHERE empty.counters = total.counters AND empty.caller = total.caller
        AND empty.kind = 'places' AND empty.count = 0
      OFFSET 0
    ) AS found
  ));
  DELETE FROM llm_quota_places AS stored WHERE stored.ctid = ANY (ARRAY(
    SELECT found.place FROM unnest(parts) AS part CROSS JOIN LATERAL (
      SELECT freed.ctid AS place FROM llm_quota_places AS freed
      WHERE freed.process = part.process AND freed.counters = part.counters
        AND freed.caller = part.caller
      OFFSET 0
    ) AS found
  ));

  DELETE FROM llm_quota_leases AS stored
  WHERE stored.process = ANY (ARRAY(
    SELECT lease.process FROM unnest(leases) AS lease
    WHERE lease.ends <= moment AND NOT EXISTS (
      SELECT FROM llm_quota_places AS part WHERE part.process = lease.process OFFSET 0
    )
  ));
  UPDATE llm_quota_leases AS stored SET frees_at = stored.ends
  WHERE stored.process = ANY (ARRAY(
    SELECT lease.process FROM unnest(leases) AS lease
    WHERE lease.ends > moment AND NOT EXISTS (
      SELECT FROM llm_quota_places AS part
      WHERE part.process = lease.process AND part.generation < lease.complete
      OFFSET 0
    )
  ));
END $function$;

-- Does all of a call (`Call` of lib/store/shared/driver.ts) in one step. A slot is the number of a
-- row in `given_rows`, from 1. Returns as JSON: between which times of the clock, while nobody sets
-- it back, no sweep is due, and by how much the clock is behind the time; the number of the latest
-- call of the process that was known, or 0 if it had no lease; and for each request null if it must
-- be sent again, or what was decided on its demands.
CREATE OR REPLACE FUNCTION llm_quota_decide(
  given_time float8,
  cap bigint,
  holder text,         -- the process; null in a call without a lease
  call_number bigint,
  call_generation bigint,
  complete_generation bigint, -- the same, if it is complete; otherwise null
  -- JSON, as text, because clients differ in what they make of a parameter of another type:
  given_quotas text,   -- counters, window_length: each quota with windows of a demand once
  settled_quotas text[], -- the quotas whose overflow counters are settled
  given_rows text,     -- counters, caller, kind: each row once, in the order of locks
  holdings text,       -- slot, held: each row of places once
  settlements text,    -- slot, window_id, less_count, less_held
  sizes int[],         -- the number of demands of each request
  given_demands text   -- as llm_quota_demand
) RETURNS text LANGUAGE plpgsql
SET lock_timeout = '1s' SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
  unlimited CONSTANT bigint := 9007199254740991;
  lease_length CONSTANT float8 := 30000;
  moment float8;
  shift float8;
  lease llm_quota_leases;
  latest_number bigint := 0;    -- of the calls of the process, if its lease has not ended
  is_freeing boolean := false;  -- whether places in the totals are held no longer
  quotas llm_quota_tracking[];
  locked_quotas text[];
  demand_quota llm_quota_tracking;
  due float8;
  rows llm_quota[];
  busy_slots int[] := '{}';     -- of rows that are there now, but locked by another call
  known_parts bigint[];         -- what the server knew that the process holds of each row
  parts bigint[];
  demands llm_quota_demand[];
  demand llm_quota_demand;
  holding record;
  settlement record;
  own llm_quota;
  slot int;
  slots int[];                  -- the row that each demand reaches
  size int;
  first int;
  last int := 0;
  may_be_unknown boolean;
  is_decided boolean;
  have_room boolean[];
  is_admitted boolean;
  granted bigint;
  decided text[];
  replies text[] := '{}';
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true); -- only if logged
  SELECT now.moment, now.shift INTO moment, shift FROM llm_quota_now(given_time) AS now;
  demands := ARRAY(
    SELECT given FROM json_populate_recordset(NULL::llm_quota_demand, given_demands::json) AS given
  );

  -- Read the lease, and lock the places. A place's row is inserted if it is missing, because only a
  -- row that is there can be locked.
  IF holder IS NOT NULL THEN
    SELECT stored.* INTO lease FROM llm_quota_leases AS stored
    WHERE stored.process = holder FOR UPDATE;
    IF call_number <= lease.number THEN
      RAISE EXCEPTION 'the call is late: the server knows a later one of this process';
    END IF;
    IF lease.ends > moment THEN
      latest_number := lease.number;
    END IF;
    -- What was stated in earlier generations only is due to be freed. Freeing that is not finished
    -- stays due.
    IF lease.complete < complete_generation THEN
      lease.frees_at := moment;
    ELSIF lease.frees_at IS NULL OR lease.frees_at = lease.ends THEN
      lease.frees_at := moment + lease_length;
    END IF;
    lease.ends := moment + lease_length;
    lease.complete := coalesce(complete_generation, lease.complete, 0);
    is_freeing := lease.frees_at <= moment
      OR EXISTS (SELECT FROM llm_quota_leases AS other WHERE other.frees_at <= moment);
    INSERT INTO llm_quota AS stored (counters, caller, kind, count, held)
    SELECT given.counters, given.caller, given.kind, 0, 0
    FROM json_populate_recordset(NULL::llm_quota, given_rows::json) AS given
    WHERE given.kind = 'places'
    ON CONFLICT (counters, caller, kind) DO UPDATE SET count = stored.count WHERE false;
  END IF;

  -- Read the counters of callers and the places. A row that is not there has no count.
  rows := ARRAY(
    SELECT coalesce(found.stored, given)
    FROM json_populate_recordset(NULL::llm_quota, given_rows::json) AS given
    LEFT JOIN LATERAL (
      SELECT stored FROM llm_quota AS stored
      WHERE stored.counters = given.counters AND stored.caller = given.caller
        AND stored.kind = given.kind AND given.kind <> 'overflow'
      FOR UPDATE
    ) AS found ON true
  );

  -- Read what belongs to all callers of the quotas, with locks for new callers, overflow counters
  -- that are settled and due sweeps. A sweep that another call is at is left to it.
  locked_quotas := ARRAY(
    SELECT settled.counters FROM unnest(settled_quotas) AS settled (counters)
    UNION
    SELECT missing.counters FROM unnest(rows) AS missing
    WHERE missing.kind = 'caller' AND missing.count IS NULL
    ORDER BY counters
  );
  IF cardinality(locked_quotas) > 0 THEN
    INSERT INTO llm_quota_tracking AS stored (counters, window_length, tracked, swept_at, sweeps)
    SELECT needed.counters, coalesce(known.window_length, given.window_length), 0, moment, 0
    FROM unnest(locked_quotas) AS needed (counters)
    LEFT JOIN LATERAL (
      SELECT tracking.window_length FROM llm_quota_tracking AS tracking
      WHERE tracking.counters = needed.counters OFFSET 0
    ) AS known ON true
    LEFT JOIN LATERAL (
      SELECT quota.window_length
      FROM json_populate_recordset(NULL::llm_quota_tracking, given_quotas::json) AS quota
      WHERE quota.counters = needed.counters
    ) AS given ON true
    WHERE coalesce(known.window_length, given.window_length) IS NOT NULL
    ON CONFLICT (counters) DO UPDATE SET tracked = stored.tracked WHERE false;
  END IF;
  quotas := ARRAY(
    SELECT coalesce(found.stored, given)
    FROM json_populate_recordset(NULL::llm_quota_tracking, given_quotas::json) AS given
    LEFT JOIN LATERAL (
      SELECT stored FROM llm_quota_tracking AS stored
      WHERE stored.counters = given.counters OFFSET 0
    ) AS found ON true
  );
  due := (SELECT min(tracking.swept_at) + 60000 FROM unnest(quotas) AS tracking);
  may_be_unknown := is_freeing;
  IF moment >= due OR cardinality(locked_quotas) > 0 THEN
    may_be_unknown := true;
    locked_quotas := locked_quotas || ARRAY(
      SELECT found.counters FROM unnest(quotas) AS given CROSS JOIN LATERAL (
        SELECT stored.counters FROM llm_quota_tracking AS stored
        WHERE stored.counters = given.counters AND stored.counters <> ALL (locked_quotas)
          AND stored.swept_at <= moment - 60000
        FOR UPDATE SKIP LOCKED
      ) AS found
    );
    -- The rows that need these locks, and those that other calls have inserted in the meantime.
    rows := ARRAY(
      SELECT coalesce(found.stored, given)
      FROM unnest(rows) AS given
      LEFT JOIN LATERAL (
        SELECT stored FROM llm_quota AS stored
        WHERE stored.counters = given.counters AND stored.caller = given.caller
          AND stored.kind = given.kind AND given.count IS NULL
          AND stored.counters = ANY (locked_quotas)
        FOR UPDATE SKIP LOCKED
      ) AS found ON true
    );
    busy_slots := ARRAY(
      SELECT missing.ordinality FROM unnest(rows) WITH ORDINALITY AS missing
      WHERE missing.kind = 'caller' AND missing.count IS NULL AND EXISTS (
        SELECT FROM llm_quota AS stored
        WHERE stored.counters = missing.counters AND stored.caller = missing.caller
          AND stored.kind = missing.kind
        OFFSET 0
      )
    );
    FOREACH demand_quota IN ARRAY quotas LOOP
      IF demand_quota.counters = ANY (locked_quotas) THEN
        rows := llm_quota_sweep(
          demand_quota.counters, moment, 1000 / cardinality(locked_quotas), rows
        );
      END IF;
    END LOOP;
    quotas := ARRAY(
      SELECT coalesce(found.stored, given)
      FROM unnest(quotas) AS given
      LEFT JOIN LATERAL (
        SELECT stored FROM llm_quota_tracking AS stored
        WHERE stored.counters = given.counters OFFSET 0
      ) AS found ON true
    );
    due := (SELECT min(tracking.swept_at) + 60000 FROM unnest(quotas) AS tracking);
  END IF;

  -- What the process holds, and settlements.
  IF holder IS NOT NULL THEN
    known_parts := ARRAY(
      SELECT coalesce(part.held, 0)
      FROM unnest(rows) AS given
      LEFT JOIN LATERAL (
        SELECT stored.held FROM llm_quota_places AS stored
        WHERE stored.process = holder AND stored.counters = given.counters
          AND stored.caller = given.caller AND given.kind = 'places'
        OFFSET 0
      ) AS part ON true
    );
    parts := known_parts;
    FOR holding IN
      SELECT * FROM json_to_recordset(holdings::json) AS given (slot int, held bigint)
    LOOP
      slot := holding.slot;
      parts[slot] := holding.held;
      rows[slot].count := greatest(0, rows[slot].count + holding.held - known_parts[slot]);
      rows[slot].held := rows[slot].count;
    END LOOP;
  END IF;
  FOR settlement IN
    SELECT * FROM json_to_recordset(settlements::json)
      AS given (slot int, window_id bigint, less_count bigint, less_held bigint)
  LOOP
    own := rows[settlement.slot];
    IF own.window_id = settlement.window_id THEN
      own.count := greatest(0, own.count - settlement.less_count);
      own.held := greatest(0, least(own.count, own.held - settlement.less_held));
      rows[settlement.slot] := own;
    END IF;
  END LOOP;

  -- Decide on the requests.
  FOREACH size IN ARRAY sizes LOOP
    first := last + 1;
    last := last + size;
    is_decided := true;
    IF may_be_unknown THEN
      FOR each IN first .. last LOOP
        demand := demands[each];
        own := rows[demand.slot];
        IF own.kind = 'places' THEN
          is_decided := is_decided AND (
            NOT is_freeing OR llm_quota_has_room(own.count, demand.least, demand.quota_limit)
          );
        ELSIF own.count IS NULL THEN
          -- During a sweep, whether the caller cap is reached is yet to be known.
          is_decided := is_decided AND own.counters = ANY (locked_quotas)
            AND demand.slot <> ALL (busy_slots)
            AND (quotas[demand.quota].tracked < cap OR quotas[demand.quota].unswept IS NULL);
        END IF;
      END LOOP;
    END IF;
    IF NOT is_decided THEN
      replies := array_append(replies, 'null');
      CONTINUE;
    END IF;

    is_admitted := true;
    FOR each IN first .. last LOOP
      demand := demands[each];
      slot := demand.slot;
      IF rows[slot].count IS NULL THEN
        IF quotas[demand.quota].tracked < cap THEN
          quotas[demand.quota].tracked := quotas[demand.quota].tracked + 1;
        ELSE
          slot := demand.overflow_slot;
        END IF;
      END IF;
      own := rows[slot];
      own.last_seen := greatest(own.last_seen, moment);
      IF own.kind <> 'places' AND NOT llm_quota_is_open(
        own.ends, own.last_seen, demand.window_end
      ) THEN
        own.count := 0;
        own.held := 0;
        own.ends := coalesce(demand.window_end, own.last_seen + demand.window_length);
        own.is_zoned := demand.window_end IS NOT NULL;
        own.window_id := floor(random() * unlimited);
      END IF;
      rows[slot] := own;
      slots[each] := slot;
      have_room[each] := llm_quota_has_room(own.count, demand.least, demand.quota_limit);
      is_admitted := is_admitted AND have_room[each];
    END LOOP;

    decided := '{}';
    FOR each IN first .. last LOOP
      demand := demands[each];
      slot := slots[each];
      own := rows[slot];
      granted := 0;
      IF is_admitted THEN
        granted := CASE WHEN demand.quota_limit = unlimited THEN demand.most
          ELSE greatest(0, least(demand.most, demand.quota_limit - own.count)) END;
        own.count := least(unlimited, own.count + granted);
        IF demand.is_estimate THEN
          own.held := least(unlimited, own.held + granted);
        END IF;
        rows[slot] := own;
        IF own.kind = 'places' THEN
          parts[slot] := parts[slot] + granted;
        END IF;
      END IF;
      decided := array_append(
        decided, llm_quota_decided(own, granted, have_room[each])
      );
    END LOOP;
    replies := array_append(replies, '[' || array_to_string(decided, ',') || ']');
  END LOOP;

  -- Write.
  INSERT INTO llm_quota AS stored
  SELECT changed.* FROM unnest(rows) AS changed WHERE changed.count IS NOT NULL
  ON CONFLICT (counters, caller, kind) DO UPDATE SET
    count = excluded.count, held = excluded.held, last_seen = excluded.last_seen,
    ends = excluded.ends, is_zoned = excluded.is_zoned, window_id = excluded.window_id;
  IF cardinality(locked_quotas) > 0 THEN
    UPDATE llm_quota_tracking AS stored SET tracked = changed.tracked
    FROM unnest(quotas) AS changed
    WHERE stored.counters = changed.counters AND stored.counters = ANY (locked_quotas);
  END IF;
  IF holder IS NOT NULL THEN
    INSERT INTO llm_quota_places AS stored (process, counters, caller, held, generation)
    SELECT holder, changed.counters, changed.caller, parts[changed.ordinality], call_generation
    FROM unnest(rows) WITH ORDINALITY AS changed
    WHERE changed.kind = 'places' AND parts[changed.ordinality] > 0
    ON CONFLICT (process, counters, caller) DO UPDATE
      SET held = excluded.held, generation = excluded.generation
      WHERE stored.held <> excluded.held OR stored.generation <> excluded.generation;
    DELETE FROM llm_quota_places AS stored WHERE stored.ctid = ANY (ARRAY(
      SELECT found.place FROM unnest(rows) WITH ORDINALITY AS changed CROSS JOIN LATERAL (
        SELECT free.ctid AS place FROM llm_quota_places AS free
        WHERE free.process = holder AND free.counters = changed.counters
          AND free.caller = changed.caller AND changed.kind = 'places'
          AND parts[changed.ordinality] = 0
        OFFSET 0
      ) AS found
    ));
    DELETE FROM llm_quota AS stored WHERE stored.ctid = ANY (ARRAY(
      SELECT found.place FROM unnest(rows) AS changed CROSS JOIN LATERAL (
        SELECT empty.ctid AS place FROM llm_quota AS empty
        WHERE empty.counters = changed.counters AND empty.caller = changed.caller
          AND empty.kind = 'places' AND changed.kind = 'places' AND changed.count = 0
        OFFSET 0
      ) AS found
    ));
    IF EXISTS (SELECT FROM llm_quota_places AS part WHERE part.process = holder) THEN
      INSERT INTO llm_quota_leases AS stored (process, number, ends, complete, frees_at)
      VALUES (holder, call_number, lease.ends, lease.complete, lease.frees_at)
      ON CONFLICT (process) DO UPDATE SET number = excluded.number, ends = excluded.ends,
        complete = excluded.complete, frees_at = excluded.frees_at
      WHERE stored.number < excluded.number;
      IF NOT FOUND THEN
        RAISE EXCEPTION 'the call is late: the server knows a later one of this process';
      END IF;
    ELSE
      DELETE FROM llm_quota_leases AS stored WHERE stored.process = holder;
    END IF;
    IF is_freeing THEN
      PERFORM llm_quota_free_places(moment);
    END IF;
  END IF;
  RETURN format(
    '{"clock":[%s,%s,%s],"latestNumber":%s,"decided":[%s]}',
    moment - shift, least(moment + 100, due) - shift, shift,
    latest_number, array_to_string(replies, ',')
  );
END $function$;

-- Decides on a single demand of a fixed cost as above; on a known caller with room, between the
-- times of an earlier reply, at half the cost.
CREATE OR REPLACE FUNCTION llm_quota_decide_one(
  given_time float8,
  since float8,
  until float8,
  shift float8,
  cap bigint,
  quota text,
  key text,
  quota_limit bigint,
  cost bigint,
  held_cost bigint,    -- the cost of an estimate, otherwise 0
  length float8,
  finish float8
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' SET enable_seqscan = off
AS $function$
DECLARE
  clock CONSTANT float8 := coalesce(given_time, date_part('epoch', clock_timestamp()) * 1000);
  moment CONSTANT float8 := clock + shift;
  reply text;
BEGIN
  IF clock >= since AND clock < until
    AND current_setting('transaction_isolation') = 'read committed'
  THEN
    PERFORM set_config('synchronous_commit', 'off', true); -- only if logged
    UPDATE llm_quota AS stored
    SET count = stored.count + cost, held = stored.held + held_cost,
      last_seen = greatest(stored.last_seen, moment)
    WHERE stored.counters = quota AND stored.caller = key AND stored.kind = 'caller'
      AND llm_quota_has_room(stored.count, cost, quota_limit)
      AND stored.count + cost <= 9007199254740991
      AND llm_quota_is_open(stored.ends, moment, finish)
    RETURNING llm_quota_decided(stored, cost, true) INTO reply;
    IF FOUND THEN
      RETURN format('{"clock":null,"latestNumber":0,"decided":[[%s]]}', reply);
    END IF;
  END IF;
  RETURN llm_quota_decide(
    given_time, cap, NULL, NULL, NULL, NULL,
    json_build_array(json_build_object('counters', quota, 'window_length', length))::text, '{}',
    json_build_array(
      json_build_object('counters', quota, 'caller', key, 'kind', 'caller'),
      json_build_object('counters', quota, 'caller', '', 'kind', 'overflow')
    )::text,
    '[]', '[]', '{1}',
    json_build_array(json_build_object(
      'quota', 1, 'slot', 1, 'overflow_slot', 2, 'quota_limit', quota_limit, 'least', cost,
      'most', cost, 'is_estimate', held_cost > 0, 'window_length', length, 'window_end', finish
    ))::text
  );
END $function$;

-- Returns how many places of a caller are held no longer, although they are still in the total.
CREATE OR REPLACE FUNCTION llm_quota_freed(quota text, key text, moment float8) RETURNS bigint
LANGUAGE sql STABLE AS $function$
  SELECT coalesce(sum(freed.held), 0)::bigint
  FROM llm_quota_leases AS lease CROSS JOIN LATERAL (
    SELECT part.held FROM llm_quota_places AS part
    WHERE part.process = lease.process AND part.counters = quota AND part.caller = key
      AND (lease.ends <= moment OR part.generation < lease.complete)
    OFFSET 0
  ) AS freed
  WHERE lease.frees_at <= moment
$function$;

-- Returns how many counters a sweep would delete now, or has yet to delete.
CREATE OR REPLACE FUNCTION llm_quota_dead(tracking llm_quota_tracking, moment float8)
RETURNS bigint LANGUAGE plpgsql STABLE AS $function$
BEGIN
  IF moment - tracking.swept_at >= 60000 THEN
    tracking.swept_at := moment;
    tracking.unswept := '';
  END IF;
  RETURN (
    SELECT count(*) FROM llm_quota AS stored
    WHERE stored.counters = tracking.counters AND stored.kind = 'caller'
      AND stored.caller >= tracking.unswept
      AND llm_quota_is_dead(stored.last_seen, tracking.swept_at, tracking.window_length)
  );
END $function$;

-- Returns the counter that a demand would reach now, as above; null for a new window.
CREATE OR REPLACE FUNCTION llm_quota_peek(
  given_time float8, cap bigint, quota text, key text, length float8, finish float8
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
DECLARE
  moment CONSTANT float8 := (llm_quota_now(given_time)).moment;
  tracking llm_quota_tracking;
  own llm_quota;
BEGIN
  IF length IS NULL THEN
    SELECT stored.* INTO own FROM llm_quota AS stored
    WHERE stored.counters = quota AND stored.caller = key AND stored.kind = 'places';
    own.kind := 'places';
    own.count := greatest(0, coalesce(own.count, 0) - llm_quota_freed(quota, key, moment));
    own.held := own.count;
    RETURN llm_quota_decided(own, 0, NULL);
  END IF;

  SELECT stored.* INTO own FROM llm_quota AS stored
  WHERE stored.counters = quota AND stored.caller = key AND stored.kind = 'caller';
  IF NOT FOUND THEN
    SELECT stored.* INTO tracking FROM llm_quota_tracking AS stored WHERE stored.counters = quota;
    IF tracking.tracked >= cap AND llm_quota_dead(tracking, moment) = 0 THEN
      SELECT stored.* INTO own FROM llm_quota AS stored
      WHERE stored.counters = quota AND stored.caller = '' AND stored.kind = 'overflow';
    END IF;
  END IF;
  own.last_seen := greatest(own.last_seen, moment);
  IF NOT llm_quota_is_open(own.ends, own.last_seen, finish) THEN
    RETURN NULL;
  END IF;
  RETURN llm_quota_decided(own, 0, NULL);
END $function$;

CREATE OR REPLACE FUNCTION llm_quota_forget(quota text, key text) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
BEGIN
  PERFORM FROM llm_quota AS stored
  WHERE stored.counters = quota AND stored.caller = key AND stored.kind = 'caller' FOR UPDATE;
  IF FOUND THEN
    UPDATE llm_quota_tracking AS stored SET tracked = stored.tracked - 1
    WHERE stored.counters = quota;
    DELETE FROM llm_quota AS stored
    WHERE stored.counters = quota AND stored.caller = key AND stored.kind = 'caller';
  END IF;
END $function$;

-- Returns a page of callers as JSON, from one caller on.
CREATE OR REPLACE FUNCTION llm_quota_list(
  given_time float8, given_date float8, quota text, first_caller text
) RETURNS text LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
DECLARE
  after_all CONSTANT text COLLATE "C" := chr(127); -- greater than each name
  moment CONSTANT float8 := (llm_quota_now(given_time)).moment;
  next_caller text COLLATE "C";
BEGIN
  next_caller := (
    SELECT stored.caller FROM llm_quota AS stored
    WHERE stored.counters = quota AND stored.caller >= first_caller AND stored.kind <> 'overflow'
    ORDER BY stored.caller OFFSET 1000 LIMIT 1
  );
  RETURN (
    SELECT json_build_object('cursor', next_caller, 'callers', coalesce(json_agg(
      json_build_object(
        'callerKey', listed.caller, 'count', listed.count, 'held', listed.held,
        'rest', CASE WHEN NOT listed.is_zoned THEN listed.ends - listed.last_seen END,
        'end', CASE WHEN listed.is_zoned THEN listed.ends END
      )
    ), '[]'))
    FROM (
      SELECT stored.caller, stored.count, stored.held, stored.ends, stored.is_zoned,
        greatest(stored.last_seen, moment) AS last_seen
      FROM llm_quota AS stored
      WHERE stored.counters = quota AND stored.kind = 'caller'
        AND stored.caller >= first_caller AND stored.caller < coalesce(next_caller, after_all)
      UNION ALL
      SELECT stored.caller, stored.count - freed.held, stored.held - freed.held, NULL, NULL, NULL
      FROM llm_quota AS stored
      CROSS JOIN LATERAL (SELECT llm_quota_freed(quota, stored.caller, moment) AS held) AS freed
      WHERE stored.counters = quota AND stored.kind = 'places' AND stored.count > freed.held
        AND stored.caller >= first_caller AND stored.caller < coalesce(next_caller, after_all)
    ) AS listed
    WHERE listed.ends IS NULL
      OR listed.ends > CASE WHEN listed.is_zoned THEN given_date ELSE listed.last_seen END
  );
END $function$;

-- Returns the number of callers, without those that a sweep has yet to delete or whose places are
-- held no longer, and the number of sweeps, as JSON; as of the latest time that is known.
CREATE OR REPLACE FUNCTION llm_quota_inspect(quota text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
DECLARE
  moment CONSTANT float8 := (SELECT clock.latest FROM llm_quota_clock AS clock WHERE clock.one);
  with_places CONSTANT bigint := (
    SELECT count(*) FROM llm_quota AS stored
    WHERE stored.counters = quota AND stored.kind = 'places'
      AND stored.count > llm_quota_freed(quota, stored.caller, moment)
  );
  tracking llm_quota_tracking;
BEGIN
  SELECT stored.* INTO tracking FROM llm_quota_tracking AS stored WHERE stored.counters = quota;
  RETURN json_build_object(
    'trackedCallers', with_places + coalesce(
      tracking.tracked - llm_quota_dead(tracking, tracking.swept_at), 0
    ),
    'sweeps', coalesce(tracking.sweeps, 0)
  );
END $function$;

-- The lock lets only readers pass. The tables are in the order in which calls write to them.
CREATE OR REPLACE FUNCTION llm_quota_clear() RETURNS void
LANGUAGE plpgsql SET lock_timeout = '1s' AS $function$
BEGIN
  LOCK TABLE llm_quota_clock, llm_quota_leases, llm_quota, llm_quota_tracking, llm_quota_places
    IN EXCLUSIVE MODE;
  DELETE FROM llm_quota_clock;
  DELETE FROM llm_quota_leases;
  DELETE FROM llm_quota;
  DELETE FROM llm_quota_tracking;
  DELETE FROM llm_quota_places;
END $function$;

-- The store looks for this function before its first decision.
CREATE OR REPLACE FUNCTION llm_quota_version_5() RETURNS void LANGUAGE sql AS '';
END $schema$;
