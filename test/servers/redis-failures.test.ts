// Servers that fail under load, with and without an InsuredQuotaStore.
import { EventEmitter, once } from 'node:events'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { Redis } from 'ioredis'
import tap from 'tap'
import { InsuredQuotaStore, type QuotaStore } from '../../lib/index.js'
import { RedisQuotaStore, type IoredisClient } from '../../lib/redis.js'
import { FaultyProxy } from '../support/faulty-proxy.js'
import { RedisServer } from '../support/redis-server.js'
import { alice, bearer, createService } from '../support/service.js'

const limit = 5
const timeout = 100

// A busy machine stalls this process, and one request can be affected by several stalls.
const delays = monitorEventLoopDelay({ resolution: 5 })
delays.enable()
const slack = (): number => 200 + 5 * delays.max / 1e6

const unhandled: unknown[] = []
process.on('unhandledRejection', (reason) => { unhandled.push(reason) })

// The number of requests before a failure, and during one.
const before = 100
const meanwhile = 60

interface Asked { readonly subject: string, readonly status: number, readonly milliseconds: number }

/** Sends requests to two instances until it is stopped: always for new callers, and for each more than its limit. */
function load (services: readonly FastifyInstance[]) {
  const asked: Asked[] = []
  const state = { running: true }
  const progress = new EventEmitter()
  let turn = 0
  const ask = async () => {
    while (state.running) {
      const service = services[++turn % services.length] ?? services[0]
      const subject = `caller ${Math.floor(turn / 24)}`
      if (service === undefined) return
      asked.push(await request(service, subject))
      progress.emit('answer')
      // Leaves processor time to the server.
      await pause(1)
    }
  }
  const done = Promise.all(Array.from({ length: 8 }, ask))
  return {
    asked,
    /** Waits until that many more requests have been answered. */
    async answers (more: number) {
      const enough = asked.length + more
      while (asked.length < enough) await once(progress, 'answer')
    },
    async stop () {
      state.running = false
      await done
    }
  }
}

async function request (service: FastifyInstance, subject: string): Promise<Asked> {
  const started = performance.now()
  const { statusCode } = await service.inject({ method: 'POST', url: '/api/analyze', headers: bearer(service, { ...alice, sub: subject }) })
  return { subject, status: statusCode, milliseconds: performance.now() - started }
}

function mostAdmitted (asked: readonly Asked[]): number {
  const admitted = new Map<string, number>()
  for (const { subject, status } of asked) if (status === 200) admitted.set(subject, (admitted.get(subject) ?? 0) + 1)
  return Math.max(...admitted.values())
}

function clientOf (port: number, insured: boolean): Redis {
  const redis = new Redis({ port, host: '127.0.0.1', maxRetriesPerRequest: 0, retryStrategy: () => 50, commandTimeout: insured ? 1_000 : 300 })
  redis.on('error', () => {})
  return redis
}

interface Scenario {
  /** How often the server loses a caller's count. */
  readonly losses: number
  /** Whether the server does not answer for a time. */
  readonly interrupts: boolean
  readonly fail: (server: RedisServer, proxy: FaultyProxy) => unknown
  readonly recover?: (server: RedisServer) => unknown
}

async function administer (server: RedisServer, ...command: [string, ...string[]]): Promise<void> {
  const redis = server.client()
  await redis.call(...command)
  redis.disconnect()
}

const scenarios: Record<string, Scenario> = {
  'kill -9 and a restart without data': { losses: 1, interrupts: true, fail: (server) => server.kill(), recover: (server) => server.start() },
  'SIGSTOP and SIGCONT': { losses: 0, interrupts: true, fail: (server) => { server.signal('SIGSTOP') }, recover: (server) => { server.signal('SIGCONT') } },
  'SCRIPT FLUSH': { losses: 0, interrupts: false, fail: (server) => administer(server, 'SCRIPT', 'FLUSH') },
  FLUSHALL: { losses: 1, interrupts: false, fail: (server) => administer(server, 'FLUSHALL') },
  'a full memory': {
    losses: 0,
    interrupts: true,
    fail: (server) => administer(server, 'CONFIG', 'SET', 'maxmemory', '1'),
    recover: (server) => administer(server, 'CONFIG', 'SET', 'maxmemory', '0')
  },
  'a demotion to a replica': {
    losses: 0,
    interrupts: true,
    fail: (server) => administer(server, 'REPLICAOF', '127.0.0.1', '1'),
    recover: (server) => administer(server, 'REPLICAOF', 'NO', 'ONE')
  },
  'connections that are cut off within a reply': { losses: 0, interrupts: true, fail: (_server, proxy) => { proxy.cut(4) } }
}

