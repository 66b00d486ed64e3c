// Closing: when the server has closed, and before the onClose hooks of the host run, no place is
// taken and everything is charged.
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import quotaPlugin, {
  callerKey,
  MemoryQuotaStore,
  type Demand,
  type QuotaPermit,
  type QuotaStore,
  type Settled
} from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { demand, place } from '../support/demands.js'
import { matchExactly } from '../support/match-exactly.js'
import { listen } from '../support/raw-socket.js'
import { createWaitingStore, RemoteStore } from '../support/remote-store.js'
import { asAlice, createServer, fromHeader } from '../support/server.js'
import { until } from '../support/until.js'

// scripts/nodes.sh runs this file with Fastify 6 in place of `fastify`.
const versions: [string, typeof Fastify][] = [
  ['fastify', Fastify],
  ['fastify-lowest', createRequire(import.meta.url)('fastify-lowest')]
]
const streams = 5
const alice = String(callerKey(asAlice()))
const places = demand(alice, place())
const tokens = demand(alice, { counters: 'tokens.tokens.minute', isEstimate: true, unit: 'tokens' })

/**
 * A store on a server that takes some turns to answer, and that fails once the host has closed its
 * client.
 */
function slowStore (
  memory: MemoryQuotaStore,
  client: { isOpen: boolean; asked: number }
): QuotaStore {
  async function answer<Result> (run: () => Result): Promise<Result> {
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
    if (!client.isOpen) throw new Error('the client is closed')
    return run()
  }
  return {
    acquire (demands: readonly Demand[]) {
      client.asked += 1
      return answer(() => memory.acquire(demands))
    },
    settle: (receipt: unknown, less: Settled) =>
      answer(() => {
        memory.settle(receipt, less)
      })
  }
}

// A server that closes waits for stores for ten times as long, in milliseconds.
const partOfClosingTime = 100

/** Lets the waits of a server that closes pass with a clock. */
function waitWith (t: Test, clock: VirtualClock): void {
  const { setTimeout: setReal, clearTimeout: clearReal } = globalThis
  t.teardown(() => {
    Object.assign(globalThis, { setTimeout: setReal, clearTimeout: clearReal })
  })
  const virtual = new Set<unknown>()
  Object.assign(globalThis, {
    setTimeout (run: () => void, ms?: number) {
      if (ms !== partOfClosingTime) return setReal(run, ms)
      const timer = clock.setTimeout(run, ms)
      virtual.add(timer)
      return timer
    },
    clearTimeout (timer: unknown) {
      if (virtual.has(timer)) clock.clearTimeout(timer)
      else clearReal(Number(timer))
    }
  })
}

/** Closes a server, for whose waits virtual time passes. */
async function closeIn (clock: VirtualClock, app: FastifyInstance): Promise<void> {
  let isClosed = false
  const closing = app.close().then(() => {
    isClosed = true
  })
  await until('the server has closed', () => {
    if (!isClosed) clock.advance(100)
    return isClosed
  })
  await closing
}

// How many settlements a busy server applies together, and how long that takes in virtual time.
const settledTogether = 20
const settlingTime = 900

/** A store on a busy server. */
class BusyStore implements QuotaStore {
  readonly memory: MemoryQuotaStore
  readonly #clock: VirtualClock
  readonly #settling: (() => void)[] = []
  /** After how many settlements it becomes silent. */
  readonly #most: number
  settled = 0

  constructor (clock: VirtualClock, most: number) {
    this.memory = new MemoryQuotaStore({ clock: clock.now })
    this.#clock = clock
    this.#most = most
  }

  acquire (demands: readonly Demand[]) {
    return this.memory.acquire(demands)
  }

