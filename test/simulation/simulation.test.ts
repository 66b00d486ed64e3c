// Random steps of processes, servers and the network between them, with the real stores.
import fc from 'fast-check'
import t from 'tap'
import type { Call, Decided } from '../../lib/store/shared/driver.js'
import type { Acquisition } from '../../lib/store/store.js'
import { assertProperty, seed } from '../support/property.js'
import { stepOf } from './steps.js'
import { Violation } from './ledger.js'
import type { SettlingStore } from './observed-store.js'
import { World, type Faults, type Kind, type Step } from './world.js'

// How many runs of about 60 steps each kind of store has.
const walks = Number(process.env.RANDOM_WALKS ?? 35)
const mostSteps = 120
// How many runs a planted fault has at most before it is found.
const walksWithFault = 400

async function simulate (kind: Kind, steps: readonly Step[], faults?: Faults): Promise<void> {
  const world = new World(kind, faults)
  try {
    await world.start()
    for (const each of steps) await world.run(each)
    await world.finish()
  } finally {
    world.stop()
  }
}

const property = (kind: Kind, faults?: Faults) =>
  fc.asyncProperty(fc.array(stepOf, { minLength: 1, maxLength: mostSteps, size: 'max' }), (steps) =>
    simulate(kind, steps, faults)
  )

const kinds: Record<Kind, string> = {
  shared: 'a shared store counts what was used',
  'two shards': 'a store with two shards counts what was used',
  insured: 'an insured store counts what was used, or its fallback',
  'at the cap': 'callers who share the overflow counter count what they used',
  permits: 'permits settle what they were granted, extended and charged'
}

for (const kind of ['shared', 'two shards', 'insured', 'at the cap', 'permits'] as const) {
  t.test(`in random steps, ${kinds[kind]}`, async () => {
    await assertProperty(property(kind), { numRuns: walks, endOnFailure: false })
  })
}

/** A store whose calls or replies are changed on their way. */
const withCall = (call: (call: Call) => Call): Faults => ({ network: { call } })
const withDecided = (change: (decided: Decided) => Decided): Faults => ({
  network: {
    reply: ({ decided, latestNumber }) => ({
      decided: decided.map((each) => each?.map(change)),
      latestNumber
    })
  }
})
const withStore = (change: (store: SettlingStore) => Partial<SettlingStore>): Faults => ({
  store: (store) => ({
    acquire: (demands) => store.acquire(demands),
    settle: (acquisition, used, end) => store.settle(acquisition, used, end),
    ...change(store)
  })
})

/** Permits whose calls of their store are changed. */
const withAsked = (change: (store: SettlingStore) => Partial<SettlingStore>): Faults => {
  const { store } = withStore(change)
  return store === undefined ? {} : { asked: store }
}

