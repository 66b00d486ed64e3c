// Mutants of the scripts in Lua and SQL: in which file of lib a text is replaced, and which test
// finds it, by its file and the names from the outermost test to the one that fails.

const redisContract = {
  test: 'test/servers/redis-contract.test.ts',
  outer: 'the Redis store passes each check of quotaStoreContract'
}
const postgresContract = {
  test: 'test/stores/postgres.test.ts',
  outer: 'the store passes each check of quotaStoreContract'
}

/** A mutant that a rule of quotaStoreContract finds. */
function byRule ({ test, outer }, rule) {
  return { test, foundBy: [outer, rule] }
}

/** A mutant that a test finds. */
function byTest (test, name) {
  return { test, foundBy: [name] }
}

const lua = [
  {
    file: 'store/redis/decide.lua',
    what: 'a cost of 0 needs no room',
    from: 'limit - math.max(least, 1)',
    to: 'limit - least',
    ...byRule(redisContract, 'a cost of 0 needs room for 1 and adds nothing, but opens the window')
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a window is open a millisecond longer',
    from: 'not ends and now >= counter.ends',
    to: 'not ends and now > counter.ends',
    ...byRule(
      redisContract,
      'a request after the previous window opens one, and no later request extends it'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a new window holds what the last one did',
    from: '    counter.held = 0\n',
    to: '',
    ...byRule(
      redisContract,
      'a settlement takes back only in the window that counted, and adds to the window that is open'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a settlement changes any window',
    from: 'if counter and counter.id == settlement.windowId then',
    to: 'if counter then',
    ...byRule(
      redisContract,
      'a settlement takes back only in the window that counted, and adds to the window that is open'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'the overflow counter that is settled is not written',
    from: '      counter = overflowOf(quota)\n      quota.isChanged = true\n',
    to: '      counter = overflowOf(quota)\n',
    ...byRule(redisContract, 'settles on the counter that has counted')
  },
  {
    file: 'store/redis/decide.lua',
    what: 'all that is asked for is granted',
    from: 'return room > 0 and room or 0',
    to: 'return demand.most',
    ...byRule(
      redisContract,
      'grants as much as there is room for, from the least to the most of a request'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a demand with room is counted beside one without',
    from: 'local granted = isAdmitted and grantOf(demand) or 0',
    to: 'local granted = demand.hasRoom and grantOf(demand) or 0',
    ...byRule(
      redisContract,
      'counts and holds no demand of a request if one of them has no room, whichever it is'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'one caller more than the cap is tracked',
    from: 'if quota.callers < cap then',
    to: 'if quota.callers <= cap then',
    ...byRule(
      redisContract,
      'tracks no more callers than the cap, even at once; others share the overflow counter'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'when a caller was last seen is not noted',
    from: '  counter.lastSeen = now\n',
    to: '',
    ...byRule(
      redisContract,
      'a sweep removes a caller one window and 60 s after its last request, before a lookup'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'the windows of a time zone are not known as such',
    from: '    if ends then quota.isZoned = 1 end\n',
    to: '',
    ...byRule(redisContract, 'peek, list, forget and settlements follow the windows of a time zone')
  },
  {
    file: 'store/redis/decide.lua',
    what: 'the windows do not expire',
    from: "if isExpiring then redis.call('PEXPIRE', WINDOWS, retention + SWEEP_INTERVAL) end\n",
    to: '',
    ...byTest(
      'test/servers/redis-store.test.ts',
      'a shard has two keys, which begin with the prefix, contain digests only, and expire'
    )
  },
  {
    file: 'store/redis/layout.part.lua',
    what: 'sweeps are a millisecond later',
    from: 'SWEEP_INTERVAL <const> = 60000',
    to: 'SWEEP_INTERVAL <const> = 60001',
    ...byRule(redisContract, 'sweeps 60 s after the previous sweep, and no earlier')
  },
  {
    file: 'store/redis/layout.part.lua',
    what: 'the time runs backwards with the clock',
    from: 'clock.latest = math.max(time + clock.offset, clock.latest)',
    to: 'clock.latest = time + clock.offset',
    ...byTest(
      'test/servers/redis-clock-set-back.test.ts',
      'a window does not become longer, and no wait negative, if the clock is set back by ' +
        '1000 ms after a decision'
    )
  },
  {
    file: 'store/redis/layout.part.lua',
    what: 'ids of windows begin anew when the server has lost them',
    from: 'clock.lastId = math.max(clock.lastId, microseconds)',
    to: 'clock.lastId = clock.lastId',
    ...byTest(
      'test/servers/redis-store.test.ts',
      'nothing is given back in a window that opened at the same time after the counters were lost'
    )
  },
  {
    file: 'store/redis/sweep.part.lua',
    what: 'a caller is removed a sweep late',
    from: 'quota.sweptAt - lastSeen >= quota.retention then',
    to: 'quota.sweptAt - lastSeen > quota.retention then',
    ...byRule(
      redisContract,
      'a sweep removes a caller one window and 60 s after its last request, before a lookup'
    )
  },
  {
    file: 'store/redis/forget.lua',
    what: 'a caller that is forgotten leaves no room for another',
    from: 'quota.callers = quota.callers - 1\n',
    to: '',
    ...byRule(redisContract, 'forget makes room for one other caller if the caller has a counter')
  },
  {
    file: 'store/redis/list.lua',
    what: 'a window that is over is listed',
    from: 'elseif counter.ends > now then',
    to: 'elseif counter.ends >= now then',
    ...byRule(
      redisContract,
      'list returns each caller whose own counter in the quota has an open window, and no other'
    )
  },
  {
    file: 'store/redis/places.part.lua',
    what: 'a lease lasts a millisecond longer',
    from: 'process.ends = now + LEASE\n',
    to: 'process.ends = now + LEASE + 1\n',
    ...byTest(
      'test/servers/redis-places.test.ts',
      'the places of an ended process are free within 30 s, and nothing stays'
    )
  },
  {
    file: 'store/redis/places.part.lua',
    what: 'a late call is done',
    from: 'if process and lease.number <= process.number then',
    to: 'if process and lease.number < 0 then',
    ...byTest(
      'test/servers/redis-places.test.ts',
      'a late call neither takes a place nor changes how many a later one has written'
    )
  },
  {
    file: 'store/redis/places.part.lua',
    what: 'a lease that a late call has begun is taken for that of the call before',
    from: 'and process.number or 0',
    to: 'and lease.number - 1 or 0',
    ...byTest(
      'test/servers/redis-places.test.ts',
      'a process states its places again after a late call has begun another lease'
    )
  },
  {
    file: 'store/redis/places.part.lua',
    what: 'a process that resumes while its places are cleaned holds those as well',
    from: 'owner.held = owner.held - held',
    to: 'owner.held = owner.held',
    ...byTest(
      'test/servers/redis-places.test.ts',
      'nothing stays of a process that resumes while its ended lease is being cleaned'
    )
  },
  {
    file: 'store/redis/places.part.lua',
    what: 'what was stated in an earlier generation stays',
    from: 'if not isAlive or generation < owner.generation then',
    to: 'if not isAlive then',
    ...byTest(
      'test/servers/redis-places.test.ts',
      'a lost reply loses no place for good, and takes none for good'
    )
  }
]

const sql = [
  {
    file: 'store/postgres/schema.sql',
    what: 'a window is open a millisecond longer',
    from: 'coalesce(ends > coalesce(present_start, moment), false)',
    to: 'coalesce(ends >= coalesce(present_start, moment), false)',
    ...byRule(
      postgresContract,
      'a request after the previous window opens one, and no later request extends it'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a cost of 0 needs no room',
    from: 'count + greatest(at_least, 1) <= quota_limit',
    to: 'count + at_least <= quota_limit',
    ...byRule(
      postgresContract,
      'a cost of 0 needs room for 1 and adds nothing, but opens the window'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a sweep removes a caller a millisecond late',
    from: 'page.dead_from <= swept_at',
    to: 'page.dead_from < swept_at',
    ...byRule(
      postgresContract,
      'a sweep removes a caller one window and 60 s after its last request, before a lookup'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'sweeps are a millisecond late',
    from: '  IF moment - sweep.swept_at >= 60000 THEN',
    to: '  IF moment - sweep.swept_at > 60000 THEN',
    ...byRule(postgresContract, 'sweeps 60 s after the previous sweep, and no earlier')
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a sweep removes the overflow counter',
    from: ' AND page.caller <> \'"overflow"\'\n',
    to: '\n',
    ...byTest(
      postgresContract.test,
      'a sweep leaves the overflow counter, which is no tracked caller'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'callers that a sweep has removed stay in their number',
    from: 'SET tracked = stored.tracked - deleted,',
    to: 'SET tracked = stored.tracked,',
    ...byRule(
      postgresContract,
      'a sweep makes room for a caller that uses an overflow counter with an open window'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'one caller more than the cap is tracked',
    from: 'AND quota.tracked < cap;',
    to: 'AND quota.tracked <= cap;',
    ...byRule(
      postgresContract,
      'tracks no more callers than the cap, also in a race; others share the overflow counter'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a forgotten caller stays in the number',
    from: 'SET tracked = stored.tracked - 1',
    to: 'SET tracked = stored.tracked',
    ...byRule(
      postgresContract,
      'forget makes room for one other caller if the caller has a counter'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a new window counts what the last one did',
    from: 'DO UPDATE SET count = 0, held = 0,',
    to: 'DO UPDATE SET held = 0,',
    ...byRule(
      postgresContract,
      'a request after the previous window opens one, and no later request extends it'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a settlement changes any window',
    from: '\n        AND stored.window_id = given.window_id;',
    to: ';',
    ...byRule(postgresContract, 'a settlement changes the window that counted, and no other')
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a settlement holds what it did',
    from: 'stored.held - llm_quota_less(given.less_held, stored.period)',
    to: 'stored.held',
    ...byRule(
      postgresContract,
      'holds an estimate until it is settled, and then counts what was used'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a settlement ends what the period before holds',
    from: 'llm_quota_less(given.less_held, stored.period - 1)',
    to: 'llm_quota_less(given.less_held, stored.period)',
    ...byRule(
      postgresContract,
      'a settlement ends what is held in the period that admitted it, and in no other'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'what is held is forgotten after one period',
    from: '    WHEN 1 THEN own.held\n',
    to: '',
    ...byRule(
      postgresContract,
      'holds an estimate in the period of ten minutes that admitted it, and in the next one'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a demand with room is counted beside one without',
    from: '    IF is_admitted THEN\n      granted :=',
    to: '    IF has_room THEN\n      granted :=',
    ...byRule(
      postgresContract,
      'counts and holds no demand of a request if one of them has no room, whichever it is'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'the time runs backwards with the clock',
    from: '    moment := latest;\n',
    to: '',
    ...byTest(
      postgresContract.test,
      'a window that opens at once after the clock was set back is as long as any'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'an id of a window is used again',
    from: 'floor(random() * 9007199254740991), 0',
    to: '1, 0',
    ...byTest(
      postgresContract.test,
      'nothing is given back in a window that opened at the same time after the counters were lost'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a grant is negative',
    from: 'ELSE greatest(0, least(demand.most, demand.quota_limit - own.count)) END;',
    to: 'ELSE least(demand.most, demand.quota_limit - own.count) END;',
    ...byTest(
      postgresContract.test,
      'callers of one request who share the overflow counter are granted nothing below 0'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'the second demand does not see what the first has counted in the overflow counter',
    from: '    IF own.caller = \'"overflow"\' THEN',
    to: '    IF false THEN',
    ...byTest(
      postgresContract.test,
      'callers of one request who share the overflow counter are granted nothing below 0'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a sweep that is under way ends with its first page',
    from: '    unswept = next_unswept\n',
    to: '    unswept = NULL\n',
    ...byTest(
      postgresContract.test,
      'a call sweeps 1,000 counters; at the cap, a new caller uses the overflow counter until then'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a counter is kept for its latest window instead of its longest',
    from: 'greatest(stored.dead_from, moment + demand.window_length + 60000)',
    to: 'moment + demand.window_length + 60000',
    ...byTest(
      postgresContract.test,
      'a counter is kept as long as its window, whatever sweeps it'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a place counts a millisecond longer',
    from: 'place.caller = demand.caller AND place.ends > moment',
    to: 'place.caller = demand.caller AND place.ends >= moment',
    ...byTest(
      postgresContract.test,
      'the places of a process that was killed are free when they end, no later'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a place lasts 15 s longer',
    from: 'demand.place, moment + 30000)',
    to: 'demand.place, moment + 45000)',
    ...byTest(
      postgresContract.test,
      'a call that is late or lost leaves a place taken for 30 s at most'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a renewed place lasts 15 s longer',
    from: 'held.name, moment + 30000',
    to: 'held.name, moment + 45000',
    ...byTest(
      postgresContract.test,
      'the places of a process that was killed are free when they end, no later'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a renewal takes no place',
    from: 'DO UPDATE SET ends = excluded.ends;',
    to: 'DO NOTHING;',
    ...byTest(
      postgresContract.test,
      'a renewal keeps a place for 30 s, and takes it again if it was lost'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'places of any name are freed',
    from: '\n        AND place.name = given.name;',
    to: ';',
    ...byTest(
      postgresContract.test,
      'a call that the server gets twice takes a place once and frees it once'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a repeated request counts its own place',
    from: '\n    AND place.name IS DISTINCT FROM demand.place;',
    to: ';',
    ...byTest(
      postgresContract.test,
      'a call that the server gets twice takes a place once and frees it once'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'places that have ended go only once',
    from: 'IF now.moment / 1000 > now.latest / 1000 THEN',
    to: 'IF now.moment - now.latest > 10000 THEN',
    ...byTest(
      postgresContract.test,
      'places that have ended do not count, and go, 1,000 in a second'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a request without room takes a place',
    from: '    ELSIF is_admitted THEN\n',
    to: '    ELSE\n',
    ...byTest(postgresContract.test, 'a rejected request takes no place')
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'the overflow counter is a caller',
    from: 'owner := \'"overflow"\';',
    to: "owner := '';",
    ...byTest(
      postgresContract.test,
      'no name of a caller or of counters meets what the store keeps beside the callers'
    )
  }
]

/** All of them. */
export const mutants = [...lua, ...sql]
