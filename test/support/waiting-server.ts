import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { setImmediate as turn } from 'node:timers/promises'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Test } from 'tap'
import { waitChanges, type QuotaWaitChange } from '../../lib/channels.js'
import {
  localAuthentication,
  MemoryQuotaStore,
  quotaDecisions,
  type QuotaDecision,
  type QuotaDecisionMessage,
  type QuotaDefinition,
  type QuotaOptions,
  type QuotaStore
} from '../../lib/index.js'
import { required } from '../../lib/required.js'
import { createServer, type ServerOptions } from './server.js'
import { VirtualTime } from './time.js'
import { until } from './until.js'

/** A request whose handler runs until it is told to finish. */
interface Running {
  readonly caller: string
  readonly request: FastifyRequest
  finish(): void
}

/** What a host has, beside its quotas. */
interface Parts extends ServerOptions {
  /** Puts something between the host and its store. */
  readonly wrap?: (store: QuotaStore) => QuotaStore
  /** Runs before the server is ready. */
  readonly declare?: (app: FastifyInstance) => unknown
}

/** The authentication of the whole service, whose places its callers wait for. */
export const service = () => localAuthentication('service')

/** Places of the whole service, which its callers wait for. */
export function slots (
  concurrent: number,
  wait: NonNullable<QuotaDefinition['wait']>
): QuotaDefinition {
  return { concurrent, authentication: service, wait }
}

/** Advances the time in steps, so that what becomes due can ask the store. */
export async function pass (time: VirtualTime, ms: number, step = 100): Promise<void> {
  for (let passed = 0; passed < ms; passed += step) {
    time.advance(step)
    await turn()
  }
}

/**
 * A server in virtual time, timers included, whose route `POST /run` is marked with all given
 * quotas, and whose handler runs until it is told to finish.
 */
export async function createWaitingServer (
  t: Test,
  quotas: NonNullable<QuotaOptions['quotas']>,
  { wrap = (store) => store, declare = () => {}, ...options }: Parts = {}
) {
  const time = new VirtualTime()
  time.start()
  t.teardown(() => {
    time.stop()
  })
  const changes = watch(t)
  const asked: number[] = []
  const store = wrap(
    askedAt(new MemoryQuotaStore({ clock: () => time.now }), () => {
      asked.push(time.now)
    })
  )
  const running: Running[] = []
  const { app, log, ask: send } = await createServer({
    store,
    quotas,
    handler: async (request) =>
      new Promise<string>((resolve) => {
        const caller = String(request.headers['x-caller'])
        running.push({ caller, request, finish: () => resolve('ran') })
      }),
    ...options
  })
  await declare(app)
  await app.ready()
  const ask = (caller = 'alice', headers = {}) =>
    send({ headers: { 'x-caller': caller, ...headers } }).then((response) => response)
  return {
    app,
    log,
    time,
    store,
    asked,
    ask,
    /** The requests whose handlers run or have run, in the order in which they began. */
    running,
    ...changes,
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
      const before = changes.waiting()
      const response = ask(caller, headers)
      await until('a request waits', () => changes.waiting() > before)
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
