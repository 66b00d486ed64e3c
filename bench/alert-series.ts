// Records the metrics of real services in healthy and in faulty states, for the tests of docs/alerts.yml. A sample is taken every half a second,
// and stands for half a minute: the cool-down is as much shorter, so that the shares of the decisions are those of the real time.
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify, { type FastifyInstance } from 'fastify'
import { Registry } from 'prom-client'
import quotaPlugin, { InsuredQuotaStore, localAuthentication, MemoryQuotaStore, type PrimaryQuotaStore, type QuotaOptions, type QuotaStore } from '../lib/index.js'
import quotaMetricsPlugin from '../lib/metrics.js'
import { RedisQuotaStore } from '../lib/redis.js'
import { RedisServer } from '../test/support/redis-server.js'

const samples = 40
const wrongFrom = 10
const sampleTime = 500
const coolDown = 1000 / 60
const requestsPerSample = 10
const recordedMetrics = /^llm_quota_(decisions_total|overflow_decisions_total|insured_answers_total|store_duration_seconds_bucket|tracked_callers|max_tracked_callers|preference_failures_total|failed_charges_total)/

/** A state of a service, from the sample `wrongFrom` on. */
interface State {
  /** The options of each instance. */
  readonly instances: readonly QuotaOptions[]
  /** The callers of the requests of a sample; an empty text is no caller. */
  readonly callers?: (sample: number) => readonly string[]
  /** Runs before each sample. */
  readonly change?: (sample: number) => unknown
}

const servers: RedisServer[] = []

async function redis (timeout = 400): Promise<{ server: RedisServer, store: RedisQuotaStore, insured: InsuredQuotaStore }> {
  const server = await RedisServer.start()
  servers.push(server)
  const client = server.client()
  await once(client, 'ready')
  const store = new RedisQuotaStore({ client, rememberRefusals: false })
  return { server, store, insured: new InsuredQuotaStore({ primary: store, timeout, coolDown }) }
}

/** A store that fails to charge tokens. */
function withFailingCharges (store: MemoryQuotaStore, isFailing: () => boolean): QuotaStore {
  const tokens = store.quota('tokens', 60_000)
  const charged: QuotaStore = {
    acquire (callerKey, limit, cost) {
      if (limit === Number.MAX_SAFE_INTEGER && isFailing()) throw new Error('no connection')
      return tokens.acquire(callerKey, limit, cost)
    }
  }
  return { acquire: (callerKey, limit, cost) => store.acquire(callerKey, limit, cost), quota: () => charged }
}

/** A store that takes from `least` to `most` milliseconds. */
function slow (store: QuotaStore, least: number, most: number): PrimaryQuotaStore {
  let turn = 0
  return {
    async acquire (callerKey, limit, cost) {
      turn += 1
      await sleep(least + (most - least) * (turn * 7 % 10) / 9)
      return store.acquire(callerKey, limit, cost)
    },
  }
}

const everyone = Array.from({ length: requestsPerSample }, (_, number) => `caller ${number % 5}`)
const isWrong = (sample: number): boolean => sample >= wrongFrom

const shared = await redis()
const lostUninsured = await redis()
const lostInShadow = await redis()
const lost = await redis()
const half = [await redis(), await redis()] as const
const masters = [await redis(), await redis(), await redis()] as const
const single = await redis()
const lastOfTheEvening = await redis()
const restarted = await redis()
const limits = new Map<string, unknown>()
const reader = { get (key: string) { if (limits.get(key) === 'broken') throw new Error('no preferences') } }
let chargesFail = false

const threeMasters: PrimaryQuotaStore = {
  shardOf: (callerKey) => Number.parseInt(callerKey.slice(-8), 16) % 3,
  acquire: (callerKey, limit) => (masters[threeMasters.shardOf?.(callerKey) ?? 0] ?? masters[0]).store.acquire(callerKey, limit)
}