  settle (receipt: unknown, less: Settled): Promise<void> {
    if (this.#settling.length === 0) this.#clock.setTimeout(this.#settleSome, settlingTime)
    return new Promise((resolve) => {
      this.#settling.push(() => {
        this.memory.settle(receipt, less)
        this.settled += 1
        resolve()
      })
    })
  }

  readonly #settleSome = (): void => {
    if (this.settled >= this.#most) return
    for (const settle of this.#settling.splice(0, settledTogether)) settle()
    if (this.#settling.length > 0) this.#clock.setTimeout(this.#settleSome, settlingTime)
  }
}

async function start (
  t: Test,
  create: typeof Fastify,
  forceCloseConnections: boolean | 'idle',
  preClose = async (): Promise<void> => {}
) {
  const memory = new MemoryQuotaStore()
  const client = { isOpen: true, asked: 0 }
  const app: FastifyInstance = create({ forceCloseConnections })
  const atClose: unknown[] = []
  // Registered before and after the plugin, as the hook that closes the store's client may be.
  const close = async () => {
    atClose.push([memory.peek(places)?.count, memory.peek(tokens)?.count])
    client.isOpen = false
  }
  app.addHook('onClose', close)
  app.addHook('preClose', preClose)
  await app.register(quotaPlugin, {
    operations: [],
    authentication: fromHeader,
    store: slowStore(memory, client),
    quotas: {
      streams: { concurrent: 10 },
      tokens: { perMinute: { tokens: 10_000 }, cost: 50, unreported: 70 }
    }
  })
  app.addHook('onClose', close)
  const ends: (() => void)[] = []
  app.post('/stream', { config: { quota: ['streams', 'tokens'] } }, async (request, reply) => {
    reply.hijack()
    reply.raw.writeHead(200)
    reply.raw.write('begun')
    await new Promise<void>((resolve) => {
      ends.push(resolve)
    })
    request.quota.charge(100)
    reply.raw.end('done')
  })
  app.post('/permit', async (request) => {
    await app.quotaAcquire(request, ['streams', 'tokens'])
  })
  // The documented shutdown: streams end when the server begins to close.
  let endsStreams = true
  app.addHook('preClose', async () => {
    if (endsStreams) for (const end of ends) end()
  })
  const port = await listen(app)
  async function send (url: string): Promise<void> {
    const socket = connect(port, '127.0.0.1')
      .on('error', () => {})
      .resume()
    t.teardown(() => {
      socket.destroy()
    })
    await once(socket, 'connect')
    // A connection that is kept can be closed only after its time limit, if its response ends after
    // the server has closed the idle ones.
    const headers = 'Host: h\r\nContent-Length: 0\r\nConnection: close'
    socket.write(`POST ${url} HTTP/1.1\r\n${headers}\r\n\r\n`)
  }
  for (let stream = 0; stream < streams; stream++) await send('/stream')
  await until('all streams have begun', () => ends.length === streams)
  return {
    app,
    memory,
    client,
    atClose,
    send,
    leaveStreamsOpen: () => {
      endsStreams = false
    }
  }
}

const permits = 200
// After how many settlements the store becomes silent, how many are applied, and how long the
// server may take to close in virtual time. Each permit has two.
const silences: [what: string, most: number, settled: number, longest: number][] = [
  ['it goes on', Infinity, 2 * permits, 2 * permits * (settlingTime / settledTogether) + 500],
  ['it never responds', 0, 0, 1500],
  ['it stops', 100, 100, 5 * settlingTime + 1500]
]

for (const [version, create] of versions) {
  t.test(`a server has the method onClose, which nothing documents: ${version}`, async (t) => {
    const message = 'lib/start/server-end.ts needs another way to settle before the host closes'
    t.equal(typeof Reflect.get(create(), 'onClose'), 'function', message)
  })
  for (const forceCloseConnections of [false, 'idle', true] as const) {
    t.test(
      `streams that end while the server closes are settled: ${version}, ${forceCloseConnections}`,
      async (t) => {
        const { app, memory, atClose } = await start(t, create, forceCloseConnections)
        t.same([memory.peek(places)?.count, memory.peek(tokens)?.count], [streams, 50 * streams])
        await app.close()
        t.same(
          atClose,
          [[0, 100 * streams], [0, 100 * streams]],
          'before each onClose hook of the host'
        )
      }
    )
  }
  t.test(
    `streams that nobody ends are settled without a report when the server has closed: ${version}`,
    async (t) => {
      const { app, atClose, leaveStreamsOpen } = await start(t, create, true)
      leaveStreamsOpen()
      await app.close()
      t.same(atClose, [[0, 70 * streams], [0, 70 * streams]])
    }
  )
  t.test(`a decision that closing waits for is settled before onClose: ${version}`, async (t) => {
    const memory = new MemoryQuotaStore()
    const acquire = t.capture(memory, 'acquire', memory.acquire)
    const store = slowStore(memory, { isOpen: true, asked: 0 })
    let authenticate = (): void => {}
    const app: FastifyInstance = create({ forceCloseConnections: true })
    const counts: unknown[] = []
    app.addHook('onClose', async () => {
      counts.push([acquire().length, memory.peek(places)?.count])
    })
    const asked = new Promise<void>((resolve) => {
      app.register(quotaPlugin, {
        operations: [],
        store,
        quotas: { streams: { concurrent: 10 } },
        authentication: () => {
          resolve()
          return new Promise((resolve) => {
            authenticate = () => {
              resolve(asAlice())
            }
          })
        }
      })
    })
    app.post('/stream', { config: { quota: 'streams' } }, async () => 'ran')
    const socket = connect(await listen(app), '127.0.0.1').on('error', () => {})
    socket.write('POST /stream HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n')
    await asked
    const real = globalThis.setTimeout
    // The server waits for a second at most, from when everything else has been settled.
    Reflect.set(globalThis, 'setTimeout', (run: () => void, ms?: number) => {
      if (ms === partOfClosingTime) setImmediate(authenticate)
      return real(run, ms)
    })
    t.teardown(() => {
      Reflect.set(globalThis, 'setTimeout', real)
      socket.destroy()
    })
    await app.close()
    t.same(counts, [[1, 0]], 'decided and settled before the onClose hook of the host')
  })
  t.test(`a preClose hook of the host that throws does not keep from it: ${version}`, async (t) => {
    const { app, atClose } = await start(t, create, true, async () => {
      throw new Error('of the host')
    })
    await t.rejects(app.close(), { message: 'of the host' })
    t.same(atClose, [[0, 70 * streams], [0, 70 * streams]])
  })
  t.test(
    `the permits of each scope are settled, also if a preClose hook throws: ${version}`,
    async (t) => {
      const app: FastifyInstance = create()
      app.addHook('preClose', async () => {
        throw new Error('of the host')
      })
      const scopes: [scope: FastifyInstance, store: MemoryQuotaStore][] = []
      for (const prefix of ['/one', '/two', '/three']) {
        const store = new MemoryQuotaStore()
        await app.register(
          async (scope) => {
            await scope.register(quotaPlugin, { store, quotas: { streams: { concurrent: 1 } } })
            scopes.push([scope, store])
          },
          { prefix }
        )
      }
      await listen(app)
      const counts = () => scopes.map(([, store]) => store.peek(places)?.count)
      for (const [scope] of scopes) {
        await scope.quotaAcquire(asAlice(), 'streams')
      }
      t.same(counts(), [1, 1, 1])
      await t.rejects(app.close(), { message: 'of the host' })
      t.same(counts(), [0, 0, 0])
    }
  )
  for (const url of ['/stream', '/permit']) {
    t.test(
      `what is decided after the connections were closed is settled: ${version}, ${url}`,
      async (t) => {
        const { app, client, atClose, send } = await start(t, create, true)
        await send(url)
        await until('the store is asked', () => client.asked > streams)
        await app.close()
        t.same(atClose, [[0, 100 * streams + 70], [0, 100 * streams + 70]])
      }
    )
  }
}

t.test('a server closes although workers that the host stops afterwards go on', async (t) => {
  const store = new RemoteStore()
  const workers = { areStopped: false }
  const { app } = await createServer({
    store,
    quotas: { streams: { concurrent: streams } },
    before: (app) =>
      app.addHook('onClose', async () => {
        workers.areStopped = true
      })
  })
  await app.ready()
  const mostJobs = 1000
  const working = Array.from({ length: streams }, async (_, worker) => {
    // So that at no time all of them have their answers.
    for (let turn = 0; turn < worker; turn++) await new Promise(setImmediate)
    let jobs = 0
    for (; jobs < mostJobs && !workers.areStopped; jobs++) {
      const permit = await app.quotaAcquire(asAlice(), 'streams')
      await permit.end()
    }
    return jobs
  })
  await new Promise(setImmediate)
  await app.close()
  const jobs = await Promise.all(working)
  t.ok(Math.max(...jobs) < mostJobs, `the workers were stopped after ${jobs.join()} jobs`)
  t.same(store.memory.list(places.counters).callers, [])
})

t.test('the permits that are open are settled, whichever have ended before', async (t) => {
  const { app, store } = await createServer({ quotas: { streams: { concurrent: 5 } } })
  await app.ready()
  const taken: QuotaPermit[] = []
  for (let permit = 0; permit < 5; permit++) {
    taken.push(await app.quotaAcquire(asAlice(), 'streams'))
  }
  const [first, , , fourth, fifth] = taken
  for (const ended of [first, fifth, fourth]) await ended?.end()
  t.equal(store.peek(places)?.count, 2)
  await app.close()
  t.equal(store.peek(places)?.count, 0)
})

t.test('a permit of no request that is admitted while the server closes is settled', async (t) => {
  const store = createWaitingStore()
  const { app } = await createServer({ store, quotas: { streams: { concurrent: 1 } } })
  await app.ready()
  const acquiring = app.quotaAcquire(asAlice(), 'streams')
  await until('the store is asked', () => store.pending === 1)
  let hasClosed = false
  const closed = app.close().then(() => {
    hasClosed = true
  })
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
  t.notOk(hasClosed, 'the server waits for the store')
  store.answer()
  t.equal((await acquiring).refusal, null)
  await closed
  t.equal(store.memory.peek(places)?.count, 0)
})

t.test('a report after the end of its permit is counted before the server closes', async (t) => {
  const memory = new MemoryQuotaStore()
  const client = { isOpen: true, asked: 0 }
  const { app } = await createServer({
    store: slowStore(memory, client),
    quotas: { tokens: { perMinute: { tokens: 10_000 }, cost: 50 } },
    before: (app) =>
      app.addHook('onClose', async () => {
        client.isOpen = false
      })
  })
  await app.ready()
  const permit = await app.quotaAcquire(asAlice(), 'tokens')
  await permit.end()
  permit.charge(100)
  await app.close()
  t.equal(memory.peek(tokens)?.count, 100)
})

for (const [what, most, settled, longest] of silences) {
  t.test(
    `a server that closes waits while a store responds, and then a second at most: ${what}`,
    async (t) => {
      const clock = new VirtualClock()
      waitWith(t, clock)
      const store = new BusyStore(clock, most)
      const { app } = await createServer({
        store,
        quotas: {
          streams: { concurrent: permits },
          tokens: { perDay: { tokens: 5 * permits }, cost: 5, unreported: 3 }
        }
      })
      await app.ready()
      for (let permit = 0; permit < permits; permit++) {
        await app.quotaAcquire(asAlice(), ['streams', 'tokens'])
      }
      await closeIn(clock, app)
      t.equal(store.settled, settled)
      t.ok(clock.now() <= longest, `it took ${clock.now()} ms`)
      if (settled < 2 * permits) return
      t.same(store.memory.list(places.counters).callers, [])
      const settledTokens = [{ count: 3 * permits, held: 0 }]
      matchExactly(t, store.memory.list('tokens.tokens.day').callers, settledTokens)
    }
  )
}

// 20,000 permits that ended together stalled the process for so long, and the server closed before
// the answers of the store in the sockets were read.
t.test('a stall of the event loop while a server closes is no silence of its store', async (t) => {
  const memory = new MemoryQuotaStore()
  const store: QuotaStore = {
    acquire: (demands) => memory.acquire(demands),
    async settle (receipt, less) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_100)
      await delay(5)
      memory.settle(receipt, less)
    }
  }
  const { app, log } = await createServer({ store, quotas: { streams: { concurrent: 1 } } })
  await app.ready()
  await app.quotaAcquire(asAlice(), 'streams')
  await app.close()
  t.equal(memory.peek(places)?.count, 0)
  t.same(log.lines, [])
})

