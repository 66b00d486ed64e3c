// All states of the protocol at small sizes. docs/shared-stores.md describes it.
import t, { type Test } from 'tap'
import { explore, type Fault, type RequestSetup, type Safeguard, type Setup } from './protocol.js'

const none = { windowEnd: 0, crash: 0, lost: 0, late: 0 }
const faults = ['windowEnd', 'crash', 'lost', 'late'] as const

/** Two processes, whose requests use less or more than they hold. */
const oneCaller: readonly RequestSetup[] = [
  { process: 0, caller: 'A', estimate: 2, used: [1, 3] },
  { process: 1, caller: 'A', estimate: 2, used: [1, 3] }
]
const twoCallers: readonly RequestSetup[] = [
  { process: 0, caller: 'A', estimate: 2, used: [3] },
  { process: 1, caller: 'A', estimate: 2, used: [1] },
  { process: 1, caller: 'B', estimate: 1, used: [1] }
]

function setupWith (
  requests: readonly RequestSetup[],
  happening: readonly Fault[],
  without?: Safeguard
): Setup {
  const counts = { ...none }
  for (const fault of happening) counts[fault] = 1
  const setup = { limit: 3, requests, faults: counts }
  return without === undefined ? setup : { ...setup, without }
}

function assertHolds (t: Test, setup: Setup, what: string): void {
  const { states, ends, violation } = explore(setup)
  t.equal(violation, null, what)
  t.ok(ends > 0)
  t.comment(`${what}: ${states} states, of which ${ends} are ends`)
}

t.test('the properties hold in every order of steps, with each fault', async (t) => {
  assertHolds(t, setupWith(oneCaller, []), 'no fault')
  for (const fault of faults) assertHolds(t, setupWith(oneCaller, [fault]), fault)
  assertHolds(t, setupWith(twoCallers, []), 'two callers, no fault')
})

// All faults together take minutes and a gigabyte.
if (process.env.SIMULATION === 'full') {
  t.test('the properties hold in every order of steps, with all faults', async (t) => {
    for (const [index, first] of faults.entries()) {
      for (const second of faults.slice(index + 1)) {
        assertHolds(t, setupWith(oneCaller, [first, second]), `${first} and ${second}`)
      }
    }
    assertHolds(t, setupWith(oneCaller, faults), 'all faults')
    assertHolds(t, setupWith(twoCallers, faults), 'two callers, all faults')
  })
}

const needed: Record<Safeguard, [happening: readonly Fault[], property: RegExp]> = {
  'window ids': [['windowEnd', 'lost'], /counted in the end/],
  'ids used once': [['windowEnd', 'lost'], /counted in the end/],
  'numbers of calls': [['crash', 'late'], /no place is lost/],
  'numbers of places': [['crash', 'lost'], /no place is lost/],
  generations: [['crash', 'lost'], /no place is lost/],
  leases: [['crash', 'lost'], /no place is lost/],
  'late settlements': [['crash', 'late'], /held returns to 0/]
}

for (const [without, [happening, property]] of Object.entries(needed)) {
  t.test(`without ${without}, a property is violated`, async (t) => {
    const { violation } = explore(setupWith(oneCaller, happening, without as Safeguard))
    t.match(violation?.property, property)
    t.comment(violation?.steps.join('; '))
  })
}
