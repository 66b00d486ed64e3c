// The twelve faults of gateways in docs/shared-stores.md: which of them cannot happen, and what
// the documented losses are, to the last token.
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import {
  InsuredQuotaStore,
  localAuthentication,
  MemoryQuotaStore,
  type QuotaDefinition
} from '../../lib/index.js'
import { SharedStore } from '../../lib/store/shared/shared-store.js'
import type { Call, Reply } from '../../lib/store/shared/driver.js'
import type { Acquisition, Demand, QuotaStore } from '../../lib/store/store.js'
import { required } from '../../lib/required.js'
import { matchExactly } from '../support/match-exactly.js'
import { createHost } from '../support/quota-host.js'
import { captureLog } from '../support/service.js'
import { until } from '../support/until.js'
import { setWallClock } from '../support/wall-clock.js'
import { DirectDriver, Network, SimulatedDriver, type Message } from './network.js'
import { leaseLength, Server, type Counter } from './server.js'
import { ServerTime } from './server-time.js'
import { VirtualTime } from './virtual-time.js'

const windowLength = 60_000
// Of tokens in a window, and of places.
const limit = 6
const tokensOfAlice = 'tokens alice'
const placesOfAlice = 'places alice'

/** Tokens of alice, which are held until they are settled. */
function tokens (least: number, most = least): Demand {
  return {
    counters: 'tokens',
    callerKey: 'alice',
    limit,
    least,
    most,
    isEstimate: true,
    window: windowLength,
    end: null
  }
}

/** A place of alice. */
function place (): Demand {
  return { ...tokens(1), counters: 'places', window: null }
}

/** Asks for one or more demands, each of which is admitted. */
async function admitted (store: QuotaStore, ...demands: Demand[]): Promise<Acquisition[]> {
  const found: Acquisition[] = []
  for (const acquisition of await store.acquire(demands)) {
    if (acquisition?.admitted !== true) throw new Error('a demand is not admitted')
    found.push(acquisition)
  }
  return found
}

/** Asks for one demand, which is admitted. */
async function take (store: QuotaStore, demand: Demand): Promise<Acquisition> {
  const [acquisition] = await admitted(store, demand)
  return required(acquisition, 'the acquisition')
}

/** The client of a process that can crash: from then on no call arrives, and none is answered. */
class ProcessDriver extends DirectDriver {
  calls = 0
  hasCrashed = false

  override async decide (call: Call): Promise<Reply> {
    if (this.hasCrashed) return await new Promise(() => {})
    this.calls += 1
    return await super.decide(call)
  }
}

/** A server with the time of the test, and processes that count on it. */
class Scene {
  readonly time = new VirtualTime()
  readonly network = new Network()
  readonly server = new Server(new ServerTime(() => this.time.now), () => {})

  constructor (t: Test) {
    this.time.start()
    t.teardown(() => {
      this.time.stop()
    })
  }

  /** A process whose calls and replies arrive at once. */
  process (): { store: SharedStore; driver: ProcessDriver } {
    const driver = new ProcessDriver(this.server)
    return { store: new SharedStore({}, 1, () => driver), driver }
  }

  /** The store of a process whose calls and replies arrive when the test delivers them. */
  remoteProcess (): SharedStore {
    const sender = { isAlive: true }
    const noted = (): void => {}
    const create = (): SimulatedDriver =>
      new SimulatedDriver(this.network, this.server, sender, noted)
    return new SharedStore({}, 1, create)
  }

  /** Waits for the next message, and takes it. */
  async next (kind: Message['kind']): Promise<Message> {
    await until(`a ${kind} is on its way`, () => this.network.messages.length > 0)
    const message = required(this.network.take(0), 'the message')
    if (message.kind !== kind) throw new Error(`a ${message.kind} is on its way, not a ${kind}`)
    return message
  }

  /** Delivers the next call and its reply. */
  async deliver (): Promise<void> {
    ;(await this.next('call')).arrive()
    ;(await this.next('reply')).arrive()
  }

  /** Waits for the next call of a process. */
  async renewed (driver: ProcessDriver): Promise<void> {
    const { calls } = driver
    await until('the lease is renewed', () => driver.calls > calls)
  }

  /** What the server counts for alice, in the window that it opened last. */
  get counter (): Counter {
    return required(this.server.counters.get(tokensOfAlice), 'the counter')
  }

  assertCounts (t: Test, count: number, held: number, what: string): void {
    matchExactly(t, this.counter, { count, held }, what)
  }

  /** Asserts how many places of alice the server knows at this moment. */
  assertPlaces (t: Test, places: number, what: string): void {
    this.server.freeEnded()
    t.equal(this.server.totals.get(placesOfAlice), places, what)
  }
}

const tokensOfMinute: QuotaDefinition = { perMinute: { tokens: limit }, cost: 4 }

