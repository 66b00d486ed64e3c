// One instance of a service in a separate process: a quota with an insured store. It answers each
// message with a report.
import { subscribe } from 'node:diagnostics_channel'
import { Writable } from 'node:stream'
import Fastify from 'fastify'
import quotaPlugin, {
  InsuredQuotaStore,
  localAuthentication,
  MemoryQuotaStore
} from '../lib/index.js'
import type {
  Acquisition,
  Demand,
  InsuredQuotaStoreChange,
  PrimaryQuotaStore,
  QuotaStore
} from '../lib/index.js'
import type { InstanceReport, InstanceSettings } from './instance-process.js'
import { clients, serverOf } from './stores.js'

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

const stores = connected.map(({ store }) => store)
const madeBy = new WeakMap<Acquisition, QuotaStore>()

/**
 * A store that divides the callers among several servers. The insured store calls it with the
 * demands of one shard at a time.
 */
const primary: PrimaryQuotaStore = {
  shardOf: (callerKey) => serverOf(callerKey, stores.length),
  acquire (demands) {
    const store = stores[serverOf(demands[0]?.callerKey ?? '', stores.length)]
    if (store === undefined) throw new Error('there is no such server')
    const remember = (acquisitions: readonly (Acquisition | null)[]) => {
      for (const acquisition of acquisitions) {
        if (acquisition !== null) madeBy.set(acquisition, store)
      }
      return acquisitions
    }
    const acquisitions = store.acquire(demands)
    return acquisitions instanceof Promise ? acquisitions.then(remember) : remember(acquisitions)
  },
  settle: (acquisition, used) => madeBy.get(acquisition)?.settle?.(acquisition, used)
}
const store = new InsuredQuotaStore({ primary, fallback: new NotedStore() })

process.on('unhandledRejection', (reason) => {
  report.unhandled.push(String(reason))
})
subscribe('fastify-llm-quota:insured-store', (message) => {
  const { shard, state: to, error }: InsuredQuotaStoreChange = Object(message)
  report.changes.push({ shard, to, state: store.state })
  if (error instanceof Error) report.errors.push({ shard, message: error.message })
})

const logged: readonly (readonly [RegExp, string])[] = [
  [/works again$/, 'primary'],
  [/fails; its fallback counts$/, 'fallback'],
  [/shards; the fallback counts/, 'both']
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

process.on('message', () => {
  process.send?.({
    ...report,
    state: store.state,
    decisions: store.decisions
  } satisfies InstanceReport)
})
process.on('disconnect', () => {
  process.exit()
})
process.send?.(await app.listen({ host: '127.0.0.1', port: 0 }))
