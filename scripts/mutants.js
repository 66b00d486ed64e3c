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
    from: 'counter.count + math.max(least, 1) <= limit',
    to: 'counter.count + least <= limit',
    ...byRule(
      redisContract,
      'a cost of 0 needs room for 1 and adds nothing, but opens the window'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a window is open a millisecond longer',
    from: 'if counter.ends <= (ends > 0 and starts or now) then',
    to: 'if counter.ends < (ends > 0 and starts or now) then',
    ...byRule(
      redisContract,
      'a request after the previous window opens one, and no later request extends it'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a day of another time zone opens a window before the last one has ended',
    from: '(ends > 0 and starts or now)',
    to: '(ends > 0 and ends - 1 or now)',
    ...byRule(
      redisContract,
      'a caller whose time zone changes gets no second window for the same hours'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a new window holds what the last one did',
    from: 'counter.count, counter.held, counter.heldBefore = 0, 0, 0',
    to: 'counter.count = 0',
    ...byRule(redisContract, 'a settlement changes the window that counted, and no other')
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a settlement changes any window',
    from: 'if counter and counter.id == id then',
    to: 'if counter then',
    ...byRule(redisContract, 'a settlement changes the window that counted, and no other')
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a settlement ends what is held of any period',
    from: "settled == period and 'held' or settled == period - 1 and 'heldBefore'",
    to: "'held'",
    ...byRule(
      redisContract,
      'a settlement ends what is held in the period that admitted it, and in no other'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'all that is asked for is granted',
    from: 'or math.max(0, math.min(demand.most, demand.limit - counter.count))',
    to: 'or demand.most',
    ...byRule(
      redisContract,
      'grants as much as there is room for, from the least to the most of a request'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a demand with room is counted beside one without',
    from: '    if isAdmitted then\n',
    to: '    if demand.hasRoom then\n',
    ...byRule(
      redisContract,
      'counts and holds no demand of a request if one of them has no room, whichever it is'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'one caller more than the cap is tracked',
    from: 'quota.tracked < cap then',
    to: 'quota.tracked <= cap then',
    ...byRule(
      redisContract,
      'tracks no more callers than the cap, also in a race; others share the overflow counter'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'when a caller was last seen is not noted',
    from: 'counter.lastSeen, counter.isChanged = now, true',
    to: 'counter.isChanged = true',
    ...byRule(
      redisContract,
      'a sweep removes a caller one window and 60 s after its last request, before a lookup'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'the windows of a time zone are not known as such',
    from: 'quota.retention, quota.isZoned = window + MINUTE, isZoned',
    to: 'quota.retention = window + MINUTE',
    ...byRule(
      redisContract,
      'peek, list, forget and settlements follow the windows of a time zone'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'the counters do not expire',
    from: '    redis.call(\'PEXPIRE\', quota.key, quota.expires - now)\n',
    to: '',
    ...byTest(
      'test/servers/redis-store.test.ts',
      'the keys of a shard begin with the prefix, contain digests only, and expire'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a shard expires with the quota that was used last',
    from: 'local isExpiring = now + keep > shardExpires',
    to: 'local isExpiring = true',
    ...byTest(
      'test/servers/redis-store.test.ts',
      "a month's count is not lost because of a minute's quota"
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'counters that were lost have no new expiry',
    from: '    quota.expires = NEVER\n',
    to: '',
    ...byTest(
      'test/servers/redis-lost-keys.test.ts',
      "with the server's clock, decisions go on after a loss, and keys expire"
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'counters of a clock that was lost stay',
    from: "  if not text then redis.call('UNLINK', quota.key) end\n",
    to: '',
    ...byTest(
      'test/servers/redis-clock-set-back.test.ts',
      'a window does not become longer if the server then loses its clock'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a sweep looks at the first page only',
    from: "page[1] == '0' and -1 or tonumber(page[1])",
    to: '-1',
    ...byTest(
      'test/servers/redis-store-pages.test.ts',
      'a sweep makes nobody wait: each call looks at a thousand counters'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a freed place stays taken',
    from: "elseif redis.call('ZREM', holder.key, place) == 1 and",
    to: "elseif redis.call('EXISTS', holder.key) == 1 and",
    ...byRule(
      redisContract,
      'takes a place if there are fewer concurrent requests than the limit, and frees it once'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a caller stays listed when its last place is free',
    from: '    redis.call(\'ZREM\', holder.callersKey, holder.caller)\n',
    to: '',
    ...byTest(
      'test/servers/redis-places.test.ts',
      'a caller is listed and counted until its last place is free'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'only a thousand ended places are ever removed',
    from: 'local removed = math.min(ended, removable)',
    to: 'local removed = ended > PAGE and 0 or math.min(ended, removable)',
    ...byTest(
      'test/servers/redis-places.test.ts',
      'every ended place of a caller is removed, a thousand with each call'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'ended callers of a quota stay',
    from: '  countNotEnded(KEYS[1 + position])\n',
    to: '',
    ...byTest(
      'test/servers/redis-places.test.ts',
      'every ended caller of a quota is removed, a thousand with each call'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'the places of a caller do not expire',
    from: '  redis.call(\'PEXPIRE\', holder.key, PLACE_DURATION)\n',
    to: '',
    ...byTest(
      'test/servers/redis-places.test.ts',
      'each key of places expires after 30 s, and with the last place'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a renewal does not take a place again',
    from: '    hold(holder, place)\n',
    to: "    if redis.call('EXISTS', holder.key) == 1 then hold(holder, place) end\n",
    ...byTest(
      'test/servers/redis-places.test.ts',
      'a process renews its places after the server has lost them'
    )
  },
  {
    file: 'store/redis/layout.part.lua',
    what: 'sweeps are a millisecond later',
    from: 'local MINUTE = 60000 --',
    to: 'local MINUTE = 60001 --',
    ...byRule(redisContract, 'sweeps 60 s after the previous sweep, and no earlier')
  },
  {
    file: 'store/redis/layout.part.lua',
    what: 'places last 15 s longer',
    from: 'local PLACE_DURATION = 30000 --',
    to: 'local PLACE_DURATION = 45000 --',
    ...byTest(
      'test/servers/redis-places.test.ts',
      'the places of an ended process are free after 30 s, and no earlier'
    )
  },
  {
    file: 'store/redis/layout.part.lua',
    what: 'the time runs backwards with the clock',
    from: 'local now = math.max(time + offset, latest)',
    to: 'local now = time + offset',
    ...byTest(
      'test/servers/redis-clock-set-back.test.ts',
      'a window does not become longer, and no wait negative, if the clock is set back by ' +
        '1000 ms after a decision'
    )
  },
  {
    file: 'store/redis/layout.part.lua',
    what: 'ids of windows begin anew when the server has lost them',
    from: 'math.max(latestId, microseconds)',
    to: 'latestId',
    ...byTest(
      'test/servers/redis-store.test.ts',
      'nothing is given back in a window that opened at the same time after the counters were lost'
    )
  },
  {
    file: 'store/redis/layout.part.lua',
    what: 'a caller is removed a sweep late',
    from: '>= quota.retention',
    to: '> quota.retention',
    ...byRule(
      redisContract,
      'a sweep removes a caller one window and 60 s after its last request, before a lookup'
    )
  },
  {
    file: 'store/redis/layout.part.lua',
    what: 'what is held is forgotten after ten minutes',
    from: 'heldBefore = heldPeriod == period - 1 and held or 0',
    to: 'heldBefore = 0',
    ...byRule(
      redisContract,
      'holds an estimate in the period of ten minutes that admitted it, and in the next one'
    )
  },
  {
    file: 'store/redis/layout.part.lua',
    what: 'another layout is overwritten',
    from: "redis.call('EXISTS', SHARD) == 0) then return found",
    to: 'true) then return found',
    ...byTest(
      'test/servers/redis-store.test.ts',
      'another layout, older or newer, is refused by name and not changed'
    )
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
    file: 'store/redis/peek.lua',
    what: 'peek does not look for a dead counter',
    from: 'or makesRoom() then',
    to: 'then',
    ...byTest(
      'test/servers/redis-store-pages.test.ts',
      'a new caller at the cap uses the overflow counter until the sweep has found a dead counter'
    )
  },
  {
    file: 'store/redis/clear.lua',
    what: 'the places of callers are not cleared',
    from: '        redis.call(\'UNLINK\', key .. \' \' .. caller)\n',
    to: '',
    ...byTest(
      'test/servers/redis-store.test.ts',
      'clearCounters removes every quota that any process has used, places included'
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
