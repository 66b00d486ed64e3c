// In a process that replaces the global Promise, what was asynchronous admitted every request,
// uncounted and without a line in the log.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { plainEnvironment } from '../support/environment.js'

/** A promise of another library: it is no instance of the global one, and has `then` alone. */
const other = `
  const Native = globalThis.Promise
  class Other {
    #native
    constructor (run) { this.#native = new Native(run) }
    then (...given) { return Other.#wrap(this.#native.then(...given)) }
    catch (failed) { return this.then(undefined, failed) }
    finally (run) { return Other.#wrap(this.#native.finally(run)) }
    static #wrap (native) { return new Other((...given) => { native.then(...given) }) }
    static resolve (value) { return new Other((resolve) => { resolve(value) }) }
    static reject (error) { return new Other((_resolve, reject) => { reject(error) }) }
    static all (values) { return Other.#wrap(Native.all(values)) }
    static allSettled (values) { return Other.#wrap(Native.allSettled(values)) }
    static race (values) { return Other.#wrap(Native.race(values)) }
  }
  globalThis.Promise = Other
`

const program = `
  const { default: Fastify } = await import('fastify')
  const {
    default: quotaPlugin, localAuthentication, MemoryQuotaStore
  } = await import('./build/lib/index.js')
  const { quotaMetricsPlugin } = await import('./build/lib/metrics.js')
  const asynchronous = (memory) => ({
    acquire: async (demands) => memory.acquire(demands),
    settle: (...given) => Promise.resolve().then(() => memory.settle(...given)),
    peek: async (demand) => memory.peek(demand)
  })
  const store = asynchronous(new MemoryQuotaStore())
  const lines = []
  const app = Fastify({ logger: { level: 'warn', stream: { write: (line) => lines.push(line) } } })
  await app.register(quotaPlugin, {
    operations: [],
    perMinute: 2,
    authentication: () => Promise.resolve(localAuthentication('alice')),
    preferences: { get: async () => undefined },
    store,
    quotas: {
      tokens: { perDay: { tokens: async () => 90 }, cost: async () => 10 },
      other: { perDay: 9, store: asynchronous(new MemoryQuotaStore()) },
      shadow: { perDay: 1, mode: 'shadow' }
    }
  })
  await app.register(quotaMetricsPlugin)
  const quota = ['default', 'tokens', 'other', 'shadow']
  app.post('/run', { config: { quota } }, async (request) => {
    await request.quota.charge(4)
    return request.quota.decisions.map(({ outcome }) => outcome).join()
  })
  const received = []
  for (let sent = 0; sent < 4; sent += 1) {
    const { statusCode, payload } = await app.inject({ method: 'POST', url: '/run' })
    received.push([statusCode, statusCode === 200 ? payload : null])
  }
  const permit = await app.quotaAcquire(localAuthentication('bob'), { tokens: 5 })
  await permit.end()
  const standings = []
  for (const [name, caller] of [['default', 'alice'], ['tokens', 'alice'], ['tokens', 'bob']]) {
    standings.push((await app.quotaStanding(localAuthentication(caller), name)).count)
  }
  await app.close()
  console.log(JSON.stringify({ received, standings, lines: lines.length }))
`

for (const [what, replace] of [
  ['zone.js', "await import('zone.js/node')"],
  ['a promise of another library', other]
] as const) {
  t.test(`the quota counts and refuses where ${what} replaces the global Promise`, async (t) => {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--input-type=module', '--eval', `${replace}\n${program}`],
      { env: plainEnvironment() }
    )
    t.same(JSON.parse(stdout), {
      received: [
        [200, 'admitted,admitted,admitted,admitted'],
        [200, 'admitted,admitted,admitted,rejected'],
        [429, null],
        [429, null]
      ],
      standings: [2, 8, 5],
      // That a permit has ended whose tokens were not reported.
      lines: 1
    })
  })
}
