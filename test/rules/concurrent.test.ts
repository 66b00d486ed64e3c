// docs/rules.md, "Concurrent requests": a place is freed exactly once, whatever ends the response.
import { once } from 'node:events'
import { connect as connectHttp2, constants } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { setImmediate as soon } from 'node:timers/promises'
import fastifyWebsocket from '@fastify/websocket'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import {
  MemoryQuotaStore,
  type Acquisition,
  type AuthenticationReader,
  type Demand,
  type Settled
} from '../../lib/index.js'
import { matchExactly } from '../support/match-exactly.js'
import { listen } from '../support/raw-socket.js'
import { RemoteStore } from '../support/remote-store.js'
import { asAlice, createServer, type ServerOptions } from '../support/server.js'
import { until } from '../support/until.js'

/** A memory store that counts how often places are taken and freed. */
class CountingStore extends MemoryQuotaStore {
  taken = 0
  freed = 0

  override acquire (demands: readonly Demand[]): readonly Acquisition[] {
    const acquisitions = super.acquire(demands)
    if (acquisitions.every(({ admitted }) => admitted)) {
      this.taken += demands.filter(({ window }) => window === null).length
    }
    return acquisitions
  }

  override settle (receipt: unknown, less: Settled): boolean {
    if (less.count === 1 && less.held === 1) this.freed += 1
    return super.settle(receipt, less)
  }

  get concurrent (): number {
    return this.list('streams.concurrent').callers.reduce((sum, { count }) => sum + count, 0)
  }

  get tokens (): number {
    return this.list('tokens.tokens.minute').callers[0]?.count ?? 0
  }
}

type Handler = (request: FastifyRequest, reply: FastifyReply) => unknown

/** A server in a quota of concurrent requests. */
async function start (t: Test, handler: Handler, options: ServerOptions, isHttp2 = false) {
  const { app } = await createServer({
    quotas: { streams: { concurrent: 2 } },
    fastify: Object({ forceCloseConnections: true, http2: isHttp2 }),
    handler,
    ...options
  })
  t.teardown(() => app.close())
  return app
}

/** Sends the same request once or several times without waiting for a response. */
async function send (port: number, headers = '', times = 1): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.resume()
  await once(socket, 'connect')
  socket.write(`POST /run HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n${headers}\r\n`.repeat(times))
  return socket
}

/** Opens a session, and returns a function that sends a request, whose body stays open. */
function openHttp2 (t: Test, port: number) {
  const session = connectHttp2(`http://127.0.0.1:${port}`)
  session.on('error', () => {})
  t.teardown(() => {
    session.destroy()
  })
  return {
    session,
    post: () => session.request({ ':method': 'POST', ':path': '/run' }).on('error', () => {})
  }
}

/** Sends two requests, and returns functions that abort them. */
async function sendTwo (port: number): Promise<[() => void, () => void]> {
  const [first, second] = [
    await send(port, 'Connection: close\r\n'),
    await send(port, 'Connection: close\r\n')
  ]
  return [
    () => {
      first.resetAndDestroy()
    },
    () => {
      second.resetAndDestroy()
    }
  ]
}

function sendTwoOverHttp2 (t: Test, port: number): [() => void, () => void] {
  const { session, post } = openHttp2(t, port)
  const first = post()
  post()
  return [
    () => {
      first.close()
    },
    () => {
      session.destroy()
    }
  ]
}

function endless (): Readable {
  return new Readable({
    read () {
      setImmediate(() => {
        this.push('data: x\n\n')
      })
    }
  })
}

t.test('a report changes nothing of a place', async (t) => {
  const { begin, standings, log } = await createServer({ quotas: { places: { concurrent: 2 } } })
  const { request } = await begin()
  await request.quota.charge({ 'concurrent-requests': 2 })
  matchExactly(t, await standings(['places']), [{ count: 1, held: 1 }])
  t.same(log.problems(), [])
})

t.test('as many requests run at the same time as the limit allows, and no more', async (t) => {
  const { store, ask, begin, counts } = await createServer({
    quotas: { streams: { concurrent: 2 } }
  })
  const running = [await begin(), await begin()]
  matchExactly(
    t,
    running.map(({ request }) => request.quota.decisions[0]),
    [1, 2].map((count) => ({
      outcome: 'admitted',
      unit: 'concurrent-requests',
      window: null,
      count,
      windowRemaining: null,
      overflow: false
    }))
  )
  const body =
    '{"error":"Rate limit exceeded. Maximum 2 concurrent LLM requests. Please wait.","status":429}'
  matchExactly(t, await ask(), {
    body,
    headers: { 'retry-after': '1', 'cache-control': 'no-store' }
  })
  t.equal((await ask({ headers: { 'x-caller': 'bob' } })).statusCode, 200)
  await running[0]?.end()
  t.same(await counts(['streams']), [1])
  t.same(store.inspect('streams.concurrent'), { trackedCallers: 1, sweeps: 0 })
  running.push(await begin())
  t.equal((await ask()).statusCode, 429)
  for (const { end } of running) await end()
  t.same(await counts(['streams']), [0])
})

