// What the host does while a decision is pending, and errors after one that was: they ended the
// process, or served a rejected request.
import { PassThrough } from 'node:stream'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import quotaPlugin, {
  InsuredQuotaStore,
  type QuotaOptions,
  type QuotaStore
} from '../../lib/index.js'
import { captureLog } from '../support/log.js'
import { matchExactly } from '../support/match-exactly.js'
import { listen, sendRaw } from '../support/raw-socket.js'
import { asAlice, createServer } from '../support/server.js'
import { until } from '../support/until.js'

const soon = async (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })
const authentication = asAlice
const result = { count: 1, held: 0, windowRemaining: 60_000, overflow: false }

/** A store that decides when a test says so. */
function pendingStore (admitted: boolean) {
  let decide = (): void => {}
  let calls = 0
  const store: QuotaStore = {
    acquire: () =>
      new Promise((resolve) => {
        calls += 1
        decide = () => {
          resolve([{ ...result, admitted, granted: admitted ? 1 : 0 }])
        }
      })
  }
  return {
    store,
    decide: () => {
      decide()
    },
    calls: () => calls
  }
}

t.test('whatever is thrown while a response gets its headers, no operation runs', async (t) => {
  let runs = 0
  const { app, ask } = await createServer({
    rateLimitHeaders: 'draft-10',
    handler: async () => {
      runs += 1
    }
  })
  app.addHook('onRequest', async (_request, reply) => {
    const { setHeader } = reply.raw
    reply.raw.setHeader = (name, value) => {
      // The least that JavaScript can throw: what was thrown must not be asked whether it is there.
      // eslint-disable-next-line no-throw-literal
      if (/ratelimit/i.test(name)) throw undefined
      return setHeader.call(reply.raw, name, value)
    }
  })
  t.equal((await ask()).statusCode, 500)
  t.equal(runs, 0)
})

t.test(
  'a reply that the host hijacks before the decision gets no response of the quota',
  async (t) => {
    const { store, decide } = pendingStore(false)
    const { app, ask, log } = await createServer({ store })
    app.addHook('preValidation', async (_request, reply) => {
      setImmediate(() => {
        reply.hijack()
        decide()
        setImmediate(() => {
          setImmediate(() => {
            reply.raw.end('of the host')
          })
        })
      })
    })
    t.equal((await ask()).body, 'of the host')
    t.same(log.problems(), [])
  }
)

t.test('a stream that the host begins before the decision is sent whole', async (t) => {
  for (const admitted of [true, false]) {
    const { store, decide } = pendingStore(admitted)
    let ran = 0
    const handler = async (): Promise<void> => {
      ran += 1
    }
    const { app } = await createServer({ store, handler })
    const stream = new PassThrough()
    app.addHook('preValidation', async (_request, reply) => {
      setImmediate(() => {
        reply.send(stream)
        stream.write('begun, ')
      })
    })
    const port = await listen(app)
    const response = await fetch(`http://127.0.0.1:${port}/run`, { method: 'POST' })
    decide()
    await soon()
    stream.end('ended')
    t.same([response.status, await response.text(), ran], [200, 'begun, ended', 0])
    await app.close()
  }
})

t.test(
  'a refusal while Fastify responds to an error of the host is logged, and the response ' +
    'does not change',
  async (t) => {
    const { store, decide } = pendingStore(false)
    let respond = (): void => {}
    const { app, ask, log } = await createServer({ store })
    app.addHook('onError', (_request, _reply, _error, done) => {
      respond = done
      decide()
    })
    app.addHook('preValidation', async (_request, reply) => {
      setImmediate(() => {
        reply.send(Object.assign(new Error('too slow'), { statusCode: 504 }))
      })
    })
    const response = ask()
    const refused = () => log.lines.filter(({ msg }) => /after the decision/.test(String(msg)))
    await until('the refusal is logged', () => refused().length > 0)
    respond()
    t.equal((await response).statusCode, 504)
    matchExactly(t, refused(), [{ level: 50, err: { code: 'FST_ERR_SEND_INSIDE_ONERR' } }])
  }
)