for (const [name, { losses, interrupts, fail, recover }] of Object.entries(scenarios)) {
  for (const insured of [true, false]) {
    tap.test(`limits remain bounded and the shared count returns after ${name}, with a store that is ${insured ? 'insured' : 'not insured'}`, async (t) => {
      const server = await RedisServer.start()
      const proxy = await FaultyProxy.start(server.port)
      const clients = [clientOf(proxy.port, insured), clientOf(proxy.port, insured)]
      t.teardown(async () => {
        for (const redis of clients) redis.disconnect()
        await proxy.stop()
        server.signal('SIGCONT')
        await server.stop()
      })
      await endure(t, { clients, insured, losses, interrupts, fail: () => fail(server, proxy), recover: () => recover?.(server) })
    })
  }
}

interface Endured extends Omit<Scenario, 'fail' | 'recover'> {
  readonly clients: readonly IoredisClient[]
  readonly insured: boolean
  readonly fail: () => unknown
  readonly recover?: () => unknown
}

/** Sends requests to an instance for each client before, during and after a failure. */
async function endure (t: Assertions, { clients, insured, losses, interrupts, fail, recover }: Endured): Promise<void> {
  const stores = clients.map((client) => store(client, insured))
  const services = await Promise.all(stores.map((store) => createService({ store, perMinute: limit })))
  const running = load(services)
  await running.answers(before)
  await fail()
  await running.answers(meanwhile)
  await recover?.()
  const recovered = performance.now()
  await backToShared(t, services, insured ? stores : [])
  t.comment(`back to the shared count ${Math.round(performance.now() - recovered)} ms after the recovery`)
  await running.stop()
  check(t, running.asked, insured, interrupts, 1 + losses + (insured ? services.length : 0))
}

type Assertions = Pick<typeof tap, 'comment' | 'fail' | 'ok' | 'same'>

function store (client: IoredisClient, insured: boolean): QuotaStore {
  const primary = new RedisQuotaStore({ client })
  return insured ? new InsuredQuotaStore({ primary, timeout }) : primary
}

// Every instance uses the server again, and all of them together admit at most one limit of requests of each new caller.
async function backToShared (t: Assertions, services: readonly FastifyInstance[], stores: readonly QuotaStore[]): Promise<void> {
  const deadline = performance.now() + 60_000
  const isBack = () => stores.every((store) => store instanceof InsuredQuotaStore && store.state === 'primary')
  for (let attempt = 0; performance.now() < deadline; attempt++) {
    const statuses = []
    for (let turn = 0; turn < 4 * limit; turn++) {
      const service = services[turn % services.length]
      if (service !== undefined) statuses.push((await request(service, `newcomer ${attempt}`)).status)
    }
    const admitted = statuses.filter((status) => status === 200).length
    if (isBack() && admitted === limit && !statuses.includes(503)) return
    // The fallback answers synchronously, so the event loop would not turn otherwise.
    await pause(10)
  }
  t.fail('the instances did not return to the shared count')
}

function check (t: Assertions, asked: readonly Asked[], insured: boolean, interrupts: boolean, storesAsked: number): void {
  const times = asked.map(({ milliseconds }) => milliseconds).sort((one, other) => one - other)
  const statuses = new Set(asked.map(({ status }) => status))
  t.comment(`${asked.length} requests, half of them within ${times[times.length >> 1]?.toFixed(1)} ms, all within ${times.at(-1)?.toFixed(0)} ms; at most ${mostAdmitted(asked)} admitted; statuses ${[...statuses].join(', ')}`)
  t.same(unhandled, [])
  t.ok(mostAdmitted(asked) <= limit * storesAsked, 'no caller is admitted more often than one limit for each store that decided')
  t.same(statuses, new Set([200, 429, ...(interrupts && !insured ? [503] : [])]), 'the operation does not run if a request cannot be counted')
  if (insured) t.ok(Number(times.at(-1)) < timeout + slack(), 'no request waits longer than the timeout, stalls of this process aside')
}
