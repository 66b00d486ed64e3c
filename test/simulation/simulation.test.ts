// Random steps of processes, servers and the network between them, with the real stores.
import fc from 'fast-check'
import t from 'tap'
import type { Call, Decided } from '../../lib/store/shared/driver.js'
import { assertProperty, seed } from '../support/property.js'
import { stepOf } from './steps.js'
import { World, type Faults, type Kind, type SettlingStore, type Step } from './world.js'

// How many runs of about 60 steps each kind of store has.
const walks = Number(process.env.RANDOM_WALKS ?? 60)
const mostSteps = 120
// How many runs a planted fault has at most before it is found.
const walksWithFault = 400

async function simulate (kind: Kind, steps: readonly Step[], faults?: Faults): Promise<void> {
  const world = new World(kind, faults)
  try {
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

for (const kind of ['shared', 'two shards', 'insured'] as const) {
  t.test(`in random steps, a store that is ${kind} counts what was used`, async () => {
    await assertProperty(property(kind), { numRuns: walks, endOnFailure: false })
  })
}

/** A store whose calls or replies are changed on their way. */
const withCall = (call: (call: Call) => Call): Faults => ({ network: { call } })
const withDecided = (change: (decided: Decided) => Decided): Faults => ({
  network: {
    reply: ({ decided, isLeaseKnown }) => ({
      decided: decided.map((each) => each?.map(change)),
      isLeaseKnown
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

const planted: Record<string, Faults> = {
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
  'a server ends windows early': { server: { windowPart: 0.5 } },
  'a server uses the id of a window twice': { server: { reusesIds: true } },
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

for (const [what, faults] of Object.entries(planted)) {
  t.test(`the simulation finds that ${what}`, async (t) => {
    const { failed, numRuns, errorInstance } = await fc.check(property('shared', faults), {
      numRuns: walksWithFault,
      endOnFailure: true,
      seed
    })
    t.ok(failed)
    t.comment(`in run ${numRuns}: ${String(errorInstance)}`)
  })
}