const inSharedStore: Record<string, Faults> = {
  'a server admits one more than the limit': { server: { extraRoom: 1 } },
  'a server grants all that is asked for': { server: { grantsAll: true } },
  'a server counts a demand of a request that another one rejects': {
    server: { countsPartly: true }
  },
  'a server gives back in another window': { server: { settlesAnyWindow: true } },
  'a server gives back twice': { server: { settlesTwice: true } },
  'a server gives nothing back': { server: { keepsCount: true } },
  'a server holds what was settled': { server: { keepsHeld: true } },
  'a server does a late call': { server: { acceptsLate: true } },
  'a server adds what a process says that it holds': { server: { addsHoldings: true } },
  'a server never ends a lease': { server: { freesNothing: true } },
  'a server ends leases before they are renewed': { server: { leaseLength: 8_000 } },
  'a server keeps what earlier generations held': { server: { keepsGenerations: true } },
  'a server ends windows early': { server: { windowPart: 0.001 } },
  'a server uses the id of a window twice': { server: { reusesIds: true } },
  'a server whose clock is set back counts backwards': { server: { runsBackwards: true } },
  'a server counts a request that must be sent again': { server: { countsUndecided: true } },
  'a server says that it knows a lease that it has lost': { server: { knowsEachLease: true } },
  'a server forgets which process took a place': { server: { forgetsTaken: true } },
  'a reply has the requests in another order': { server: { mixesReplies: true } },
  'a reply grants more than was counted': withDecided((decided) => ({
    ...decided,
    granted: decided.granted + (decided.admitted ? 1 : 0)
  })),
  'a reply names another window': withDecided((decided) => ({
    ...decided,
    windowId: decided.windowId + 1
  })),
  'a reply admits what was rejected': withDecided((decided) => ({ ...decided, admitted: true })),
  'a call loses its settlements': withCall((call) => ({ ...call, settlements: [] })),
  'a call loses what its process holds': withCall((call) => ({ ...call, holdings: [] })),
  'a call has its settlements twice': withCall((call) => ({
    ...call,
    settlements: [...call.settlements, ...call.settlements]
  })),
  'a process never begins a generation': withCall((call) => ({
    ...call,
    lease: call.lease === null ? null : { ...call.lease, generation: 1 }
  })),
  'a store settles more than was used': withStore((store) => ({
    settle: (acquisition, used, end) => store.settle(acquisition, used + 1, end)
  })),
  'a store does not settle': withStore(() => ({ settle: () => {} })),
  'a store does not say when it has settled': withStore(() => ({
    settle: () => new Promise(() => {})
  })),
  'a store does not say that settling has failed': withStore((store) => ({
    settle: async (acquisition, used, end) => {
      try {
        await store.settle(acquisition, used, end)
      } catch {}
    }
  }))
}

const atTheCap: Record<string, Faults> = {
  'a server tracks more callers than the cap': { server: { extraCallers: 1 } },
  'a server settles the counter of a caller in place of the overflow counter': {
    server: { settlesOwnCounter: true }
  },
  'a call does not say that the overflow counter was used': withCall((call) => ({
    ...call,
    settlements: call.settlements.map((settlement) => ({ ...settlement, overflow: false }))
  }))
}

const inPermits: Record<string, Faults> = {
  'a permit settles what it was granted': withAsked((store) => ({
    settle: (acquisition, _used, end) => store.settle(acquisition, acquisition.granted, end)
  })),
  'a permit keeps its place': withAsked((store) => ({
    settle: (acquisition, used, end) =>
      acquisition.windowRemaining === null ? undefined : store.settle(acquisition, used, end)
  })),
  'a permit says nothing of a settlement that has failed': withAsked((store) => ({
    settle: async (acquisition, used, end) => {
      try {
        await store.settle(acquisition, used, end)
      } catch {}
    }
  })),
  'a permit does not settle its extensions': withAsked(withoutExtensions)
}

/** Settles no extension. */
function withoutExtensions (store: SettlingStore): Partial<SettlingStore> {
  const extensions = new Set<Acquisition>()
  return {
    acquire: async (demands) => {
      const acquisitions = await store.acquire(demands)
      // In steps.ts, only an extension asks for three tokens and no less.
      const isExtension = demands.every(({ least, most }) => least === 3 && most === 3)
      for (const acquisition of acquisitions) {
        if (isExtension && acquisition !== null) extensions.add(acquisition)
      }
      return acquisitions
    },
    settle: (acquisition, used, end) =>
      extensions.has(acquisition) ? undefined : store.settle(acquisition, used, end)
  }
}

const planted: readonly [Kind, Record<string, Faults>][] = [
  ['shared', inSharedStore],
  ['at the cap', atTheCap],
  ['permits', inPermits]
]

for (const [kind, faultsOfKind] of planted) {
  for (const [what, faults] of Object.entries(faultsOfKind)) {
    t.test(`the simulation finds that ${what}`, async (t) => {
      const { errorInstance, numRuns } = await fc.check(property(kind, faults), {
        numRuns: walksWithFault,
        endOnFailure: true,
        seed
      })
      t.ok(errorInstance instanceof Violation, String(errorInstance))
      t.comment(`in run ${numRuns}`)
    })
  }
}
