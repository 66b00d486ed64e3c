// Mistakes in what the stores on servers do in the process, and in the insured store.

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
      'an outage without requests loses no settlement: empty calls show when it is over'
    ]
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
    from: 'settlement.windowId}',
    to: 'settlement.counters}',
    test: walk,
    foundBy: ['in random steps, a shared store counts what was used']
  },
  {
    file: 'store/shared/waiting-settlements.ts',
    what: 'the later one of two settlements of a window replaces the earlier one',
    from: 'one.lessCount + other.lessCount',
    to: 'other.lessCount',
    test: settlements,
    foundBy: ['the settlements of one window are one']
  }
]
