// Mutants of the scripts in Lua and SQL, and of their arguments: in which file of lib a text is
// replaced, and which test finds it, by its file and the names from the outermost test to the one
// that fails.

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
    from: 'or math.min(demand.most, demand.limit - counter.count)',
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
    what: 'the row of a rejected request is not written',
    from: 'if isAdmitted then\n      granted = demand.limit == UNLIMITED and demand.most',
    to: 'if not isAdmitted then counter.isChanged = false end\n    if isAdmitted then\n      ' +
      'granted = demand.limit == UNLIMITED and demand.most',
    ...byRule(
      redisContract,
      'a request that is rejected, or that counts nothing, sets lastSeen like any other'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'the windows of a time zone are not known as such',
    from: 'retention, isZoned = window + MINUTE, hasZone',
    to: 'retention = window + MINUTE',
    ...byRule(
      redisContract,
      'peek, list, forget and settlements follow the windows of a time zone'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'the counters do not expire',
    from: "  if quota.expiresIn then redis.call('PEXPIRE', quota.key, quota.expiresIn) end\n",
    to: '',
    ...byTest(
      'test/servers/redis-store.test.ts',
      'the keys of a shard begin with the prefix, contain digests only, and expire'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a shard expires with the quota that was used last',
    from: 'local mustLastLonger = now + keep > shardExpires',
    to: 'local mustLastLonger = true',
    ...byTest(
      'test/servers/redis-store.test.ts',
      "a month's count is not lost because of a minute's quota"
    )
  },
  {
    file: 'store/redis/arguments.ts',
    what: 'a shard expires with the last quota of a request',
    from: 'this.#keep = Math.max(this.#keep, counterRetention(window))',
    to: 'this.#keep = counterRetention(window)',
    ...byTest(
      'test/servers/redis-store.test.ts',
      "of a request's quotas, the shard is kept for the longest window, whichever is the last"
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'counters that were lost have no new expiry',
    from: '  if tracked == 0 then expires = NEVER end\n',
    to: '',
    ...byTest(
      'test/servers/redis-lost-keys.test.ts',
      "with the server's clock, decisions go on after a loss, and keys expire"
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'counters of a clock that was lost stay',
    from: "  if not record then redis.call('UNLINK', key) end\n",
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
    what: 'the sweep of each quota looks at a page of its own',
    from: "'COUNT', leftToSweep)",
    to: "'COUNT', PAGE)",
    ...byTest(
      'test/servers/redis-store-pages.test.ts',
      'a call looks at a thousand counters of all its quotas together'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'the ids of a call are given again by the next one',
    from: 'latestId + demandCount, shardExpires',
    to: 'latestId, shardExpires',
    ...byTest(
      'test/servers/redis-clock-set-back.test.ts',
      'no window id is used twice while the clock of the server is set back'
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
    from: '    takeOrRenew(holder, place)\n',
    to: "    if redis.call('EXISTS', holder.key) == 1 then takeOrRenew(holder, place) end\n",
    ...byTest(
      'test/servers/redis-driver.test.ts',
      'a renewal keeps a place for 30 s, and takes it again if it was lost'
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
    from: "local PLACE_DURATION = '30000' --",
    to: "local PLACE_DURATION = '45000' --",
    ...byTest(
      'test/servers/redis-driver.test.ts',
      'the places of a process that was killed are free when they end, no later'
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
    from: '>= retention',
    to: '> retention',
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
    what: 'what is held is held for a third period',
    from: 'heldBefore = heldPeriod == period - 1 and held or 0',
    to: 'heldBefore = heldPeriod >= period - 2 and held or 0',
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
    file: 'store/redis/decide.lua',
    what: 'what counts requests is held, too',
    from: 'if demand.isEstimate then counter.held = counter.held + granted end',
    to: 'counter.held = counter.held + granted',
    ...byRule(redisContract, 'holds nothing of a request whose cost is no estimate')
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a rejected request rejects those after it in the call',
    from:
      'for _ = 1, requestCount do\n' +
      '  local size, hasPlaces\n' +
      "  size, hasPlaces, at = unpackNumbers('dd', NUMBERS, at)\n" +
      '  nameAt = nameAt + hasPlaces\n' +
      '  local isAdmitted = true\n',
    to:
      'local isAdmitted = true\n' +
      'for _ = 1, requestCount do\n' +
      '  local size, hasPlaces\n' +
      "  size, hasPlaces, at = unpackNumbers('dd', NUMBERS, at)\n" +
      '  nameAt = nameAt + hasPlaces\n',
    ...byRule(
      redisContract,
      'a rejected request rejects none of those that arrive together with it'
    )
  },
  {
    file: 'store/redis/list.lua',
    what: 'a caller whose places have all ended is listed with 0',
    from: 'if count > 0 then add(caller, count, count, 0, 0) end',
    to: 'add(caller, count, count, 0, 0)',
    ...byTest(
      'test/servers/redis-places.test.ts',
      'a caller whose places have all ended is neither listed nor counted'
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
      'a new caller at the cap uses the overflow counter until the sweep has found a dead ' +
        'counter, and peek says so'
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
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a count is negative after a settlement that arrives twice',
    from: 'math.max(0, counter.count - lessCount)',
    to: 'counter.count - lessCount',
    ...byTest(
      'test/servers/redis-driver.test.ts',
      'a settlement that the server gets twice makes no count negative'
    )
  },
  {
    file: 'store/redis/decide.lua',
    what: 'a sweep begins while another one is under way',
    from: 'if cursor < 0 and now - sweptAt >= MINUTE then',
    to: 'if now - sweptAt >= MINUTE then',
    ...byTest(
      'test/servers/redis-store-pages.test.ts',
      'a sweep that is due while another one is under way begins after it'
    )
  },
  {
    file: 'store/redis/clear.lua',
    what: 'a shard that is no hash is not cleared',
    from: "redis.call('TYPE', SHARD).ok == 'hash'",
    to: "redis.call('TYPE', SHARD).ok ~= 'none'",
    ...byTest(
      'test/servers/redis-store.test.ts',
      'clearCounters removes a shard of another layout, whatever it is'
    )
  },
  {
    file: 'store/redis/arguments.ts',
    what: 'a settlement lowers the count once for each of its periods',
    from: '        lessCount = 0\n',
    to: '',
    ...byTest(
      'test/servers/redis-driver.test.ts',
      'a settlement of what two periods held lowers the count once'
    )
  },
  {
    file: 'store/redis/peek.lua',
    what: 'peek looks for a dead counter on the first page only',
    from: "redis.call('HSCAN', key, cursor, ",
    to: "redis.call('HSCAN', key, 0, ",
    ...byTest(
      'test/servers/redis-store-pages.test.ts',
      'a new caller at the cap uses the overflow counter until the sweep has found a dead ' +
        'counter, and peek says so'
    )
  },
  {
    file: 'store/redis/peek.lua',
    what: "with the server's clock, peek tells of nothing held",
    from: 'math.floor(now / PERIOD)',
    to: 'math.floor(time / PERIOD)',
    ...byTest(
      'test/servers/redis-store.test.ts',
      "with the server's clock, peek and list say what is held"
    )
  }
]

const sql = [
  {
    file: 'store/postgres/schema.sql',
    what: 'no demand of a rejected request has room',
    from: 'has_room := is_admitted OR llm_quota_has_room(',
    to: 'has_room := is_admitted AND llm_quota_has_room(',
    ...byRule(postgresContract, 'says of each demand of a rejected request whether it has room')
  },
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
    what: 'a rejected request does not set lastSeen',
    from: 'IF demand.window_length IS NOT NULL THEN\n      UPDATE',
    to: 'IF demand.window_length IS NOT NULL AND is_admitted THEN\n      UPDATE',
    ...byRule(
      postgresContract,
      'a request that is rejected, or that counts nothing, sets lastSeen like any other'
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
    from: '    IF moment - sweep.swept_at < 60000 THEN',
    to: '    IF moment - sweep.swept_at <= 60000 THEN',
    ...byRule(postgresContract, 'sweeps 60 s after the previous sweep, and no earlier')
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a sweep begins while another one is under way',
    from: '  IF sweep.unswept IS NULL THEN',
    to: '  IF sweep.unswept IS NULL OR moment - sweep.swept_at >= 60000 THEN',
    ...byTest(
      postgresContract.test,
      'a sweep leaves no counter out, and one that is due meanwhile begins later'
    )
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
    from: '\n        AND counted.window_id = given.window_id\n',
    to: '\n',
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
    what: 'a settlement before the next request of the caller takes the period of now for its own',
    from: 'llm_quota_less(given.less_held, stored.period)',
    to: 'llm_quota_less(given.less_held, llm_quota_period(moment))',
    ...byRule(
      postgresContract,
      'a settlement ends what is held in the period that admitted it, and in no other'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'an estimate of long ago is held again',
    from: 'CASE WHEN counter.period = this_period - 1 THEN counter.held ELSE 0 END',
    to: 'counter.held',
    ...byRule(
      postgresContract,
      'holds an estimate in the period of ten minutes that admitted it, and in the next one'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a caller is counted once for each of its places',
    from: 'count(DISTINCT place.caller)',
    to: 'count(place.caller)',
    ...byTest(postgresContract.test, 'a caller with several places is listed and counted once')
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'callers whose places have ended are counted',
    from: 'WHERE place.counters = quota AND place.ends > moment\n    )',
    to: 'WHERE place.counters = quota\n    )',
    ...byTest(postgresContract.test, 'a caller is listed and counted until its last place ends')
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'what is held is forgotten after one period',
    from: '    WHEN 1 THEN counter.held\n',
    to: '',
    ...byRule(
      postgresContract,
      'holds an estimate in the period of ten minutes that admitted it, and in the next one'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a request finds what was held in the last period but one',
    from: 'CASE WHEN counter.period = this_period - 1 THEN',
    to: 'CASE WHEN counter.period >= this_period - 2 THEN',
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
      'a window that opens just after the clock was set back has its full length'
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
    what: 'a sweep that is under way ends with its first page',
    from: '    unswept = next_unswept\n',
    to: '    unswept = NULL\n',
    ...byTest(
      postgresContract.test,
      'a call sweeps 1,000 counters; at the cap, a new caller uses the overflow counter until ' +
        'then, and peek says so'
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
    from: '\n        AND taken.name = given.name\n',
    to: '\n        LIMIT 1\n',
    ...byTest(
      postgresContract.test,
      'a call that the server gets twice takes a place once and frees it once'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'places that have ended go only once',
    from: 'IF clock.moment / 1000 > clock.latest / 1000 THEN',
    to: 'IF clock.moment - clock.latest > 10000 THEN',
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
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a new window holds what the last one did in the period before',
    from: 'SET count = 0, held = 0, held_before = 0,\n',
    to: 'SET count = 0, held = 0,\n',
    ...byRule(
      postgresContract,
      'a new window holds nothing that the last one held in this period or the one before'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'by how much the clock was set back is forgotten when it is set back again',
    from: 'set_back := set_back + latest - moment;',
    to: 'set_back := latest - moment;',
    ...byTest(
      postgresContract.test,
      'a clock that is set back twice goes on each time from the latest time'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a count is negative after a settlement that arrives twice',
    from: 'SET count = greatest(0, stored.count - given.less_count),',
    to: 'SET count = stored.count - given.less_count,',
    ...byTest(
      postgresContract.test,
      'a settlement that the server gets twice makes no count negative'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'the next sweep is due 60 s after the last page of this one',
    from: 'swept_at = sweep.swept_at,',
    to: 'swept_at = moment,',
    ...byTest(
      postgresContract.test,
      'a sweep leaves no counter out, and one that is due meanwhile begins later'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'peek does not know of a sweep that is under way',
    from: 'CASE WHEN stored.unswept IS NOT NULL THEN stored.swept_at\n        WHEN',
    to: 'CASE WHEN',
    ...byTest(
      postgresContract.test,
      'a call sweeps 1,000 counters; at the cap, a new caller uses the overflow counter until ' +
        'then, and peek says so'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a setting outlasts the transaction',
    from: "set_config('synchronous_commit', 'off', true)",
    to: "set_config('synchronous_commit', 'off', false)",
    ...byTest(postgresContract.test, 'no setting and no lock outlasts a statement')
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'what a new window admits is held in the period of the last window',
    from: '      period = excluded.period, ends',
    to: '      ends',
    ...byRule(
      postgresContract,
      'holds an estimate in the period of ten minutes that admitted it, and in the next one'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a sweep leaves out one counter between two pages',
    from: 'OFFSET 1000 LIMIT 1',
    to: 'OFFSET 1001 LIMIT 1',
    ...byTest(
      postgresContract.test,
      'a sweep leaves no counter out, and one that is due meanwhile begins later'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'a call that decides does not settle',
    from: 'IF settlements IS NOT NULL THEN',
    to: 'IF settlements IS NOT NULL AND demands IS NULL THEN',
    ...byTest(
      postgresContract.test,
      'a call frees, renews and settles before it decides on its requests'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'the time of a decision is that before the wait for the lock',
    from: 'clock_timestamp()',
    to: 'now()',
    ...byTest(
      postgresContract.test,
      'the time of a decision is that after the wait for the lock'
    )
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'the lock outlasts the transaction',
    from: "PERFORM pg_advisory_xact_lock(hashtext('",
    to: "PERFORM pg_advisory_lock(hashtext('",
    ...byTest(postgresContract.test, 'no setting and no lock outlasts a statement')
  },
  {
    file: 'store/postgres/schema.sql',
    what: 'clearCounters keeps the places',
    from: '  DELETE FROM llm_quota_places;\n',
    to: '',
    ...byRule(
      postgresContract,
      'clearCounters removes all counters and places, and resets the sweeps and their interval'
    )
  },
  {
    file: 'store/postgres/functions.ts',
    what: 'a missing schema is named once',
    from: '    if (found === null) {\n',
    to: '    isChecked = true\n    if (found === null) {\n',
    ...byTest(postgresContract.test, 'each decision names a missing schema until it is there')
  },
  {
    file: 'store/postgres/functions.ts',
    what: 'a statement whose name another client has used is not sent without it',
    from: "['26000', '42P05']",
    to: "['26000']",
    ...byTest(
      postgresContract.test,
      'a pooler without named statements gets them without a name; nothing else is sent again'
    )
  },
  {
    file: 'store/postgres/schema.ts',
    what: 'only the first table is logged',
    from: "named.replaceAll('CREATE UNLOGGED TABLE'",
    to: "named.replace('CREATE UNLOGGED TABLE'",
    ...byTest(postgresContract.test, 'all tables are unlogged, or none with unlogged: false')
  },
  {
    file: 'store/postgres/schema.ts',
    what: 'the name of a table can be longer than 48 bytes',
    from: 'Buffer.byteLength(value)',
    to: 'value.length',
    ...byTest(
      postgresContract.test,
      "a table's name has at most 48 bytes, however few characters they are"
    )
  }
]

/** All of them. */
export const mutants = [...lua, ...sql]
