// docs/rules.md, "Decision": where the host has responded to a request before its quotas have
// decided, so that its operation does not run, it counts nothing.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { FastifyReply, FastifyServerOptions } from 'fastify'
import t from 'tap'
import type { QuotaDefinition, QuotaOptions, QuotaStore } from '../../lib/index.js'
import { published } from '../support/published.js'
import { listen } from '../support/raw-socket.js'
import { createWaitingStore, type RemoteStore } from '../support/remote-store.js'
import { asAlice, createServer, type ServerOptions } from '../support/server.js'
import { until } from '../support/until.js'

const names = ['default', 'tokens', 'places'] as const
const counters = ['default', 'tokens.tokens.minute', 'places.concurrent'] as const
const quotas: Record<string, QuotaDefinition> = {
  tokens: { perMinute: { tokens: 100 }, cost: 5, unreported: 3 },
  places: { concurrent: 5 }
}

/** What each quota has counted. */
function countsIn ({ memory }: RemoteStore): number[] {
  return counters.map((name) => memory.list(name).callers[0]?.count ?? 0)
}

/** How a host responds while something is awaited. */
interface Way {
  readonly fastify?: FastifyServerOptions
  respond(reply: FastifyReply): unknown
}

const ways: Record<string, Way> = {
  'the time limit of the server': { fastify: { handlerTimeout: 1 }, respond () {} },
  'a hook': { respond: (reply) => reply.send('of the host') },
  'a hook that has hijacked the reply': {
    respond (reply) {
      reply.hijack()
      reply.raw.end('of the host')
    }
  },
  'a hook that writes to the socket itself': {
    respond (reply) {
      reply.raw.end('of the host')
    }
  }
}

/** A server whose host responds to each request while its quotas are asked. */
async function createRespondingServer (
  store: QuotaStore,
  { fastify = {}, respond }: Way,
  options: ServerOptions = {}
) {
  const state = { runs: 0 }
  const server = await createServer({
    mark: [...names],
    quotas,
    store,
    fastify,
    handler: async () => {
      state.runs += 1
      return 'ran'
    },
    ...options
  })
  server.app.addHook('preValidation', async (_request, reply) => {
    setImmediate(() => {
      respond(reply)
    })
  })
  return { ...server, state }
}

const sends: Way = { respond: (reply) => reply.send('of the host') }

// What the host is asked for before the store. Each returns a promise that the test resolves.
const before: Record<string, (wait: () => Promise<void>) => QuotaOptions> = {
  'the preference reader': (wait) => ({ preferences: { get: wait } }),
  authentication: (wait) => ({ authentication: async () => wait().then(asAlice) }),
  'the limit of the caller': (wait) => ({
    quotas: { ...quotas, places: { concurrent: async () => wait().then(() => 5) } }
  })
}

for (const [how, way] of Object.entries(ways)) {
  for (const [what, optionsOf] of Object.entries(before)) {
    t.test(
      `a request that ${how} has answered while ${what} is asked reaches no store and counts ` +
        'nothing',
      async (t) => {
        const store = createWaitingStore()
        let goOn = (): void => {}
        let waits = 0
        const options = optionsOf(async () => {
          waits += 1
          await new Promise<void>((resolve) => {
            const earlier = goOn
            goOn = () => {
              earlier()
              resolve()
            }
          })
        })
        const { app, ask, log, state } = await createRespondingServer(store, way, options)
        const messages = await published(async () => {
          const response = await ask()
          t.notMatch(response.body, 'ran')
          t.ok(waits > 0, 'it was asked')
          goOn()
          // Closing waits for decisions that are pending.
          await app.close()
        })
        t.same([messages, store.calls, state.runs], [[], 0, 0])
        t.same(countsIn(store), [0, 0, 0])
        t.same(log.warnings(), [])
      }
    )
  }

  t.test(
    `what a request has counted that ${how} has answered while the store is asked is settled ` +
      'with 0, requests too',
    async (t) => {
      const store = createWaitingStore()
      const { app, ask, log, state } = await createRespondingServer(store, way)
      const response = await ask()
      t.notMatch(response.body, 'ran')
      t.equal(store.calls, 1)
      store.answer()
      await app.close()
      t.same([countsIn(store), state.runs], [[0, 0, 0], 0])
      t.same(log.warnings(), [], 'nothing was to be reported')
    }
  )
}

t.test('a response that the host has begun meanwhile prevents the operation', async (t) => {
  const store = createWaitingStore()
  let finish = (): void => {}
  const { app, ask, state } = await createRespondingServer(store, {
    respond ({ raw }) {
      raw.writeHead(200)
      finish = () => raw.end('of the host')
      store.answer()
    }
  })
  const response = ask()
  await until('the decision is taken back', () => store.calls > names.length || state.runs > 0)
  finish()
  t.equal((await response).body, 'of the host')
  await app.close()
  t.same([countsIn(store), state.runs], [[0, 0, 0], 0])
})

t.test('a request that the host has answered meanwhile still has its decisions', async (t) => {
  const store = createWaitingStore()
  const { app, ask } = await createRespondingServer(store, sends)
  let decisionsOf = (): unknown[] => []
  app.addHook('onRequest', async (request) => {
    decisionsOf = () => request.quota.decisions.map(({ quota, outcome }) => [quota, outcome])
  })
  await ask()
  store.answer()
  await app.close()
  t.same(decisionsOf(), names.map((name) => [name, 'admitted']))
})

t.test('a store that cannot settle keeps what it has counted of requests', async (t) => {
  const waiting = createWaitingStore()
  const store: QuotaStore = { acquire: (demands) => waiting.acquire(demands) }
  const options = { mark: 'default', quotas: undefined }
  const { app, ask } = await createRespondingServer(store, sends, options)
  t.equal((await ask()).body, 'of the host')
  waiting.answer()
  await app.close()
  t.same(countsIn(waiting), [1, 0, 0])
})

t.test('of a request that is answered meanwhile, a disabled quota settles nothing', async (t) => {
  const store = createWaitingStore()
  const options = { mark: ['default', 'off'], quotas: { off: { perMinute: 0 } } }
  const { app, ask } = await createRespondingServer(store, sends, options)
  t.equal((await ask()).body, 'of the host')
  store.answer()
  await app.close()
  t.same(countsIn(store), [0, 0, 0])
})

t.test(
  'a caller who leaves while the store is asked pays, because its operation runs',
  async (t) => {
    const store = createWaitingStore()
    let connection: Socket | undefined
    const { app, state } = await createRespondingServer(store, {
      respond ({ request }) {
        connection = request.raw.socket
      }
    })
    t.teardown(() => app.close())
    const socket = connect(await listen(app), '127.0.0.1').on('error', () => {})
    await once(socket, 'connect')
    socket.write('POST /run HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n')
    await until('the store is asked', () => store.calls === 1 && connection !== undefined)
    socket.resetAndDestroy()
    await until('the server knows that the caller has left', () => connection?.destroyed === true)
    store.answer()
    await until('the permit has ended', () => String(countsIn(store)) === '1,3,0')
    t.same([countsIn(store), state.runs], [[1, 3, 0], 1])
  }
)
