// One instance of a service in a separate process: a quota with an insured store for each server.
// It answers each message with a report.
import { subscribe } from 'node:diagnostics_channel'
import { Writable } from 'node:stream'
import Fastify from 'fastify'
import quotaPlugin, {
  InsuredQuotaStore,
  localAuthentication,
  MemoryQuotaStore,
  ShardedQuotaStore
} from '../lib/index.js'
import type { Demand, InsuredQuotaStoreChange } from '../lib/index.js'
import type { InstanceReport, InstanceSettings } from './instance-process.js'
import { clients } from './stores.js'

const settings: InstanceSettings = JSON.parse(process.argv[2] ?? '')
const report: Omit<InstanceReport, 'state' | 'decisions'> = {
  changes: [],
  logged: [],
  errors: [],
  admittedByFallback: {},
  unhandled: []
}

/** A fallback that records which callers it admits. */
class NotedStore extends MemoryQuotaStore {
  override acquire (demands: readonly Demand[]) {
    const acquisitions = super.acquire(demands)
    const { callerKey = '' } = demands[0] ?? {}
    if (acquisitions.every((acquisition) => acquisition?.admitted === true)) {
      report.admittedByFallback[callerKey] = (report.admittedByFallback[callerKey] ?? 0) + 1
    }
    return acquisitions
  }
}

const connected = await Promise.all(
  settings.ports.map(
    (port) =>
      clients[settings.client]?.connect(port) ??
      Promise.reject(new RangeError(`there is no client ${settings.client}`))
  )
)

const insured = connected.map(
  ({ store }) => new InsuredQuotaStore({ primary: store, fallback: new NotedStore() })
)
const store = new ShardedQuotaStore(insured)

process.on('unhandledRejection', (reason) => {
  report.unhandled.push(String(reason))
})
subscribe('fastify-llm-quota:insured-store', (message) => {
  const { store: changed, state: to, error }: InsuredQuotaStoreChange = Object(message)
  const shard = insured.findIndex((each) => each === changed)
  report.changes.push({ shard, to })
  if (error instanceof Error) report.errors.push({ shard, message: error.message })
})

const logged: readonly (readonly [RegExp, string])[] = [
  [/works again$/, 'primary'],
  [/fails; its fallback counts$/, 'fallback']
]
// While its store fails, a request cannot settle what it has of it, and says so.
const expected = /may stay taken for 30 seconds$|counts may be wrong$|not be taken back from /
const stream = new Writable({
  write (line, _encoding, done) {
    const { msg, level } = JSON.parse(String(line))
    if ((level > 40 && !expected.test(msg)) || /primary store/.test(msg)) {
      report.logged.push(logged.find(([pattern]) => pattern.test(msg))?.[1] ?? msg)
    }
    done()
  }
})
const app = Fastify({ logger: { level: 'warn', stream } })
// Beside the limit that is checked, a request takes a place and counts tokens, which are given
// back.
const operations = [{ method: 'POST', path: '/api/analyze' }]
await app.register(quotaPlugin, {
  store,
  perMinute: settings.limit,
  quotas: {
    tokens: { operations, perMinute: { tokens: 1_000_000 }, cost: 100 },
    streams: { operations, concurrent: 100 }
  },
  authentication: ({ headers }) => localAuthentication(String(headers['x-caller']))
})
app.post('/api/analyze', async (request) => {
  await request.quota.charge(90)
  return String(request.quota.decisions[0]?.count)
})

const sum = (numbers: readonly number[]): number =>
  numbers.reduce((total, number) => total + number, 0)

process.on('message', () => {
  process.send?.({
    ...report,
    state: insured.every(({ state }) => state === 'primary') ? 'primary' : 'fallback',
    decisions: sum(insured.map(({ decisions }) => decisions.primary + decisions.fallback))
  } satisfies InstanceReport)
})
process.on('disconnect', () => {
  process.exit()
})
process.send?.(await app.listen({ host: '127.0.0.1', port: 0 }))
