// Mistakes in what the stores on servers do in the process.

const remembered = 'test/stores/remembered-rejections.test.ts'
const shards = 'test/stores/shared-shards.test.ts'
const scenarios = 'test/simulation/scenarios.test.ts'
const places = 'test/stores/shared-places.test.ts'
const settlements = 'test/stores/shared-settlements.test.ts'
const walk = 'test/simulation/simulation.test.ts'

export const mutants = [
  {
    file: 'store/shared/shard.ts',
    what: 'what a late reply has granted is not settled',
    from: '            this.#settleLate(call, reply, sentAt)\n',
    to: '',
    test: scenarios,
    foundBy: ['a call that is late: what it took is settled and freed when its reply arrives']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'the place that a failed call may have taken is not freed',
    from: 'for (const { demands, place } of call.requests) this.#freeTaken(demands, place)',
    to: '',
    test: scenarios,
    foundBy: ['a reply that is lost: what was granted stays counted, and the place is freed']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'settlements that may have been applied are sent again',
    from: '    if (error instanceof NotRunError) {\n',
    to: '    if (error instanceof Error) {\n',
    test: scenarios,
    foundBy: ['a settlement that is lost: its promise is rejected, and it is not sent again']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'the places of a failed call are not renewed again',
    from: '      this.#isFailing = true\n',
    to: '      this.#isFailing = true\n      this.#places.renew(renewed, sentAt)\n',
    test: scenarios,
    foundBy: ['a renewal that is lost: the place is renewed again after a second']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'a place that a failed call may not have freed is not freed again',
    from: '    this.#freed.addAgain(freed)\n',
    to: '',
    test: scenarios,
    foundBy: ['a freed place whose call is lost: it is freed again after a second']
  },
  {
    file: 'store/shared/held-places.ts',
    what: 'a freed place is renewed',
    from: '    if (!this.#renewedAt.delete(place)) return\n',
    to: '',
    test: scenarios,
    foundBy: ['a place freed while its renewal waits: it is not renewed']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'the places of all calls have the same names',
    from: '    this.#calls += 1\n',
    to: '',
    test: places,
    foundBy: ['a process renews the places that it holds, and frees them once']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'the places of all processes have the same names',
    from: "randomBytes(9).toString('base64url')",
    to: "'process'",
    test: scenarios,
    foundBy: ['a process that stalls for 36 s: its next call takes its places again']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'a process takes places after a stall before it renews its own',
    from: 'this.#places.renewedBy(now - renewalAge, mostPlacesInCall)',
    to: '[]',
    test: scenarios,
    foundBy: ['a process that stalls for 36 s: its next call takes its places again']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'a process takes places after a stall before it has renewed all of its own',
    from: 'mustRenewFirst ? 0 : mostInCall',
    to: 'mostInCall',
    test: places,
    foundBy: [
      'after a stall of 36 s, a process renews more than 256 places before it takes more'
    ]
  },
  {
    file: 'store/shared/shard.ts',
    what: 'settlements are sent while calls fail',
    from: 'this.#isFailing ? 0 : mostInCall',
    to: 'mostInCall',
    test: settlements,
    foundBy: [
      'an outage without requests loses no settlement: an empty call a second shows its end'
    ]
  },
  {
    file: 'store/shared/shard.ts',
    what: 'while calls fail, what waits is tried without a pause',
    from: '(!this.#isFailing && this.#hasWork)',
    to: 'this.#hasWork',
    test: settlements,
    foundBy: [
      'an outage without requests loses no settlement: an empty call a second shows its end'
    ]
  },
  {
    file: 'store/shared/shard.ts',
    what: 'a call that is sent again has its whole time again',
    from: 'withTimeout(until - performance.now(), this',
    to: 'withTimeout(longestCallTime, this',
    test: settlements,
    foundBy: ['a call that is sent again has no more time than one that is not']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'what is no decision waits for ever',
    from: 'return withTimeout(longestWait, question(this.#driver, this.#time()))',
    to: 'return question(this.#driver, this.#time())',
    test: settlements,
    foundBy: ['what is asked without a decision fails after 5 s, too']
  },
  {
    file: 'store/redis/clients.ts',
    what: 'a pool does not leave a replica with the connection that has told of it',
    from: 'setImmediate(quit)',
    to: 'quit()',
    test: 'test/stores/redis-replies.test.ts',
    foundBy: ['a replica is left at most once a second']
  },
  {
    file: 'store/shared/shared-store.ts',
    what: 'list takes the time of the store for the date',
    from: 'wallClock())\n',
    to: 'this.#clock())\n',
    test: shards,
    foundBy: ['list asks with the date of the process, by which days of a time zone end']
  },
  {
    file: 'store/shared/shared-store.ts',
    what: 'what another shard has rejected cannot be settled',
    from: '      return this.#rejected(demand, acquisition)\n',
    to: '      return acquisition\n',
    test: shards,
    foundBy: ['what a shard, another one or the memory rejects can be settled, which does nothing']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'a place is not renewed',
    from: '        this.#places.add(taken.place, sentAt)\n',
    to: '',
    test: scenarios,
    foundBy: ['a server that loses all: places are taken again, and windows begin anew']
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'what the primary has counted too late is not settled',
    from: 'for (const made of late) new InsuredAcquisition(this, made, store).settleUnused()',
    to: '',
    test: scenarios,
    foundBy: ['a fallback that decides meanwhile: what comes too late is settled with 0']
  },
  {
    file: 'store/shared/shared-acquisition.ts',
    what: 'an acquisition that is settled again is lowered by as much again',
    from: '    this.#counted -= lessCount\n',
    to: '',
    test: scenarios,
    foundBy: ['a settlement that is lost: its promise is rejected, and it is not sent again']
  },
  {
    file: 'store/shared/shared-acquisition.ts',
    what: 'a settlement names another period than that of the admission',
    from: '[[this.#period, lessHeld]]',
    to: '[[this.#period + 1, lessHeld]]',
    test: walk,
    foundBy: ['in random steps that lose nothing, a shared store counts what was used']
  },
  {
    file: 'store/shared/shared-acquisition.ts',
    what: 'what the overflow counter has counted is settled on the counter of the caller',
    from: 'overflow: this.overflow,',
    to: 'overflow: false,',
    test: walk,
    foundBy: ['in random steps, callers who share the overflow counter count what they used']
  },
  {
    file: 'store/shared/waiting-settlements.ts',
    what: 'settlements of different windows are one',
    from: '[windowId, overflow',
    to: '[overflow',
    test: settlements,
    foundBy: ['settlements of two windows of a caller stay two, and each changes its own']
  },
  {
    file: 'store/shared/waiting-settlements.ts',
    what: 'the settlements of callers who share the overflow counter are several',
    from: "overflow ? '' : callerKey",
    to: 'callerKey',
    test: settlements,
    foundBy: ['the settlements of callers who share the overflow counter are one']
  },
  {
    file: 'store/shared/waiting-settlements.ts',
    what: 'the later one of two settlements of a window replaces the earlier one',
    from: 'one.lessCount + other.lessCount',
    to: 'other.lessCount',
    test: settlements,
    foundBy: ['the settlements of one window are one, and change it by their sum']
  },
  {
    file: 'store/shared/remembered-rejections.ts',
    what: 'a rejection is remembered for longer than a second',
    from: 'now - known.askedAt >= longestMemory',
    to: 'now - known.askedAt > longestMemory',
    test: remembered,
    foundBy: ['what another process removes takes effect after a second at most']
  },
  {
    file: 'store/shared/remembered-rejections.ts',
    what: 'a window is remembered for longer than it lasts',
    from: 'const remaining = length - (now - known.askedAt)',
    to: 'const remaining = length',
    test: remembered,
    foundBy: ['no rejection is remembered beyond the window, even if the reply was slow']
  },
  {
    file: 'store/shared/remembered-rejections.ts',
    what: 'the state of the overflow counter is remembered',
    from: '!hasRejected || acquisition.overflow ||',
    to: '!hasRejected ||',
    test: remembered,
    foundBy: ['nothing is remembered if the option is false, or by the overflow counter']
  },
  {
    file: 'store/shared/remembered-rejections.ts',
    what: 'a rejection that is remembered again stays the oldest',
    from: '    const name = nameOf(demand)\n    this.#rejections.delete(name)\n',
    to: '    const name = nameOf(demand)\n',
    test: remembered,
    foundBy: ['a rejection that is remembered again is no longer the oldest']
  },
  {
    file: 'store/shared/shared-store.ts',
    what: 'the shards track more callers together than the store may',
    from: 'Math.ceil((maxTrackedCallers - shard) / shards)',
    to: 'Math.ceil(Math.max(maxTrackedCallers, shard) / shards)',
    test: shards,
    foundBy: ['the caller caps of the shards are together that of the store']
  },
  {
    file: 'store/shared/shared-store.ts',
    what: 'a process remembers at the time of the reply',
    from: 'rejections?.remember(demand, acquisition, now)',
    to: 'rejections?.remember(demand, acquisition, Math.max(now, this.#clock()))',
    test: remembered,
    foundBy: ['no rejection is remembered beyond the window, even if the reply was slow']
  },
  {
    file: 'store/shared/shared-store.ts',
    what: 'a process counts places that clearCounters has removed',
    from: '    for (const shard of this.#shards) shard.dropPlaces()\n',
    to: '',
    test: remembered,
    foundBy: ['after clearCounters, no place that the process has held counts']
  },
  {
    file: 'store/shared/shared-store.ts',
    what: 'what arrives while a caller is forgotten is remembered',
    from: '    await call.finally(startAnew)',
    to: '    await call',
    test: remembered,
    foundBy: ['forget removes what is remembered, also what arrives before it ends']
  },
  {
    file: 'store/shared/shared-store.ts',
    what: 'only the first shard is listed',
    from: 'index + 1 < this.#shards.length ? String(index + 1) : null',
    to: 'null',
    test: shards,
    foundBy: ['inspect, list and clearCounters cover all shards, and each page of each']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'settlements are rejected although the server works',
    from: 'if (this.#isFailing) this.#settlements.bound()',
    to: 'this.#settlements.bound()',
    test: settlements,
    foundBy: ['a server that answers loses no settlement, however many come together']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'a request with many demands is never sent',
    from: ' && taken.length > 0',
    to: '',
    test: settlements,
    foundBy: ['a request with more demands than a call takes is sent alone']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'what the server refuses for long is sent again',
    from: '!(error instanceof TryAgainError)',
    to: '!(error instanceof NotRunError)',
    test: settlements,
    foundBy: [

      'while the server is down, a request fails at once with the error of the client, and a ' +
      'settlement waits'
    ]
  },
  {
    file: 'store/shared/shard.ts',
    what: 'a request does not fail with the error of the client',
    from: 'error instanceof NotRunError ? error.cause : error',
    to: 'error',
    test: settlements,
    foundBy: [

      'while the server is down, a request fails at once with the error of the client, and a ' +
      'settlement waits'
    ]
  },
  {
    file: 'store/shared/shard.ts',
    what: 'a call has more than 128 requests',
    from: 'const mostInCall = 128',
    to: 'const mostInCall = 2_000',
    test: settlements,
    foundBy: [

      'requests that arrive together, or while a call is under way, share a call, and are ' +
      'decided in their order'
    ]
  },
  {
    file: 'store/shared/shard.ts',
    what: 'a rejected request holds a place that it has not taken',
    from: '      if (!isCounted) {',
    to: '      if (!isCounted && !each.admitted) {',
    test: places,
    foundBy: ['a rejected request holds no place, though there was room for one']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'the time until a renewal begins with the reply of the call that took the place',
    from: 'this.#places.add(taken.place, sentAt)',
    to: 'this.#places.add(taken.place, this.#clock())',
    test: places,
    foundBy: [
      'the 10 s after which a place is renewed begin when its call is sent, not with the reply'
    ]
  },
  {
    file: 'store/shared/shard.ts',
    what: 'the time until the next renewal begins with the reply',
    from: 'this.#places.renew(renewed, sentAt)',
    to: 'this.#places.renew(renewed, this.#clock())',
    test: places,
    foundBy: [
      'the 10 s after which a place is renewed begin when its call is sent, not with the reply'
    ]
  },
  {
    file: 'store/shared/shard.ts',
    what: 'places are renewed only while requests come',
    from: ' && this.#places.isEmpty',
    to: '',
    test: places,
    foundBy: ['a process renews the places that it holds, and frees them once']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'the timer of a store keeps its process alive',
    from: '}, wakeInterval).unref()',
    to: '}, wakeInterval)',
    test: places,
    foundBy: ['a store that holds places does not keep its process alive']
  },
  {
    file: 'store/shared/held-places.ts',
    what: 'a place is renewed for ever that was freed while its renewal was on its way',
    from: 'if (this.#renewedAt.delete(place)) this.#renewedAt.set(place, sentAt)',
    to: 'this.#renewedAt.delete(place)\n      this.#renewedAt.set(place, sentAt)',
    test: places,
    foundBy: ['a place that is freed while its renewal is on its way is not renewed again']
  },
  {
    file: 'store/shared/held-places.ts',
    what: 'of many places, only the first are renewed',
    from: 'if (this.#renewedAt.delete(place)) this',
    to: 'if (this.#renewedAt.has(place)) this',
    test: places,
    foundBy: ['300 places are renewed in calls of 256']
  },
  {
    file: 'store/shared/held-places.ts',
    what: 'places that were cleared are counted',
    from: '    this.#counts.clear()\n',
    to: '',
    test: remembered,
    foundBy: ['after clearCounters, no place that the process has held counts']
  },
  {
    file: 'store/shared/freed-places.ts',
    what: 'places without end wait to be freed',
    from: '    if (this.#waiting.length >= mostWaiting) return\n',
    to: '    if (this.#waiting.length > 10 * mostWaiting) return\n',
    test: places,
    foundBy: ['what waits to be freed during an outage is bounded']
  },
  {
    file: 'store/shared/freed-places.ts',
    what: 'the settlement of a place that has ended never ends',
    from: '      else waiting.resolve()\n',
    to: '',
    test: places,
    foundBy: ['a place that ends while it waits to be freed is free, and its settlement resolves']
  },
  {
    file: 'store/shared/waiting-settlements.ts',
    what: 'a settlement that joins one that is sent again never ends',
    from: '        older.done.then(each.resolve, each.reject)\n',
    to: '',
    test: settlements,
    foundBy: [
      'settlements that are sent again stay the oldest, and join newer ones of their window'
    ]
  },
  {
    file: 'store/shared/waiting-settlements.ts',
    what: 'a settlement of a short window does not wait for a call',
    from: 'Math.max(window, longestWait)',
    to: 'Math.min(window, longestWait)',
    test: settlements,
    foundBy: ['a settlement of a window of a second waits for 5 s, in which a call can be sent']
  },
  {
    file: 'store/shared/waiting-settlements.ts',
    what: 'of two settlements of one period, only what the later one held is released',
    from: 'lessHeld.set(period, less + (lessHeld.get(period) ?? 0))',
    to: 'lessHeld.set(period, less)',
    test: settlements,
    foundBy: ['the settlements of one window are one, and change it by their sum']
  },
  {
    file: 'store/shared/waiting-settlements.ts',
    what: 'of two settlements, what the earlier one held stays held',
    from: 'const lessHeld = new Map(one.lessHeld)',
    to: 'const lessHeld = new Map<number, number>()',
    test: settlements,
    foundBy: ['the settlements of one window are one, and change it by their sum']
  },
  {
    file: 'store/shared/shared-store.ts',
    what: 'what arrives before a settlement ends is remembered',
    from:
      '    try {\n      await acquisition.settle(used)\n    } finally {\n' +
      '      this.#rejections?.drop(acquisition.demand)\n    }\n',
    to: '    this.#rejections?.drop(acquisition.demand)\n    await acquisition.settle(used)\n',
    test: remembered,
    foundBy: [
      'a settlement takes effect at once, also after a rejection that arrives before it ends'
    ]
  },
  {
    file: 'store/shared/remembered-rejections.ts',
    what: 'a rejection from memory does not say what others hold',
    from: 'const rejection = rejectionOf(count, held)',
    to: 'const rejection = rejectionOf(count, 0 * held)',
    test: remembered,
    foundBy: ['a rejection from memory says what others count and hold, whatever its limit']
  },
  {
    file: 'store/shared/shared-store.ts',
    what: 'a process that holds the places up to the limit states the limit as their number',
    from: 'rejectionOf(count, count)',
    to: 'rejectionOf(demand.limit, demand.limit)',
    test: remembered,
    foundBy: ['a rejection from memory says what others count and hold, whatever its limit']
  },
  {
    file: 'store/redis/clients.ts',
    what: 'only one connection of a pool leaves a replica',
    from: 'let left = client.idleClients ?? 1;',
    to: 'let left = 1;',
    test: 'test/stores/redis-replies.test.ts',
    foundBy: ['all idle connections of a pool leave a replica']
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'what another shard has rejected cannot be settled',
    from: '      return new InsuredAcquisition(this, acquisition, null)\n',
    to: '      return acquisition\n',
    test: 'test/stores/insured-shards.test.ts',
    foundBy: ['what one shard rejects can be settled in each of them, which does nothing']
  },
  {
    file: 'store/insured/insured-acquisition.ts',
    what: 'a late result that cannot be settled is an unhandled rejection',
    from: '      await this.settle(0)\n',
    to: '      return this.settle(0)\n',
    test: 'test/stores/insured-store.test.ts',
    foundBy: ['a late result that cannot be settled is ignored, and no unhandled rejection']
  },
  {
    file: 'store/shared/shared-acquisition.ts',
    what: 'what is settled without an estimate ends what other requests hold',
    from: 'demand.isEstimate ? decided.granted : 0',
    to: 'decided.granted',
    test: 'test/stores/postgres.test.ts',
    foundBy: [
      'the store passes each check of quotaStoreContract',
      'a settlement ends what is held, whatever was used, and that of no other request'
    ]
  },
  {
    file: 'store/shared/driver.ts',
    what: 'a caller has the name of another one whose counters end otherwise',
    from: 'counters.length}',
    to: "''}",
    test: remembered,
    foundBy: ['what a process knows of a caller rejects no other caller, in no other quota']
  },
  {
    file: 'store/shared/shared-acquisition.ts',
    what: 'a second settlement ends before the first one is applied',
    from: 'return await this.#settled',
    to: 'return',
    test: settlements,
    foundBy: ['settling again with as much ends as the settlement that is under way']
  },
  {
    file: 'store/shared/shared-acquisition.ts',
    what: 'a place is freed by each settlement',
    from: 'this.#freed ??= ',
    to: 'this.#freed = ',
    test: places,
    foundBy: ['a process renews the places that it holds, and frees them once']
  }
]
