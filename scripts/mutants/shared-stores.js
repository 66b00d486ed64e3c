// Mistakes in what the stores on servers do in the process, and in the insured store.

const scenarios = 'test/simulation/scenarios.test.ts'
const walk = 'test/simulation/simulation.test.ts'

export const mutants = [
  {
    file: 'store/shared/shard.ts',
    what: 'what a late reply has granted is not settled',
    from: '            this.#settleLate(call, reply)\n',
    to: '',
    test: scenarios,
    foundBy: ['a call that is late']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'the place that a failed call may have taken is not freed',
    from: 'for (const { demands, place } of call.requests) this.#freeTaken(demands, place)',
    to: '',
    test: scenarios,
    foundBy: ['a reply that is lost']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'settlements that may have been applied are sent again',
    from: '    if (error instanceof NotRunError) {\n',
    to: '    if (error instanceof Error) {\n',
    test: scenarios,
    foundBy: ['a settlement that is lost']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'the places of a failed call are not renewed again',
    from: '    this.#places.renew(renewed)\n',
    to: '',
    test: scenarios,
    foundBy: ['a renewal that is lost']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'a place that a failed call may not have freed is not freed again',
    from: '    this.#freed.addAgain(call.freed)\n',
    to: '',
    test: scenarios,
    foundBy: ['a freed place whose call is lost']
  },
  {
    file: 'store/shared/held-places.ts',
    what: 'a freed place is renewed if it was due',
    from: '    this.#due.delete(place)\n    const caller',
    to: '    const caller',
    test: scenarios,
    foundBy: ['a place freed while its renewal waits']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'the places of all calls have the same names',
    from: '    this.#calls += 1\n',
    to: '',
    test: scenarios,
    foundBy: ['a call noted before the places that it took']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'the places of all processes have the same names',
    from: "randomBytes(9).toString('base64url')",
    to: "'process'",
    test: scenarios,
    foundBy: ['a process that stalls for 36 s']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'a process takes places after a stall before it renews its own',
    from: 'if (this.#clock() - this.#renewedAt >= renewalInterval) this.#renewAll()',
    to: '',
    test: scenarios,
    foundBy: ['a process that stalls for 36 s']
  },
  {
    file: 'store/shared/shard.ts',
    what: 'a place is not renewed',
    from: '      this.#places.add(taken.place)\n',
    to: '',
    test: scenarios,
    foundBy: ['a server that loses all']
  },
  {
    file: 'store/insured/insured-store.ts',
    what: 'what the primary has counted too late is not settled',
    from: 'for (const made of late) new InsuredAcquisition(made, store).settleUnused()',
    to: '',
    test: scenarios,
    foundBy: ['a fallback that decides meanwhile']
  },
  {
    file: 'store/shared/shared-acquisition.ts',
    what: 'an acquisition that is settled again is lowered by as much again',
    from: '    this.#counted -= lessCount\n',
    to: '',
    test: scenarios,
    foundBy: ['a settlement that is lost']
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
    test: 'test/stores/shared-settlements.test.ts',
    foundBy: ['the settlements of one window are one']
  }
]