t.test(
  'nothing ends a running response, whatever becomes of the limit and of its place',
  async (t) => {
    const preferences = new Map([['rate-limit.streams.concurrent', 2]])
    const { store, ask, begin } = await createServer({
      preferences,
      quotas: { streams: { concurrent: 2 } }
    })
    const running = [await begin(), await begin()]
    preferences.set('rate-limit.streams.concurrent', 1)
    t.equal((await ask()).statusCode, 429)
    store.clearCounters()
    t.equal((await ask()).statusCode, 200)
    for (const { end } of running) t.equal(await end(), 200)
    t.same(store.list('streams.concurrent').callers, [])
  }
)

const handlers: Record<string, Handler> = {
  'the handler returns': async () => 'ran',
  'the handler throws an error': async () => {
    throw new Error('of the handler')
  },
  'the handler sends a stream': async (_request, reply) => reply.send(Readable.from(['a', 'b'])),
  'the handler sends a stream that breaks': async (_request, reply) =>
    reply.send(
      Readable.from(
        (async function * () {
          yield 'a'
          throw new Error('broken')
        })()
      )
    ),
  'the handler hijacks the reply': (_request, reply) => {
    reply.hijack()
    reply.raw.end('of the host')
  },
  'the handler calls callNotFound': (_request, reply) => {
    reply.callNotFound()
  },
  'the handler destroys the socket': (_request, reply) => {
    reply.hijack()
    reply.raw.destroy()
  }
}

const aborts: Record<string, Handler> = {
  'the client aborts before the response': async () => new Promise(() => {}),
  'the client aborts in a stream': async (_request, reply) => reply.send(endless()),
  'the client aborts in a hijacked stream': (_request, reply) => {
    reply.hijack()
    endless()
      .on('error', () => {})
      .pipe(reply.raw)
  }
}

for (const [how, handler] of Object.entries({ ...handlers, ...aborts })) {
  for (const http2 of [false, true]) {
    t.test(`a place is freed once if ${how}, over HTTP/${http2 ? 2 : 1}`, async (t) => {
      const store = new CountingStore()
      const app = await start(t, handler, { store }, http2)
      const port = await listen(app)
      const [abortFirst, abortSecond] = http2 ? sendTwoOverHttp2(t, port) : await sendTwo(port)
      if (how in aborts) {
        await until('two requests run', () => store.concurrent === 2)
        abortFirst()
        await until('one request runs', () => store.concurrent === 1)
        abortSecond()
      }
      await until('two places are free again', () => store.freed === 2)
      abortSecond()
      await app.close()
      t.same([store.taken, store.freed, store.concurrent], [2, 2, 0])
    })
  }
}

t.test(
  'a place is freed if the client has gone, or the host has responded, while the decision ' +
    'was pending',
  async (t) => {
    for (const ends of ['the client', 'the host']) {
      let connection: Socket | undefined
      const memory = new CountingStore()
      const store = new RemoteStore(memory)
      store.waits = 'acquire'
      const app = await start(t, async () => 'ran', {
        store,
        before: (app) =>
          app.addHook('preValidation', async (request, reply) => {
            connection = request.raw.socket
            if (ends === 'the host') {
              setImmediate(() => {
                reply.code(504).send('too slow')
              })
            }
          })
      })
      const socket = await send(await listen(app), 'Connection: close\r\n')
      await until('the request has come', () => connection !== undefined)
      if (ends === 'the client') socket.resetAndDestroy()
      if (!socket.closed) await once(socket, 'close')
      await until('the server knows that it has ended', () => connection?.destroyed === true)
      store.answer()
      await until('the place is free again', () => memory.freed === 1)
      t.equal(memory.concurrent, 0, ends)
    }
  }
)

/**
 * A service in a quota of concurrent requests and one of tokens, which count 7 without a report.
 * Its requests never end by default.
 */