t.test(
  'a response of the host that is in an asynchronous onSend hook is sent once, and the ' +
    'operation does not run',
  async (t) => {
    const { store, decide } = pendingStore(false)
    let runs = 0
    const { app } = await createServer({
      store,
      handler: async () => {
        runs += 1
      }
    })
    app.addHook('preValidation', async (_request, reply) => {
      setImmediate(() => {
        reply.code(504).send('too slow')
      })
    })
    app.addHook('onSend', async (_request, reply, payload) => {
      // Fastify 5.0.0 ends the process if two responses to a request leave this hook, so the
      // refusal does not leave it.
      if (payload !== 'too slow') await new Promise(() => {})
      decide()
      await until('the refusal has its status', () => reply.statusCode === 429)
      return payload
    })
    t.teardown(() => app.close())
    t.same(await sendRaw(await listen(app), [{ method: 'POST', target: '/run' }]), [
      { status: 429, body: 'too slow' }
    ])
    t.equal(runs, 0)
  }
)

const notFound: Record<string, (app: FastifyInstance) => void> = {
  'a timer': (app) => {
    app.addHook('preValidation', async (_request, reply) => {
      setImmediate(() => {
        reply.callNotFound()
      })
    })
  },
  'an error handler': (app) => {
    app.setErrorHandler((_error, _request, reply) => {
      reply.callNotFound()
    })
    app.addHook('preValidation', async (_request, reply) => {
      setImmediate(() => {
        reply.send(new Error('of the host'))
      })
    })
  }
}

for (const [way, before] of Object.entries(notFound)) {
  for (const admitted of [false, true]) {
    t.test(
      `callNotFound in ${way} while the decision is pending ` +
        `${admitted ? 'serves' : 'does not serve'} a request that the store ` +
        `${admitted ? 'admits' : 'rejects'}`,
      async (t) => {
        const { store, decide, calls } = pendingStore(admitted)
        const ran: string[] = []
        const { app, ask } = await createServer({
          store,
          before,
          handler: async () => {
            ran.push('handler')
          }
        })
        app.get('/later', async () => 'served meanwhile')
        app.setNotFoundHandler(async (_request, reply) => {
          ran.push('not found')
          return reply.code(404).send('lost')
        })
        const response = ask().then(({ statusCode }) => statusCode)
        await until('the store is asked', () => calls() === 1)
        t.equal((await app.inject('/later')).body, 'served meanwhile')
        t.same(
          [ran, calls()],
          [[], 1],
          'nothing runs before the decision, and the store is asked once'
        )
        decide()
        const status = await response
        if (admitted) t.ok(ran.length > 0)
        else t.same([status, ran], [429, []])
      }
    )
  }
}

t.test(
  "the host's own serializer of errors gets an Error with a stack of one line; if " +
    'serializers throw, the lines are logged without properties',
  async (t) => {
    const away = Object.assign(new Error('away'), { statusCode: 500 })
    const fails = async () => {
      await soon()
      throw away
    }
    const cases = (): [QuotaOptions, status: number][] => [
      [{ store: { acquire: fails } }, 503],
      [{ store: new InsuredQuotaStore({ primary: { acquire: fails } }) }, 200],
      [{ preferences: { get: fails } }, 200]
    ]
    for (const isBroken of [false, true]) {
      for (const [options, status] of cases()) {
        const log = captureLog()
        const errors: string[] = []
        const err = ({ constructor, message, stack }: Error) => {
          if (isBroken) throw new Error('of the serializer')
          errors.push(`${constructor.name}: ${message}, ${stack?.split('\n').length} line`)
          return { type: constructor.name, message, stack: '' }
        }
        const app = Fastify({ logger: { ...log.logger, serializers: { err } } })
        await app.register(quotaPlugin, { authentication, operations: [], ...options })
        app.post('/run', { config: { quota: true } }, async () => 'ran')
        t.equal((await app.inject({ method: 'POST', url: '/run' })).statusCode, status)
        await until('the failure is logged', () => log.problems().length > 0)
        // A rejection that nobody handles ends this process before the next turn.
        await soon()
        if (!isBroken) t.same(errors, ['Error: away, 1 line'])
        matchExactly(t, log.problems(), [{ msg: /fails|failed|unavailable/ }])
      }
    }
  }
)

t.test('a logger that throws changes no response and ends no process', async (t) => {
  const fails = async () => {
    await soon()
    throw new Error('away')
  }
  const app = Fastify({
    logger: {
      level: 'error',
      stream: {
        write () {
          throw new Error('no space left')
        }
      }
    }
  })
  await app.register(quotaPlugin, { authentication, operations: [], store: { acquire: fails } })
  app.post('/run', { config: { quota: true } }, async () => 'ran')
  t.equal((await app.inject({ method: 'POST', url: '/run' })).statusCode, 503)
  // A rejection that nobody handles ends this process before the next turn.
  await soon()
})
