// The faults in the table of docs/shared-stores.md, and what a server counts, holds and has of
// places afterwards, to the last token.
import { readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { InsuredQuotaStore, MemoryQuotaStore } from '../../lib/index.js'
import { required } from '../../lib/required.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import type { Acquisition, Demand, QuotaStore } from '../../lib/store/store.js'
import { DriverServer } from '../support/driver-server.js'
import { demand, estimate } from '../support/told-store.js'
import { until } from '../support/until.js'
import { Network, type Link, type Message } from './network.js'
import { VirtualTime } from './virtual-time.js'

const windowLength = 60_000
const placeDuration = 30_000
const renewalInterval = 10_000
const longestCallTime = 2_500

/** Tokens of alice, of which there are six in a window. */
function tokens (amount: number): Demand {
  return demand('alice', estimate(amount, { counters: 'tokens', limit: 6 }))
}

/** A place of alice. */
function place (limit = 6): Demand {
  return demand('alice', { counters: 'places', limit, isEstimate: true, window: null })
}

/** Asks for demands, each of which is admitted. */
async function take (store: QuotaStore, ...demands: Demand[]): Promise<Acquisition[]> {
  const found: Acquisition[] = []
  for (const acquisition of await store.acquire(demands)) {
    if (acquisition?.admitted !== true) throw new Error('a demand is not admitted')
    found.push(acquisition)
  }
  return found
}

/** Takes as much off what was counted, and off what is held. */
async function settle (
  store: QuotaStore,
  acquisition: Acquisition | undefined,
  count: number,
  held = count
): Promise<void> {
  await store.settle?.(required(acquisition, 'what was acquired').receipt, { count, held })
}

/** Lets happen what needs neither a message nor time. */
async function someTurns (): Promise<void> {
  for (let turns = 0; turns < 10; turns++) await turn()
}

/** A server with the time of the test, and processes that count on it over a network. */
class Scene {
  readonly time = new VirtualTime()
  readonly network = new Network()
  readonly server = new DriverServer(() => this.time.now)

  constructor (t: Test) {
    this.time.start()
    t.teardown(() => {
      this.time.stop()
    })
  }

  process (): { store: SharedStore; link: Link } {
    const link = { isAlive: true, troubledAt: -Infinity }
    const driver = this.network.driverTo(this.server, link)
    return { store: new SharedStore({ rememberRejections: false }, driver), link }
  }

  /** Waits for the next message, and takes it. */
  async next (kind: Message['kind']): Promise<Message> {
    await until(`a ${kind} is on its way`, () => this.network.messages.length > 0)
    const message = required(this.network.take(0), 'the message')
    if (message.kind !== kind) throw new Error(`a ${message.kind} is on its way, not a ${kind}`)
    return message
  }

  /** Delivers the next call and its reply, and returns what they lead to. */
  async deliver<Result>(result: Promise<Result>): Promise<Result> {
    ;(await this.next('call')).arrive()
    ;(await this.next('reply')).arrive()
    return await result
  }

  /** Makes time pass, with the timers of all processes. */
  async pass (milliseconds: number): Promise<void> {
    const tick = 500
    await someTurns()
    for (let left = milliseconds; left > 0; left -= tick) {
      this.time.advance(Math.min(left, tick))
      await someTurns()
    }
  }

  /** Asserts what the server counts and holds of alice's tokens, and how many places she has. */
  assertHas (t: Test, count: number, held: number, places: number, what: string): void {
    const window = this.server.window(tokens(1))
    const holds = [...(window?.heldByPeriod.values() ?? [])].reduce((sum, each) => sum + each, 0)
    const found = [window?.count ?? 0, holds, this.server.places(place()).length]
    t.same(found, [count, held, places], what)
  }
}

/** For each fault, by its name in the table: what happens. */
const scenarios: Record<string, (t: Test) => Promise<void>> = {
  'a call that is late: what it took is settled and freed when its reply arrives': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const rejected = t.rejects(take(store, tokens(4), place()), /no response/)
    const late = await scene.next('call')
    await scene.pass(longestCallTime)
    await rejected
    late.arrive()
    const reply = await scene.next('reply')
    scene.assertHas(t, 4, 4, 1, 'it does what it says')
    reply.arrive()
    await scene.deliver(Promise.resolve())
    scene.assertHas(t, 4, 4, 0, 'until the next call frees the place')
    await scene.deliver(Promise.resolve())
    scene.assertHas(t, 0, 0, 0, 'and settles with 0, as the reply has arrived')
  },

  'a call that is lost: the request fails, and nothing is counted or sent again': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const rejected = t.rejects(take(store, tokens(4), place()), /lost/)
    ;(await scene.next('call')).reset()
    await rejected
    await scene.deliver(take(store, tokens(1)))
    scene.assertHas(t, 1, 1, 0, 'nothing is counted, and nothing is sent again')
  },

  'a reply that is lost: what was granted stays counted, and the place is freed': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const rejected = t.rejects(take(store, tokens(4), place()), /lost/)
    ;(await scene.next('call')).arrive()
    ;(await scene.next('reply')).reset()
    await rejected
    scene.assertHas(t, 4, 4, 1, 'what was granted is counted')
    await scene.deliver(take(store, tokens(1)))
    scene.assertHas(t, 5, 5, 0, 'and the next call frees the place')
    await scene.pass(windowLength)
    await scene.deliver(take(store, tokens(1)))
    scene.assertHas(t, 1, 1, 0, 'the next window has none of it')
  },

  'a settlement that is lost: its promise is rejected, and it is not sent again': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const [first] = await scene.deliver(take(store, tokens(2)))
    const [second] = await scene.deliver(take(store, tokens(2)))
    let rejected = 0
    const settleOne = (acquisition: Acquisition | undefined): void => {
      settle(store, acquisition, 1, 2).catch(() => {
        rejected += 1
      })
    }
    settleOne(first)
    ;(await scene.next('call')).reset()
    await someTurns()
    settleOne(second)
    // An empty call shows that the server works.
    await scene.deliver(Promise.resolve())
    ;(await scene.next('call')).arrive()
    ;(await scene.next('reply')).reset()
    await someTurns()
    t.equal(rejected, 2, 'both promises are rejected')
    scene.assertHas(t, 3, 2, 0, 'one of them has been applied')
    await scene.deliver(take(store, tokens(1)))
    scene.assertHas(t, 4, 3, 0, 'and neither is sent again')
    await scene.deliver(settle(store, second, 1, 0))
    scene.assertHas(t, 3, 3, 0, 'a later one lowers by the difference')
  },

  'a renewal that is lost: the place is renewed again after a second': async (t) => {
    const scene = new Scene(t)
    const { store, link } = scene.process()
    await scene.deliver(take(store, place()))
    await scene.pass(renewalInterval)
    ;(await scene.next('call')).reset()
    await scene.pass(1_000)
    await scene.deliver(Promise.resolve())
    link.isAlive = false
    await scene.pass(placeDuration - 1)
    scene.assertHas(t, 0, 0, 1, 'it is sent again after a second')
    await scene.pass(1)
    scene.assertHas(t, 0, 0, 0, 'and lasts for 30 s from then')
  },

  'a freed place whose call is lost: it is freed again after a second': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const [taken] = await scene.deliver(take(store, place()))
    const rejected = t.rejects(settle(store, taken, 1), /lost/)
    ;(await scene.next('call')).reset()
    await rejected
    scene.assertHas(t, 0, 0, 1, 'it stays taken')
    await scene.pass(1_000)
    await scene.deliver(Promise.resolve())
    scene.assertHas(t, 0, 0, 0, 'until it is freed again after a second')
  },

  'a place freed while its renewal waits: it is not renewed': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const [taken] = await scene.deliver(take(store, place()))
    scene.time.advance(renewalInterval)
    await scene.deliver(settle(store, taken, 1))
    scene.assertHas(t, 0, 0, 0, 'it is not renewed')
  },

  'a call that arrives twice: it counts twice, and takes and frees one place': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const taking = take(store, tokens(2), place())
    const call = await scene.next('call')
    call.arrive()
    call.arrive()
    for (const reply of [await scene.next('reply'), await scene.next('reply')]) reply.arrive()
    const [counted, taken] = await taking
    scene.assertHas(t, 4, 4, 1, 'it counts twice, and takes one place')
    const settling = settle(store, counted, 1, 2)
    const settlement = await scene.next('call')
    settlement.arrive()
    settlement.arrive()
    for (const reply of [await scene.next('reply'), await scene.next('reply')]) reply.arrive()
    await settling
    scene.assertHas(t, 2, 0, 1, 'a settlement lowers twice')
    await scene.deliver(settle(store, taken, 1))
    scene.assertHas(t, 2, 0, 0, 'and the place is freed once')
  },

  'calls in another order: a late call takes its place for 30 s, and no longer': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const rejected = t.rejects(take(store, tokens(2), place()), /no response/)
    const late = await scene.next('call')
    await scene.pass(longestCallTime)
    await rejected
    await scene.deliver(take(store, tokens(1)))
    scene.assertHas(t, 1, 1, 0, 'the later call has freed the place that the late one may take')
    late.arrive()
    await scene.next('reply')
    scene.assertHas(t, 3, 3, 1, 'which takes it')
    await scene.pass(placeDuration - 1)
    scene.assertHas(t, 3, 3, 1, 'for 30 s')
    await scene.pass(1)
    scene.assertHas(t, 3, 3, 0, 'and no longer, as it is not renewed')
  },

  'a process that stalls for 36 s: its next call takes its places again': async (t) => {
    const scene = new Scene(t)
    const { store: stalled } = scene.process()
    const { store: other } = scene.process()
    const [held] = await scene.deliver(take(stalled, place(1)))
    scene.time.now += 36_000
    scene.assertHas(t, 0, 0, 0, 'its place has ended after 30 s')
    await scene.deliver(take(other, place(1)))
    await scene.deliver(take(stalled, tokens(1)))
    scene.assertHas(t, 1, 1, 2, 'another process has taken it, so two requests run')
    const asked = Promise.resolve(other.acquire([place(2)]))
    t.match(await scene.deliver(asked), [{ admitted: false, count: 2 }])
    await scene.deliver(settle(stalled, held, 1))
    scene.assertHas(t, 1, 1, 1, 'until one ends')
  },

  'a process that is killed: its places are free after 30 s, and no earlier': async (t) => {
    const scene = new Scene(t)
    const { store: killed, link } = scene.process()
    const { store: other } = scene.process()
    await scene.deliver(take(killed, tokens(4), place()))
    link.isAlive = false
    await scene.pass(placeDuration - 1)
    scene.assertHas(t, 4, 4, 1, 'its place is taken for 30 s')
    await scene.pass(1)
    scene.assertHas(t, 4, 4, 0, 'and its tokens until the window ends')
    await scene.pass(windowLength - placeDuration)
    await scene.deliver(take(other, tokens(6)))
    scene.assertHas(t, 6, 6, 0, 'the next window has none of it')
  },

  'a server that loses all: places are taken again, and windows begin anew': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const [earlier] = await scene.deliver(take(store, tokens(4), place()))
    await scene.server.clear()
    await scene.deliver(take(store, tokens(5)))
    scene.assertHas(t, 5, 5, 0, 'a new window admits up to the limit again')
    await scene.deliver(settle(store, earlier, 4))
    scene.assertHas(t, 5, 5, 0, 'in which nothing of the lost one is settled')
    const renewed = scene.deliver(Promise.resolve())
    await scene.pass(renewalInterval)
    await renewed
    scene.assertHas(t, 5, 5, 1, 'and the place is taken again when it is renewed')
  },

  'a fallback that decides meanwhile: what comes too late is settled with 0': async (t) => {
    const scene = new Scene(t)
    const { store: primary } = scene.process()
    const fallback = new MemoryQuotaStore()
    const insured = new InsuredQuotaStore({ primary, fallback, timeout: 1_000, coolDown: 2_000 })
    const taking = take(insured, tokens(4))
    const late = await scene.next('call')
    await scene.pass(1_000)
    const [elsewhere] = await taking
    late.arrive()
    ;(await scene.next('reply')).arrive()
    scene.assertHas(t, 4, 4, 0, 'the primary has counted, too')
    await scene.deliver(Promise.resolve())
    scene.assertHas(t, 0, 0, 0, 'which is settled with 0')
    await scene.pass(2_000)
    await scene.deliver(take(insured, tokens(6)))
    scene.assertHas(t, 6, 6, 0, 'the primary knows nothing of what the fallback has admitted')
    await settle(insured, elsewhere, 1, 4)
    scene.assertHas(t, 6, 6, 0, 'and so it is settled in the fallback')
    t.match(fallback.peek(tokens(1)), { count: 3, held: 0 })
  }
}

for (const [name, scenario] of Object.entries(scenarios)) t.test(name, scenario)

t.test('the table of the page has these faults, in this order', async (t) => {
  const page = readFileSync('docs/shared-stores.md', 'utf8')
  const [, section = ''] = page.split('### What is late, repeated or lost\n')
  const [table = ''] = section.split('\n#')
  const [, , ...rows] = table.split('\n').filter((line) => line.startsWith('|'))
  const faults = rows.map((row) => row.split('|')[1]?.trim())
  t.same(faults, Object.keys(scenarios).map((name) => name.split(': ')[0]))
})
