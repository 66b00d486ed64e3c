// One instance of a service in a separate process: a quota with an insured store, and the faults that the driver requests.
import { subscribe } from 'node:diagnostics_channel'
import { Writable } from 'node:stream'
import Fastify from 'fastify'
import quotaPlugin, { InsuredQuotaStore, localAuthentication, MemoryQuotaStore, type InsuredQuotaStoreChange, type PrimaryQuotaStore } from '../lib/index.js'
import type { InstanceReport, InstanceSettings, Order } from './instance-process.js'
import { clients, serverOf } from './stores.js'

const settings: InstanceSettings = JSON.parse(process.argv[2] ?? '')
let clockOffset = 0
const report: Omit<InstanceReport, 'state' | 'answers'> = { changes: [], logged: [], errors: [], admittedByFallback: {}, unhandled: [] }

/** A fallback that records which callers it admits. */
class NotedStore extends MemoryQuotaStore {
  override acquire (callerKey: string, limit: number) {
    const acquisition = super.acquire(callerKey, limit)
    if (acquisition.admitted) report.admittedByFallback[callerKey] = (report.admittedByFallback[callerKey] ?? 0) + 1
    return acquisition
  }
}

const stores = await Promise.all(settings.ports.map((port) =>
  clients[settings.client]?.connect(port, settings.givesTime ? { clock: () => Date.now() + clockOffset } : {}) ?? Promise.reject(new RangeError(`there is no client ${settings.client}`))))

/** A store that divides the callers among several servers. */
const primary: PrimaryQuotaStore = {
  shardOf: (callerKey) => serverOf(callerKey, stores.length),
  acquire: (callerKey, limit, cost) => stores[serverOf(callerKey, stores.length)]?.acquire(callerKey, limit, cost) ?? Promise.reject(new Error('there is no such server'))
}
const store = new InsuredQuotaStore({ primary, fallback: new NotedStore() })

process.on('unhandledRejection', (reason) => { report.unhandled.push(String(reason)) })
subscribe('fastify-llm-quota:insured-store', (message) => {
  const { shard, state: to, error }: InsuredQuotaStoreChange = Object(message)
  report.changes.push({ shard, to, state: store.state })
  if (error instanceof Error) report.errors.push({ shard, message: error.message })
})

const logged: readonly (readonly [RegExp, string])[] = [[/works again$/, 'primary'], [/fails; its fallback counts$/, 'fallback'], [/shards; the fallback counts/, 'both']]
const stream = new Writable({
  write (line, _encoding, done) {
    const { msg, level } = JSON.parse(String(line))
    if (level > 40 || /primary store/.test(msg)) report.logged.push(logged.find(([pattern]) => pattern.test(msg))?.[1] ?? msg)
    done()
  }
})
const app = Fastify({ logger: { level: 'warn', stream } })
await app.register(quotaPlugin, {
  store,
  perMinute: settings.limit,
  authentication: ({ headers }) => localAuthentication(String(headers['x-caller']))
})
app.post('/api/analyze', async ({ quota }) => String(quota?.count))

const orders: { readonly [Name in Order['order']]: (order: Order) => void } = {
  stall ({ milliseconds, times }) {
    const block = (left: number): void => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)
      if (left > 1) setImmediate(block, left - 1)
    }
    block(times)
  },
  stepClock ({ milliseconds }) { clockOffset += milliseconds },
  report () { process.send?.({ ...report, state: store.state, answers: store.answers } satisfies InstanceReport) }
}
process.on('message', (order: Order) => { orders[order.order](order) })
process.on('disconnect', () => { process.exit() })
process.send?.(await app.listen({ host: '127.0.0.1', port: 0 }))