async function startCharged (
  t: Test,
  options: ServerOptions,
  isHttp2 = false,
  handler: Handler = async () => new Promise(() => {})
) {
  const store = new CountingStore()
  const quotas = {
    streams: { concurrent: 500 },
    tokens: { perMinute: { tokens: 10_000 }, cost: 5, unreported: 7 }
  }
  const app = await start(t, handler, { store, quotas, ...options }, isHttp2)
  /** Resolves when all of so many requests have freed their places, and been charged. */
  const settled = async (requests: number): Promise<void> => {
    await until(
      'all places are free, and all requests are charged',
      () => store.concurrent === 0 && store.tokens === 7 * requests
    )
    t.same([store.taken, store.freed], [requests, requests])
  }
  return { app, port: await listen(app), store, settled }
}

// Such requests end without an event of their response.
t.test(
  'pipelined requests free their places and are charged if the connection ends before their turn',
  async (t) => {
    const { port, store, settled } = await startCharged(t, {
      authentication: async () => asAlice()
    })
    const warnings: Error[] = []
    const warn = (warning: Error): void => {
      warnings.push(warning)
    }
    process.on('warning', warn)
    t.teardown(() => {
      process.off('warning', warn)
    })
    const socket = await send(port, '', 12)
    await until('twelve requests run', () => store.concurrent === 12)
    socket.resetAndDestroy()
    await settled(12)
    t.same(warnings, [])
  }
)

t.test(
  'an HTTP/2 request that is reset while its decision is pending frees its place and is charged',
  async (t) => {
    let decide: (() => void) | undefined
    const authentication: AuthenticationReader = () =>
      new Promise((resolve) => {
        decide = () => {
          resolve(asAlice())
        }
      })
    const { port, settled } = await startCharged(t, { authentication }, true)
    const { session, post } = openHttp2(t, port)
    const stream = post()
    await until('the decision is pending', () => decide !== undefined)
    stream.close(8)
    await once(stream, 'close')
    // The server has seen the reset before it answers a later frame.
    await new Promise<void>((resolve, reject) => {
      session.ping((error) => {
        if (error === null) resolve()
        else reject(error)
      })
    })
    decide?.()
    await settled(1)
  }
)

const hijacks: Handler = (_request, reply) => {
  reply.hijack()
  reply.raw.writeHead(200)
  reply.raw.write('a')
}
/** A server that does not read the bodies of its requests. */
const leavesBodies: ServerOptions = {
  before: (app) =>
    app.addContentTypeParser('text/plain', (_request, _payload, done) => {
      done(null)
    })
}
const unfinished = { ':method': 'POST', ':path': '/run', 'content-type': 'text/plain' }
const resets: [how: string, code: number, isAtOnce: boolean, handler: Handler | undefined][] = [
  ['without an error, as soon as they are sent', constants.NGHTTP2_NO_ERROR, true, undefined],
  ['without an error, while they run', constants.NGHTTP2_NO_ERROR, false, undefined],
  ['without an error, while they are hijacked', constants.NGHTTP2_NO_ERROR, false, hijacks],
  ['with an error', constants.NGHTTP2_CANCEL, false, undefined],
  ['with an error, while they are hijacked', constants.NGHTTP2_CANCEL, false, hijacks]
]
for (const [how, code, isAtOnce, handler] of resets) {
  t.test(
    `20 HTTP/2 streams that the client resets ${how}, their bodies open, free their places`,
    async (t) => {
      const { port, store, settled } = await startCharged(t, leavesBodies, true, handler)
      const { session } = openHttp2(t, port)
      await once(session, 'connect')
      const streams = Array.from({ length: 20 }, () => {
        const stream = session.request(unfinished, { endStream: false }).on('error', () => {})
        stream.write('x')
        return stream.resume()
      })
      const reset = () => {
        for (const stream of streams) stream.close(code)
      }
      if (isAtOnce) process.nextTick(reset)
      await until('20 places were taken', () => store.taken === 20)
      reset()
      await settled(20)
      t.equal(session.destroyed, false)
    }
  )
}

// Until Node.js 24, such a stream closes only when the server ends it.
t.test(
  'an HTTP/2 stream that the client resets while its response waits to be sent frees its place',
  async (t) => {
    const responses: FastifyReply['raw'][] = []
    const { port, settled } = await startCharged(t, leavesBodies, true, (_request, reply) => {
      reply.hijack()
      reply.raw.writeHead(200)
      // More than the client has room for.
      reply.raw.write('a'.repeat(100_000))
      responses.push(reply.raw)
    })
    const { session } = openHttp2(t, port)
    const stream = session.request(unfinished, { endStream: false }).on('error', () => {})
    stream.write('x')
    await once(stream, 'response')
    stream.close(constants.NGHTTP2_NO_ERROR)
    await settled(1)
    for (const response of responses) response.destroy()
  }
)

