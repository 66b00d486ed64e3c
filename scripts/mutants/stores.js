// Mistakes in the memory store, in the insured store, and in what they share with others: the
// circuit breaker, the time limit, and decisions of several sides.

const checks = 'test/stores/store-checks.test.ts'
const contract = 'test/stores/store-contract.test.ts'
const insured = 'test/stores/insured-store.test.ts'
const insuredShards = 'test/stores/insured-shards.test.ts'
const preferences = 'test/rules/preferences.test.ts'
const shards = 'test/stores/shared-shards.test.ts'
const time = 'test/stores/insured-store-time.test.ts'

export const mutants = [
  {
    file: 'circuit-breaker.ts',
    what: 'a clock that is set back lengthens the cool-down',
    from: '(rested >= 0 && rested < this.#options.coolDown)',
    to: 'rested < this.#options.coolDown',
    test: insured,
    foundBy: ['the primary is not called for the length of the cool-down after a failure']
  },
  {
    file: 'circuit-breaker.ts',
    what: 'a failure of an earlier call lengthens the cool-down',
    from: '    if (phase === this.#phase) this.#failedAt',
    to: '    this.#failedAt',
    test: insured,
    foundBy: ['a call that fails after another one failed does not lengthen the cool-down']
  },
  {
    file: 'circuit-breaker.ts',
    what: 'nobody tries again after a trial that showed nothing',
    from: 'if (phase === this.#phase) this.#isBeingTried = false',
    to: 'if (phase === this.#phase) this.#isBeingTried = this.isOpen',
    test: insured,
    foundBy: [
      "only a result of the primary's own server changes the state, not one from its memory"
    ]
  },
  {
    file: 'circuit-breaker.ts',
    what: 'failures that do not follow each other add up',
    from: '    this.#record(phase, 0)',
    to: '    if (this.isOpen) this.#record(phase, 0)',
    test: preferences,
    foundBy: ['timeouts between which the reader answers do not leave it alone']
  },
  {
    file: 'circuit-breaker.ts',
    what: 'the result of a call from before a change counts',
    from: '    this.#phase += 1\n',
    to: '',
    test: insured,
    foundBy: ['the result of a call from before a change does not change the state']
  },
  {
    file: 'circuit-breaker.ts',
    what: 'all requests try again after the cool-down',
    from: '      this.#isBeingTried = true\n',
    to: '',
    test: insured,
    foundBy: ['the fallback decides if the primary throws, until one request finds that it works']
  },
  {
    file: 'time-limit.ts',
    what: 'the wait begins again after every stall',
    from: 'this.start(stallsLeft - 1)',
    to: 'this.start(stallsLeft)',
    test: time,
    foundBy: [
      'the wait begins again after a stall, but not without end, nor if a timer is a little late'
    ]
  },
  {
    file: 'time-limit.ts',
    what: 'a result that is read after the timer is not used',
    from: 'const graceTurns = 5',
    to: 'const graceTurns = 0',
    test: time,
    foundBy: ['a result that is read within a few turns after the timeout is used']
  },
  {
    file: 'time-limit.ts',
    what: 'time limits keep the process alive',
    from: 'setTimeout(callback, delay).unref()',
    to: 'setTimeout(callback, delay)',
    test: insured,
    foundBy: [
      'the timeout uses the timers of Node.js by default, which do not keep the process alive'
    ]
  },
  {
    file: 'time-limit.ts',
    what: 'the timer stays after an error',
    from: '        limit.stop()\n        reject(error)',
    to: '        reject(error)',
    test: time,
    foundBy: ['no timer remains after a result']
  },
  {
    file: 'store/side-by-side.ts',
    what: 'a request fails with a side although another one has rejected it',
    from: 'if (failed !== undefined && !isRejected) throw',
    to: 'if (failed !== undefined) throw',
    test: shards,
    foundBy: ['a request that one shard rejects is rejected, although another one fails']
  },
  {
    file: 'store/side-by-side.ts',
    what: 'what a side has counted stays counted where another one fails',
    from: 'const isAdmitted = failed === undefined && !isRejected',
    to: 'const isAdmitted = !isRejected',
    test: shards,
    foundBy: ['what one shard has counted is settled with 0 where another one fails']
  },
  {
    file: 'store/side-by-side.ts',
    what: 'what another side has rejected is stated as counted',
    from: 'count: Math.max(0, count - granted),',
    to: 'count,',
    test: shards,
    foundBy: ['what one shard has counted is settled with 0 where another one rejects']
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'each of the two stores uses all of the timeout',
    from: 'this.fallback instanceof MemoryQuotaStore ? timeout : timeout / 2',
    to: 'timeout',
    test: insured,
    foundBy: [
      'no request is admitted if the fallback fails as well, and none waits longer than the timeout'
    ]
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'the default fallback has another cap than the primary',
    from: 'new MemoryQuotaStore({ clock, maxTrackedCallers })',
    to: 'new MemoryQuotaStore({ clock })',
    test: insured,
    foundBy: [
      'the default fallback has the caller cap of the primary, if any, and the clock of the store'
    ]
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'a call that a store fails is one that it decided',
    from: 'await this.#inTime(acquireFrom(store, demands), (late) => {',
    to:
      'await this.#inTime(acquireFrom(store, demands).catch((error) => {\n' +
      '      this.decisions[name] += 1\n' +
      '      throw error\n' +
      '    }), (late) => {',
    test: insured,
    foundBy: ['a call is one that the fallback decided if the primary fails, and none if both fail']
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'the default fallback has another clock than the store',
    from: '    ? new MemoryQuotaStore({ clock })',
    to: '    ? new MemoryQuotaStore()',
    test: insured,
    foundBy: [
      'the default fallback has the caller cap of the primary, if any, and the clock of the store'
    ]
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'a page of the fallback is continued by the primary',
    from: 'return { ...page, cursor: fallbackMark + page.cursor }',
    to: 'return page',
    test: insured,
    foundBy: ['the next page comes from the store of the last page, or fails with it']
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'a next page of the primary comes from the fallback if the primary fails',
    from: "      : this.#page('primary', counters, cursor)",
    to: '      : this.#read(false, (_store, name) => this.#page(name, counters, cursor))',
    test: insured,
    foundBy: ['the next page comes from the store of the last page, or fails with it']
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'peek reads the primary where the fallback decides for the shard',
    from: 'const { isOpen } = this.#breakerOf(demand.callerKey)',
    to: "const isOpen = this.state === 'fallback'",
    test: insuredShards,
    foundBy: ['the callers of the other shards are not affected when one shard fails']
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'list reads the fallback where the primary decides for a shard',
    from: "this.#read(this.state === 'fallback', (_store",
    to: "this.#read(this.state !== 'primary', (_store",
    test: insuredShards,
    foundBy: [
      'as long as the primary decides for one shard, list and inspect read it, and not the fallback'
    ]
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'inspect reads the fallback where the primary decides for a shard',
    from: "this.#read(this.state === 'fallback', (store",
    to: "this.#read(this.state !== 'primary', (store",
    test: insuredShards,
    foundBy: [
      'as long as the primary decides for one shard, list and inspect read it, and not the fallback'
    ]
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'a caller is removed from one store after the other',
    from:
      'const calls = [this.primary, this.fallback].map(' +
      'async (store) => this.#inTime(call(store)))\n' +
      '    await Promise.all(calls)',
    to: 'for (const store of [this.primary, this.fallback]) await this.#inTime(call(store))',
    test: insured,
    foundBy: [
      'forget and clearCounters call both stores in the same turn, wait no longer than the ' +
        'timeout, and do not change the state'
    ]
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'a settlement has no time limit',
    from: 'await this.#inTime(acquisition.settle(used))',
    to: 'await acquisition.settle(used)',
    test: insured,
    foundBy: ['inspect, peek, list and settle do not change the state if the primary hangs']
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'a rejection from memory beside a demand that was not asked shows that the server works',
    from: 'acquisitions.some((acquisition) =>',
    to: 'acquisitions.every((acquisition) =>',
    test: insured,
    foundBy: [
      'a rejection from memory, beside a demand that was not asked, does not change the state'
    ]
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'a store is insured by a function that only one of the two has',
    from: 'hasFunction(this.primary, name) && hasFunction(this.fallback, name)',
    to: 'hasFunction(this.primary, name) || hasFunction(this.fallback, name)',
    test: insured,
    foundBy: ['the insured store lacks each function that one of its stores lacks']
  },
  {
    file: 'store/copied-acquisition.ts',
    what: 'the end of a window in a time zone is lost',
    from: '    if (original.end !== undefined) this.end = original.end\n',
    to: '',
    test: insured,
    foundBy: ['the end of a window in a time zone is that of the store that counted it']
  },
  {
    file: 'store/memory/memory-counters.ts',
    what: 'only a request that opens a window keeps the counter',
    from: '      latest.lastSeen = now\n',
    to: '',
    test: contract,
    foundBy: [

      'in the memory store, a sweep removes a caller one window and 60 s after its last ' +
      'request, before a lookup'
    ]
  },
  {
    file: 'store/memory/memory-counters.ts',
    what: 'one caller more than the cap has a counter',
    from: '    const overflows = own === undefined && this.#byCaller.size >= this.#cap\n',
    to: '    const overflows = own === undefined && this.#byCaller.size > this.#cap\n',
    test: contract,
    foundBy: [

      'in the memory store, tracks no more callers than the cap, also in a race; others share ' +
      'the overflow counter'
    ]
  },
  {
    file: 'store/memory/memory-counters.ts',
    what: 'the sweep comes after the lookup',
    from:
      '    if (now >= this.#sweepIsDueAt) this.#sweep(now, length)\n' +
      '    const own = this.#byCaller.get(callerKey)\n',
    to:
      '    const own = this.#byCaller.get(callerKey)\n' +
      '    if (now >= this.#sweepIsDueAt) this.#sweep(now, length)\n',
    test: 'test/rules/counters.test.ts',
    foundBy: ['a counter that a sweep has removed opens a new window, even with the same end']
  },
  {
    file: 'store/memory/memory-counters.ts',
    what: 'a counter is kept for a millisecond longer',
    from: 'return now - lastSeen >= counterRetention(length)',
    to: 'return now - lastSeen > counterRetention(length)',
    test: contract,
    foundBy: [

      'in the memory store, a sweep removes a caller one window and 60 s after its last ' +
      'request, before a lookup'
    ]
  },
  {
    file: 'store/memory/memory-counters.ts',
    what: 'to forget a caller without a counter empties the overflow counter',
    from: '    this.#byCaller.delete(callerKey)\n  }\n\n  /** Returns the callers',
    to:
      '    if (!this.#byCaller.delete(callerKey)) this.#overflow = undefined\n' +
      '  }\n' +
      '\n' +
      '  /** Returns the callers',
    test: contract,
    foundBy: [
      'in the memory store, forget makes room for one other caller if the caller has a counter'
    ]
  },
  {
    file: 'store/memory/memory-counters.ts',
    what: 'callers whose window is over are listed',
    from: '      if (!window.isOpen(now, start)) continue\n',
    to: '',
    test: contract,
    foundBy: [

      'in the memory store, list returns each caller whose own counter in the quota has an ' +
      'open window, and no other'
    ]
  },
  {
    file: 'store/memory/memory-counters.ts',
    what: 'the first request is a sweep',
    from: 'if (this.#sweepIsDueAt !== beforeFirstRequest) this.#sweeps += 1',
    to: 'this.#sweeps += 1',
    test: contract,
    foundBy: ['in the memory store, sweeps 60 s after the previous sweep, and no earlier']
  },
  {
    file: 'store/memory/memory-places.ts',
    what: 'a place that is settled with 1 is free',
    from: 'if (used > 0 || !this.#isTaken) return',
    to: 'if (!this.#isTaken) return',
    test: checks,
    foundBy: ['a place that is settled with more than 0 stays taken, in every store']
  },
  {
    file: 'store/memory/memory-places.ts',
    what: 'a place is freed by each settlement',
    from: '    this.#isTaken = false\n    this',
    to: '    this',
    test: contract,
    foundBy: [

      'in the memory store, takes a place if there are fewer concurrent requests than the ' +
      'limit, and frees it once'
    ]
  },
  {
    file: 'store/memory/memory-window.ts',
    what: 'a day lasts until after its end',
    from: 'return start < this.end',
    to: 'return start <= this.end',
    test: contract,
    foundBy: [

      'in the memory store, a window of a time zone lasts until a day begins at its end or ' +
      'later, whatever the time'
    ]
  },
  {
    file: 'store/memory/memory-window.ts',
    what: 'a settlement in the next period leaves the estimate held',
    from:
      '    if (period === this.#period - 1) this.#heldBefore = Math.max(0, this.#heldBefore - ' +
      'held)\n',
    to: '',
    test: contract,
    foundBy: [

      'in the memory store, a settlement ends what is held in the period that admitted it, and ' +
      'in no other'
    ]
  },
  {
    file: 'store/memory/memory-window.ts',
    what: 'an estimate is held in one period only',
    from: 'held = this.#held + this.#heldBefore',
    to: 'held = this.#held',
    test: contract,
    foundBy: [

      'in the memory store, holds an estimate in the period of ten minutes that admitted it, ' +
      'and in the next one'
    ]
  },
  {
    file: 'store/memory/memory-window.ts',
    what: 'an estimate of long ago is held again',
    from: 'period === this.#period + 1 ? this.#held : 0',
    to: 'this.#held',
    test: 'test/rules/counters.test.ts',
    foundBy: ['what was admitted two periods of ten minutes ago is not held by a later estimate']
  },
  {
    file: 'store/memory/memory-window.ts',
    what: 'more is held than counted',
    from: 'return Math.min(held, this.count)',
    to: 'return held',
    test: 'test/rules/counters.test.ts',
    foundBy: ['no more is held than is counted, also of two periods of ten minutes']
  },
  {
    file: 'store/memory/memory-window.ts',
    what: 'a second settlement lowers as much again',
    from: '    this.#counted -= excess\n',
    to: '',
    test: contract,
    foundBy: [

      'in the memory store, a settlement lowers what is counted, and never raises it; a later ' +
      'one can lower it further'
    ]
  },
  {
    file: 'store/memory/memory-window.ts',
    what: 'a second settlement ends what another request holds',
    from: '    this.#window.release(this.#held, this.#period)\n    this.#held = 0\n',
    to: '    this.#window.release(this.#held, this.#period)\n',
    test: contract,
    foundBy: [

      'in the memory store, a settlement ends what is held, whatever was used, and that of no ' +
      'other request'
    ]
  },
  {
    file: 'store/memory/memory-store.ts',
    what: 'the last demand decides',
    from: 'if (!acquisition.admitted) isAdmitted = false',
    to: 'isAdmitted = acquisition.admitted',
    test: contract,
    foundBy: [

      'in the memory store, counts and holds no demand of a request if one of them has no ' +
      'room, whichever it is'
    ]
  },
  {
    file: 'store/memory/memory-store.ts',
    what: 'clearCounters keeps the places',
    from: '    this.#counters.clear()\n    this.#places.clear()',
    to: '    this.#counters.clear()',
    test: contract,
    foundBy: [
      'in the memory store, clearCounters removes all counters and places, and resets the sweeps ' +
        'and their interval'
    ]
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'the primary is used until the fallback has decided',
    from:
      '      breaker.failed(phase, error)\n' +
      "      return this.#decideBy('fallback', demands)",
    to:
      "      const decided = await this.#decideBy('fallback', demands)\n" +
      '      breaker.failed(phase, error)\n' +
      '      return decided',
    test: 'test/stores/insured-store.test.ts',
    foundBy: [
      'the primary is not called from its failure on, even before the fallback has decided, or ' +
        'if it fails, too'
    ]
  },
  {
    file: 'store/memory/memory-counters.ts',
    what: 'callers are listed as long as the longest day can be open',
    from: 'if (!window.isOpen(now, start)) continue',
    to: 'if (!window.isOpen(now, null)) continue',
    test: 'test/rules/time-zones.test.ts',
    foundBy: ['callers are listed until their day ends, though the longest day has 27 hours']
  },
  {
    file: 'store/memory/memory-counters.ts',
    what: 'peek takes a sweep that is due for one that makes room',
    from: '!(now >= this.#sweepIsDueAt && this.#hasExpired(now, length))',
    to: 'now < this.#sweepIsDueAt',
    test: contract,
    foundBy: [
      'in the memory store, peek finds the overflow counter if the sweep that is due removes no ' +
        'counter'
    ]
  },
  {
    file: 'store/memory/memory-counters.ts',
    what: 'peek takes a dead counter for removed before a sweep is due',
    from: '!(now >= this.#sweepIsDueAt && this.#hasExpired(now, length))',
    to: '!this.#hasExpired(now, length)',
    test: contract,
    foundBy: [
      'in the memory store, peek finds the overflow counter until a sweep is due, also if that ' +
        'would make room'
    ]
  },
  {
    file: 'store/side-by-side.ts',
    what: 'the sides are asked one after another',
    from: 'await Promise.all(parts.map((part) => part.decide(acquire)))',
    to: 'for (const part of parts) await part.decide(acquire)',
    test: insuredShards,
    foundBy: ['a request in several shards that hang waits for them at the same time']
  },
  {
    file: 'store/side-by-side.ts',
    what: 'what another side has rejected lowers what is held, estimate or not',
    from: 'isEstimate ? held - granted : held',
    to: 'isEstimate || granted > 0 ? held - granted : held',
    test: shards,
    foundBy: ['what one shard has counted is settled with 0 where another one rejects']
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'forget and clearCounters have no time limit',
    from: 'this.#inTime(call(store))',
    to: 'call(store)',
    test: insured,
    foundBy: [
      'forget and clearCounters call both stores in the same turn, wait no longer than the ' +
        'timeout, and do not change the state'
    ]
  },
  {
    file: 'testing/steps.ts',
    what: 'the contract makes simultaneous calls one after another',
    from: 'await Promise.all(calls.map((each) => each.run(store)))',
    to: 'for (const each of calls) await each.run(store)',
    test: 'test/stores/store-contract-faults.test.ts',
    foundBy: [
      'the contract finds each store that breaks a rule: admits no more simultaneous ' +
        'requests than have room: on existing counters'
    ]
  },
  {
    file: 'testing/test-quota.ts',
    what: 'the contract does not compare the number of sweeps',
    from: 'sweeps: state.sweeps }',
    to: '}',
    test: 'test/stores/store-contract-faults.test.ts',
    foundBy: [
      'the contract finds each store that breaks a rule: sweeps 60 s after the previous ' +
        'sweep, and no earlier'
    ]
  }
]