t.test('a server that closes before its store has answered says so in the log', async (t) => {
  const memory = new MemoryQuotaStore()
  const store: QuotaStore = {
    acquire: (demands) => memory.acquire(demands),
    settle: () => new Promise(() => {})
  }
  const clock = new VirtualClock()
  waitWith(t, clock)
  const { app, log } = await createServer({ store, quotas: { streams: { concurrent: 1 } } })
  await app.ready()
  await app.quotaAcquire(asAlice(), 'streams')
  await closeIn(clock, app)
  matchExactly(t, log.lines, [
    {
      level: 40,
      msg:
        'the server has closed, and a quota store has not answered for a second; what it was to ' +
        'settle may stay counted until its window ends'
    }
  ])
})

t.test('a server that closes waits once for a store that is silent', async (t) => {
  const memory = new MemoryQuotaStore()
  let decide: (() => void) | null = null
  const store: QuotaStore = {
    async acquire (demands) {
      if (memory.peek(places)?.count === 1) {
        await new Promise<void>((resolve) => {
          decide = resolve
        })
      }
      return memory.acquire(demands)
    },
    settle () {
      // What is decided now begins to be settled when all else is waited for.
      decide?.()
      return new Promise(() => {})
    }
  }
  const clock = new VirtualClock()
  waitWith(t, clock)
  const { app } = await createServer({ store, quotas: { streams: { concurrent: 2 } } })
  await app.ready()
  await app.quotaAcquire(asAlice(), 'streams')
  const deciding = app.quotaAcquire(asAlice(), 'streams')
  await until('the store is asked', () => decide !== null)
  await closeIn(clock, app)
  await deciding
  // A second, and as long until it is noticed.
  t.ok(clock.now() <= 2000, `it took ${clock.now()} ms`)
})

t.test('the plugin adds as many listeners to a server in many scopes as in one', async (t) => {
  const listenersWith = async (scopes: number) => {
    const app = Fastify()
    for (let scope = 0; scope < scopes; scope += 1) {
      app.register(async (child) => child.register(quotaPlugin), { prefix: `/${scope}` })
    }
    await app.ready()
    return app.server.eventNames().map((name) => [name, app.server.listenerCount(name)])
  }
  // Above ten, Node.js warns of a leak.
  t.same(await listenersWith(11), await listenersWith(1))
})