t.test(
  'an upload that is aborted has taken no place, or frees it where the handler reads the body',
  async (t) => {
    const { port, store, settled } = await startCharged(
      t,
      {
        before: (app) =>
          app.addContentTypeParser('application/octet-stream', (_request, payload, done) => {
            done(null, payload)
          })
      },
      false,
      ({ body }) =>
        new Promise((_resolve, reject) => {
          if (body instanceof Readable) body.resume().on('error', reject)
        })
    )
    const upload = async (type: string) => {
      const socket = connect(port, '127.0.0.1').on('error', () => {})
      await once(socket, 'connect')
      socket.write(
        'POST /run HTTP/1.1\r\nHost: h\r\nContent-Type: ' +
          `application/${type}\r\nContent-Length: 100\r\n\r\n{"a":`
      )
      return socket
    }
    const [parsed, read] = [await upload('json'), await upload('octet-stream')]
    await until('one request runs', () => store.concurrent === 1)
    parsed.destroy()
    read.resetAndDestroy()
    await settled(1)
  }
)

t.test(
  'over HTTP/2, a place is held while the handler reads the body itself, until the response ends',
  async (t) => {
    let hasRead = false
    let finish = (): void => {}
    const finished = new Promise<void>((resolve) => {
      finish = resolve
    })
    const { port, store, settled } = await startCharged(
      t,
      {
        before: (app) =>
          app.addContentTypeParser('application/octet-stream', (_request, payload, done) => {
            done(null, payload)
          })
      },
      true,
      async ({ body }) => {
        if (!(body instanceof Readable)) throw new TypeError('the body is no stream')
        await once(body.resume(), 'end')
        // The stream of the request has no more events that belong to its body.
        await soon()
        hasRead = true
        await finished
      }
    )
    const { session } = openHttp2(t, port)
    const type = { 'content-type': 'application/octet-stream' }
    const stream = session.request({ ':method': 'POST', ':path': '/run', ...type })
    stream.resume().end('the body')
    await until('the handler has read the body', () => hasRead)
    t.same([store.taken, store.freed, store.concurrent], [1, 0, 1])
    finish()
    await once(stream, 'close')
    await settled(1)
  }
)

interface TestSocket {
  on(event: 'message', run: () => void): void
  send(text: string): void
  terminate(): void
}

for (const order of ['before', 'after']) {
  t.test(
    'a WebSocket holds its place until it closes, injected or on a connection, with its ' +
      `plugin ${order} the quota`,
    async (t) => {
      const store = new CountingStore()
      const register = (app: FastifyInstance) => app.register(fastifyWebsocket)
      const app = await start(t, async () => 'ran', {
        store,
        ...(order === 'before' && { before: register })
      })
      if (order === 'after') await register(app)
      await app.register(async (scope) => {
        scope.get(
          '/socket',
          { websocket: true, config: { quota: 'streams' } },
          (socket: TestSocket) => {
            socket.on('message', () => {
              socket.send('pong')
            })
          }
        )
      })
      await app.ready()
      const injected = await app.injectWS('/socket')
      t.equal(store.concurrent, 1)
      injected.terminate()
      await until('a place is free again', () => store.freed === 1)

      const socket = connect(await listen(app), '127.0.0.1')
      const key =
        'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: ' +
        '13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
      socket.write(`GET /socket HTTP/1.1\r\nHost: h\r\n${key}\r\n\r\n`)
      t.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 101 /)
      // A text of four letters, masked with zeros.
      socket.write(Buffer.from('\x81\x84\0\0\0\0ping', 'latin1'))
      t.match(String((await once(socket, 'data'))[0]), /pong$/)
      t.same([store.taken, store.concurrent], [2, 1], 'the place is held while the socket is open')
      socket.destroy()
      await until('two places are free again', () => store.freed === 2)
      t.equal(store.concurrent, 0)
    }
  )
}

t.test('a store that fails to free a place is an error in the log', async (t) => {
  for (const settle of [
    () => {
      throw new Error('gone')
    },
    async () => {
      throw new Error('gone')
    }
  ]) {
    const store = Object.assign(new MemoryQuotaStore(), { settle })
    const { begin, log } = await createServer({ store, quotas: { streams: { concurrent: 2 } } })
    await (await begin()).end()
    matchExactly(t, log.problems(), [
      {
        quota: 'streams',
        err: { message: 'gone' },
        msg: /^the quota store failed; a place may stay taken for 30 seconds/
      }
    ])
  }
})