const states: Record<string, State> = {
  'healthy, in memory': { instances: [{ perMinute: 20 }] },
  'healthy, shared by two instances': { instances: [{ store: shared.insured }, { store: new InsuredQuotaStore({ primary: shared.store, timeout: 400 }) }] },
  'healthy, without traffic': { instances: [{ store: new InsuredQuotaStore({ primary: shared.store }) }], callers: () => [] },
  'healthy, with a few requests without authentication': { instances: [{}], callers: () => [...everyone, '', ''] },
  'healthy, with rejections in shadow mode': { instances: [{ perMinute: 1, mode: 'shadow' }] },
  'healthy, with a limit of 0': { instances: [{ perMinute: 0 }], callers: () => [...everyone, ''] },
  'one connection lost at night': {
    instances: [{ store: lastOfTheEvening.insured }],
    callers: (sample) => sample < wrongFrom ? everyone : sample === wrongFrom ? ['caller 1'] : [],
    change: async (sample) => sample === wrongFrom ? lastOfTheEvening.server.kill() : sample === wrongFrom + 1 ? lastOfTheEvening.server.start() : undefined
  },
  'one request with 503': {
    instances: [{ store: single.store }],
    callers: (sample) => sample === wrongFrom ? ['caller 1'] : everyone,
    change: async (sample) => sample === wrongFrom ? single.server.kill() : sample === wrongFrom + 1 ? single.server.start() : undefined
  },
  'the server restarts': {
    instances: [{ store: restarted.insured }],
    change: async (sample) => sample === wrongFrom ? restarted.server.kill() : sample === wrongFrom + 1 ? restarted.server.start() : undefined
  },
  'the server is lost, not insured': { instances: [{ store: lostUninsured.store }], change: async (sample) => isWrong(sample) && lostUninsured.server.kill() },
  'the server is lost, in shadow mode': { instances: [{ store: lostInShadow.store, mode: 'shadow' }], change: async (sample) => isWrong(sample) && lostInShadow.server.kill() },
  'the server is lost': { instances: [{ store: lost.insured }], change: async (sample) => isWrong(sample) && lost.server.kill() },
  'half of the instances lose the server': {
    instances: half.map(({ insured }) => ({ store: insured })),
    change: async (sample) => isWrong(sample) && half[0].server.kill()
  },
  'one of three masters is lost': {
    instances: [{ store: new InsuredQuotaStore({ primary: threeMasters, timeout: 400, coolDown }) }],
    change: async (sample) => isWrong(sample) && masters[1].server.kill()
  },
  'the server takes 60 to 140 ms': { instances: [{ store: new InsuredQuotaStore({ primary: slow(new MemoryQuotaStore(), 60, 140), coolDown }) }] },
  'the server takes 60 to 90 ms': { instances: [{ store: new InsuredQuotaStore({ primary: slow(new MemoryQuotaStore(), 60, 90), timeout: 400 }) }] },
  'most requests are unauthenticated': { instances: [{}], callers: (sample) => isWrong(sample) ? everyone.map((caller, number) => number === 0 ? caller : '') : everyone },
  'the caller cap is near': { instances: [{ store: new MemoryQuotaStore({ maxTrackedCallers: 10 }) }], callers: (sample) => isWrong(sample) ? newcomers(4) : everyone },
  'the caller cap is reached': { instances: [{ store: new MemoryQuotaStore({ maxTrackedCallers: 10 }) }], callers: (sample) => isWrong(sample) ? newcomers(7) : everyone },
  'the preference reader fails': { instances: [{ preferences: reader }], change: (sample) => isWrong(sample) && limits.set('rate-limit.per-minute', 'broken') },
  'charges are lost': {
    instances: [{ store: withFailingCharges(new MemoryQuotaStore(), () => chargesFail), quotas: { tokens: { operations: [{ method: 'POST', path: '/api/analyze' }], tokensPerMinute: 1_000_000 } } }],
    change: (sample) => { chargesFail = isWrong(sample) }
  }
}

function newcomers (count: number): string[] {
  return Array.from({ length: count }, (_, number) => `newcomer ${number}`)
}

async function start (options: QuotaOptions): Promise<{ app: FastifyInstance, registry: Registry }> {
  const registry = new Registry()
  const app: FastifyInstance = Fastify()
  await app.register(quotaPlugin, { perMinute: 100_000, authentication: ({ headers }) => localAuthentication(String(headers['x-caller'])), ...options })
  await app.register(quotaMetricsPlugin, { registry })
  app.post('/api/analyze', async (request) => { await app.quotaCharge(request, 100) })
  await app.ready()
  return { app, registry }
}

async function record ({ instances, callers = () => everyone, change = () => {} }: State): Promise<{ series: string, values: string }[]> {
  const services = await Promise.all(instances.map(start))
  const scrapes: Map<string, string>[] = []
  for (let sample = 0; sample < samples; sample++) {
    const began = performance.now()
    await change(sample)
    const responses = services.flatMap(({ app }) => callers(sample).map(async (caller, number) => {
      await sleep(number * sampleTime / requestsPerSample * 0.8)
      await app.inject({ method: 'POST', url: '/api/analyze', headers: { 'x-caller': caller } })
    }))
    await Promise.all(responses)
    scrapes.push(new Map((await Promise.all(services.map(async ({ registry }, instance) => seriesOf(await registry.metrics(), instance)))).flat()))
    await sleep(Math.max(0, sampleTime - (performance.now() - began)))
  }
  for (const { app } of services) await app.close()
  const names = new Set(scrapes.flatMap((scrape) => [...scrape.keys()]))
  return [...names].sort().map((series) => ({ series, values: inRuns(scrapes.map((scrape) => scrape.get(series))) }))
}

/** Writes values in the notation of promtool: `3+2x4` is 3, 5, 7, 9, 11, and `_x4` is no value four times. */
function inRuns (values: readonly (string | undefined)[]): string {
  const runs: { first: string | undefined, step: number, count: number, last: number }[] = []
  for (const value of values) {
    const run = runs.at(-1)
    const step = Number(value) - (run?.last ?? 0)
    if (run === undefined || (run.first === undefined) !== (value === undefined) || (value !== undefined && run.count > 1 && step !== run.step)) {
      runs.push({ first: value, step: 0, count: 1, last: Number(value) })
    } else {
      Object.assign(run, { step, count: run.count + 1, last: Number(value) })
    }
  }
  return runs.map(({ first, step, count }) => {
    if (first === undefined) return `_x${count}`
    return count === 1 ? first : `${first}${step < 0 ? '' : '+'}${step}x${count - 1}`
  }).join(' ')
}

function seriesOf (text: string, instance: number): [string, string][] {
  return [...text.matchAll(/^([a-z_]+)(?:\{(.*)\})? (\S+)$/gm)].filter(([, name = '']) => recordedMetrics.test(name)).map(([, name = '', labels = '', value = '']) => {
    return [`${name}{job="api",instance="${instance}"${labels === '' ? '' : `,${labels}`}}`, value]
  })
}

const recorded: Record<string, { series: string, values: string }[]> = {}
// More at once would slow down the services.
const atOnce = 3
for (let first = 0; first < Object.keys(states).length; first += atOnce) {
  const batch = Object.entries(states).slice(first, first + atOnce)
  const series = await Promise.all(batch.map(([, state]) => record(state)))
  for (const [index, [name]] of batch.entries()) recorded[name] = series[index] ?? []
}
writeFileSync('test/alerts/series.json', JSON.stringify(recorded, null, 1) + '\n')
for (const server of servers) await server.stop()
process.exit()