/** Each fault by its name in the table. */
const scenarios: Record<string, (t: Test) => Promise<void>> = {
  'a reservation is kept after a crash': async (t) => {
    const scene = new Scene(t)
    const { store, driver } = scene.process()
    const { store: other, driver: alive } = scene.process()
    await admitted(store, tokens(4), place())
    driver.hasCrashed = true
    const [, placeOfOther] = await admitted(other, tokens(2), place())
    scene.assertCounts(t, 6, 6, 'what was counted stays')
    scene.assertPlaces(t, 2, 'and so does the place')
    for (const ms of [10_000, 10_000, 9_999]) {
      scene.time.advance(ms)
      if (ms === 10_000) await scene.renewed(alive)
      scene.assertPlaces(t, 2, 'until the lease ends')
    }
    scene.time.advance(1)
    scene.assertPlaces(t, 1, 'the process that lives has renewed its lease')
    await other.settle(required(placeOfOther, 'the place'), 0, null)
    scene.assertPlaces(t, 0, 'and frees its place')
    matchExactly(t, await other.acquire([tokens(1)]), [{ admitted: false, count: 6, held: 6 }])
    scene.time.advance(windowLength - leaseLength)
    const next = await take(other, tokens(1))
    matchExactly(t, next, { count: 1, held: 1 }, 'in the next window')
  },

  'settled twice after a retry': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const acquisition = await take(store, tokens(4))
    await take(store, tokens(2))
    await store.settle(acquisition, 1, null)
    await store.settle(acquisition, 1, null)
    scene.assertCounts(t, 3, 2, 'a host that settles again changes nothing')

    const remote = scene.remoteProcess()
    const asking = take(remote, tokens(3))
    await scene.deliver()
    const settling = remote.settle(await asking, 2, null)
    const call = await scene.next('call')
    t.equal(call.canBeRepeated, false, 'a client must not send it again')
    call.arrive()
    call.arrive()
    scene.assertCounts(t, 4, 0, 'one that does settles twice: 6 less 1 less 1, and held 5 less 6')
    for (const reply of [await scene.next('reply'), await scene.next('reply')]) reply.arrive()
    await settling
  },

  'subtracted in the next window': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const acquisition = await take(store, tokens(4))
    scene.time.advance(windowLength)
    await take(store, tokens(3))
    await store.settle(acquisition, 1, null)
    scene.assertCounts(t, 3, 3, 'the next window counts and holds what it did')
  },

  'a refund opens a window': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const less = await take(store, tokens(2))
    const more = await take(store, tokens(2))
    const { id } = scene.counter
    scene.time.advance(windowLength)
    await store.settle(less, 1, null)
    matchExactly(t, scene.counter, { id, opened: 0 }, 'no window is opened')
    scene.time.advance(5_000)
    await store.settle(more, 5, null)
    const opened = windowLength + 5_000
    matchExactly(
      t,
      scene.counter,
      { id: id + 1, opened, count: 3, held: 0 },
      'more than was granted opens one'
    )
  },

  'a hold is counted as used': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const acquisition = await take(store, tokens(2, 4))
    matchExactly(t, acquisition, { granted: 4, count: 4, held: 4 }, 'nothing is used yet')
    await take(store, tokens(2))
    scene.assertCounts(t, 6, 6, 'a second request holds the rest')
    await store.settle(acquisition, 3, null)
    scene.assertCounts(t, 5, 2, 'what was used is counted and no longer held')
    await store.settle(acquisition, 0, null)
    scene.assertCounts(t, 2, 2, 'a later report holds nothing, either')
  },

  'an overrun is hidden by a clamp': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const acquisition = await take(store, tokens(4))
    await store.settle(acquisition, 9, null)
    scene.assertCounts(t, 9, 0, 'more than the limit is counted')
    matchExactly(t, await store.acquire([tokens(0, 1)]), [{ admitted: false, count: 9, held: 0 }])
    await store.settle(acquisition, 7, null)
    scene.assertCounts(t, 7, 0, 'and less is taken from what was truly counted')
  },

  'two replicas have a stale count': async (t) => {
    const scene = new Scene(t)
    const one = scene.remoteProcess()
    const other = scene.remoteProcess()
    const asked = [one.acquire([tokens(4)]), other.acquire([tokens(1, 4)])]
    await until('both calls are on their way', () => scene.network.messages.length === 2)
    for (const call of [await scene.next('call'), await scene.next('call')]) call.arrive()
    for (const reply of [await scene.next('reply'), await scene.next('reply')]) reply.arrive()
    matchExactly(
      t,
      await Promise.all(asked),
      [[{ granted: 4, count: 4 }], [{ granted: 2, count: 6 }]],
      'the second decision knows the first'
    )

    const replica = { ...scene.counter, count: 4, held: 4 }
    scene.server.counters.set(tokensOfAlice, replica)
    const late = other.acquire([tokens(2)])
    await scene.deliver()
    matchExactly(t, await late, [{ granted: 2, count: 6 }], 'a failover has lost 2: 8 are granted')
  },

  'a stream ends without a report': async (t) => {
    const log = captureLog()
    const quotas = {
      granted: tokensOfMinute,
      unreported: { ...tokensOfMinute, unreported: 3 }
    }
    const names = Object.keys(quotas)
    const { begin, standings } = await createHost(names, { quotas }, { logger: log.logger })
    const { end } = await begin()
    matchExactly(t, await standings(names), [
      { count: 4, held: 4 },
      { count: 4, held: 4 }
    ])
    await end()
    matchExactly(t, await standings(names), [
      { count: 4, held: 0 },
      { count: 3, held: 0 }
    ])
    matchExactly(t, log.problems(), [
      {
        level: 40,
        quota: 'granted',
        unit: 'tokens',
        msg: /^a request has ended, and its tokens were not reported with fastify.quotaCharge; /
      }
    ])
  },

  'a late report after a reset': async (t) => {
    const scene = new Scene(t)
    const { store } = scene.process()
    const less = await take(store, tokens(3))
    const more = await take(store, tokens(3))
    const { id } = scene.counter
    scene.time.advance(windowLength)
    await take(store, tokens(1))
    await store.settle(less, 0, null)
    scene.assertCounts(t, 1, 1, 'less changes nothing')
    await store.settle(more, 5, null)
    scene.assertCounts(t, 3, 1, 'more is counted in the new window')
    t.equal(scene.counter.id, id + 1)
    scene.server.loseAll()
    await take(store, tokens(1))
    await store.settle(more, 0, null)
    scene.assertCounts(t, 1, 1, 'less changes nothing on a server that has lost everything')
  },

  'a budget opens early in another zone': async (t) => {
    const set = setWallClock(t)
    let timeZone = 'Asia/Tokyo'
    const quotas = { budget: { perDay: 2, timeZone: () => timeZone } }
    const { statuses, standings } = await createHost('budget', { quotas })
    const berlin = Date.parse('2026-11-25T23:00Z')
    set('2026-11-25T14:00Z')
    timeZone = 'Europe/Berlin'
    t.same(await statuses(1), [200])
    timeZone = 'Asia/Tokyo'
    t.same(await statuses(2), [200, 429], 'the day of Tokyo ends first, and opens no window')
    matchExactly(t, await standings(['budget']), [{ count: 2, resetsAt: berlin }])
    set('2026-11-25T15:00Z')
    t.same(await statuses(3), [200, 200, 429], 'the next day of Tokyo ends later')
    timeZone = 'Europe/Berlin'
    set(berlin)
    t.same(await statuses(3), [200, 200, 429], 'and so does the next day of Berlin')
  },

  "a fallback's spending is lost": async (t) => {
    const scene = new Scene(t)
    const primary = scene.remoteProcess()
    const fallback = new MemoryQuotaStore()
    const insured = new InsuredQuotaStore({ primary, fallback, timeout: 1_000, coolDown: 5_000 })
    const first = take(insured, tokens(4))
    await scene.deliver()
    matchExactly(t, await first, { count: 4 })
    const second = take(insured, tokens(3))
    ;(await scene.next('call')).reset()
    const elsewhere = await second
    matchExactly(t, elsewhere, { granted: 3, count: 3 }, 'the fallback knows nothing of the 4')
    t.equal(insured.state, 'fallback')
    scene.time.advance(5_000)
    const third = take(insured, tokens(2))
    await scene.deliver()
    matchExactly(t, await third, { granted: 2, count: 6 }, 'the primary knows nothing of the 3')
    await insured.settle?.(elsewhere, 2, null)
    scene.assertCounts(t, 6, 6, 'what was used of them is settled in the fallback')
    matchExactly(t, fallback.peek(tokens(0)), { count: 2, held: 0 })
  },

  'an extension outlives its request': async (t) => {
    const scene = new Scene(t)
    const authentication = localAuthentication('alice')
    const quotas = { tokens: tokensOfMinute, places: { concurrent: 2 } }
    const { store, driver } = scene.process()
    const { app } = await createHost([], { quotas, store })
    const countsOf = () => [...scene.server.counters.values()]
    const placesOf = () => [...scene.server.totals.values()]

    const permit = await app.quotaAcquire(authentication, ['tokens', 'places'])
    t.equal(await permit.extend(2), null)
    matchExactly(t, countsOf(), [{ count: 6, held: 6 }])
    await permit.charge(5)
    await permit.end()
    matchExactly(t, countsOf(), [{ count: 5, held: 0 }], 'the end settles the extension')
    t.same(placesOf(), [0])

    scene.time.advance(windowLength)
    const lost = await app.quotaAcquire(authentication, ['tokens', 'places'])
    t.equal(await lost.extend(1), null)
    driver.hasCrashed = true
    scene.time.advance(leaseLength)
    scene.server.freeEnded()
    matchExactly(t, countsOf(), [{ count: 5, held: 5 }], 'a crash leaves it until the window ends')
    t.same(placesOf(), [0], 'and the place until the lease ends')
  }
}

for (const [name, scenario] of Object.entries(scenarios)) t.test(name, scenario)

t.test('the table of the page has these rows, in this order', async (t) => {
  const page = readFileSync('docs/shared-stores.md', 'utf8')
  const [, section = ''] = page.split('### Twelve faults of gateways\n')
  const [table = ''] = section.split('\n###')
  const [, , ...rows] = table.split('\n').filter((line) => line.startsWith('|'))
  const faults = rows.map((row) => row.split('|')[1]?.trim())
  t.equal(faults.length, 12)
  t.same(faults, Object.keys(scenarios))
})
