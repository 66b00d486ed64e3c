import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import Fastify, {
  type FastifyInstance,
  type FastifyRequest,
  type FastifyServerOptions
} from 'fastify'
import type { Test } from 'tap'
import { waitChanges, type QuotaWaitChange } from '../../lib/channels.js'
import quotaPlugin, {
  MemoryQuotaStore,
  quotaDecisions,
  type QuotaDecision,
  type QuotaDecisionMessage,
  type QuotaOptions,
  type QuotaStore
} from '../../lib/index.js'
import { required } from '../../lib/required.js'
import { fromHeader } from './quota-host.js'
import { until } from './until.js'
import { VirtualTime } from './virtual-time.js'

/** A request whose handler runs until it is told to finish. */
interface Running {
  readonly caller: string
  readonly request: FastifyRequest
  finish(): void
}

/** What a host has, beside its quotas. */
interface Parts {
  readonly options?: QuotaOptions
  readonly server?: FastifyServerOptions
  /** Puts something between the host and its store. */
  readonly wrap?: (store: QuotaStore) => QuotaStore
  /** Runs before the server is ready. */
  readonly declare?: (app: FastifyInstance) => unknown
}

/**
 * A service in virtual time with a route `POST /run` that is marked with all given quotas, and
 * whose handler runs until it is told to finish. Callers are named by the header `x-caller`.
 */
export async function createWaitingHost (
  t: Test,
  quotas: NonNullable<QuotaOptions['quotas']>,
  { options = {}, server = {}, wrap = (store) => store, declare = () => {} }: Parts = {}
) {
  const time = new VirtualTime()
  time.start()
  t.teardown(() => {
    time.stop()
  })
  const log = watch(t)
  const asked: number[] = []
  const store = wrap(
    askedAt(new MemoryQuotaStore({ clock: () => time.now }), () => {
      asked.push(time.now)
    })
  )
  const app: FastifyInstance = Fastify(server)
  await app.register(quotaPlugin, {
    operations: [],
    authentication: fromHeader,
    store,
    quotas,
    ...options
  })
  const running: Running[] = []
  app.post('/run', { config: { quota: Object.keys(quotas) } }, async (request) =>
    new Promise<string>((resolve) => {
      const caller = String(request.headers['x-caller'])
      running.push({ caller, request, finish: () => resolve('ran') })
    })
  )
  await declare(app)
  await app.ready()
  const ask = (caller = 'alice', headers = {}) =>
    app.inject({ method: 'POST', url: '/run', headers: { 'x-caller': caller, ...headers } })
      .then((response) => response)
  return {
    app,
    time,
    store,
    asked,
    ask,
    /** The requests whose handlers run or have run, in the order in which they began. */
    running,
    ...log,
    /** Sends a request, and waits until its handler runs. */
    async run (caller = 'alice') {
      const before = running.length
      const response = ask(caller)
      await until('a handler runs', () => running.length > before)
      const begun = required(running.at(-1), 'the request that runs')
      return { response, ...begun }
    },
    /** Sends a request, and waits until it waits. */
    async queue (caller = 'alice', headers = {}) {
      const before = log.waiting()
      const response = ask(caller, headers)
      await until('a request waits', () => log.waiting() > before)
      return { response }
    }
  }
}

/** Notes what is published about waits and decisions until the end of a test. */
function watch (t: Test) {
  let waiting = 0
  const seconds: (number | null)[] = []
  const decisions: QuotaDecision[] = []
  const noteWait = (message: unknown): void => {
    const { change, seconds: waited } = message as QuotaWaitChange
    waiting += change
    if (change === -1) seconds.push(waited)
  }
  const noteDecision = (message: unknown): void => {
    decisions.push((message as QuotaDecisionMessage).decision)
  }
  subscribe(waitChanges.name, noteWait)
  subscribe(quotaDecisions.name, noteDecision)
  t.teardown(() => {
    unsubscribe(waitChanges.name, noteWait)
    unsubscribe(quotaDecisions.name, noteDecision)
  })
  /** `waiting` returns how many requests wait. */
  return { waiting: () => waiting, seconds, decisions }
}

/** Calls a function each time that a store is asked for a decision. */
function askedAt (store: MemoryQuotaStore, note: () => void): QuotaStore {
  return {
    acquire (demands) {
      note()
      return store.acquire(demands)
    },
    settle: (...given) => store.settle(...given),
    peek: (demand) => store.peek(demand),
    forget: (...given) => {
      store.forget(...given)
    }
  }
}
