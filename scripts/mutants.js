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
    from: 'moment < ends, false)',
    to: 'moment <= ends, false)',
    ...byRule(
      postgresContract,
      'a request after the previous window opens one, and no later request extends it'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a sweep removes a caller a millisecond late',
    from: 'swept_at - last_seen >= window_length + 60000',
    to: 'swept_at - last_seen > window_length + 60000',
    ...byRule(
      postgresContract,
      'a sweep removes a caller one window and 60 s after its last request, before a lookup'
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
    what: 'a settlement holds what it did',
    from: '      own.held := greatest(0, least(own.count, own.held - settlement.less_held));\n',
    to: '',
    ...byRule(
      postgresContract,
      'holds an estimate until it is settled, and then counts what was used'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a demand with room is counted beside one without',
    from: 'IF is_admitted THEN\n        granted :=',
    to: 'IF have_room[each] THEN\n        granted :=',
    ...byRule(
      postgresContract,
      'counts and holds no demand of a request if one of them has no room, whichever it is'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'the short way asks for no room',
    from: '      AND llm_quota_has_room(stored.count, cost, quota_limit)\n',
    to: '',
    ...byRule(
      postgresContract,
      'counts each caller separately, up to the limit of each request, and no rejected request'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'the time runs backwards with the clock',
    from: '    moment := greatest(moment, known_latest);\n',
    to: '',
    ...byTest(
      postgresContract.test,
      'a window that opens at once after the clock was set back is as long as any'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'an id of a window is used again',
    from: 'own.window_id := floor(random() * unlimited);',
    to: 'own.window_id := 1;',
    ...byTest(
      postgresContract.test,
      'nothing is given back in a window that opened at the same time after the counters were lost'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a lease that has ended is known',
    from: 'IF lease.ends > moment THEN',
    to: 'IF lease.ends IS NOT NULL THEN',
    ...byTest(
      postgresContract.test,
      'a process whose lease has ended is told so if its own call is the next one'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a counter that a sweep has removed keeps the end of its window',
    from: '      given_rows[slot].ends := NULL;\n',
    to: '',
    ...byTest(
      postgresContract.test,
      'a counter that a sweep has removed opens a new window, even with the same end'
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
    what: 'what was stated in an earlier generation stays',
    from: 'lease.complete := coalesce(complete_generation, lease.complete, 0);',
    to: 'lease.complete := coalesce(lease.complete, 0);',
    ...byTest(
      postgresContract.test,
      'what a process does not state in a new generation is free once it is complete'
    )
  }
]

/** All of them. */
export const mutants = [...lua, ...sql]
