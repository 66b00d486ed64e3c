// One instance of a service in a separate process: a quota with an insured store, and the faults that the driver requests.
import { subscribe } from 'node:diagnostics_channel'
import { Writable } from 'node:stream'
import Fastify from 'fastify'
import quotaPlugin, { InsuredQuotaStore, localAuthentication, MemoryQuotaStore, type InsuredQuotaStoreChange } from '../lib/index.js'
import { RedisQuotaStore } from '../lib/redis.js'
import { clients } from './clients.js'
import type { InstanceReport, InstanceSettings, Order } from './instance-process.js'

const settings: InstanceSettings = JSON.parse(process.argv[2] ?? '')
const offsets = { insuredClock: 0, storeClock: 0 }
const report: InstanceReport = { state: 'primary', published: [], logged: [], reasons: [], admittedByFallback: {}, unhandled: [] }

/** A fallback that records which callers it admits. */
class NotedStore extends MemoryQuotaStore {
  override acquire (callerKey: string, limit: number) {
    const acquisition = super.acquire(callerKey, limit)
    if (acquisition.admitted) report.admittedByFallback[callerKey] = (report.admittedByFallback[callerKey] ?? 0) + 1
    return acquisition
  }
}

const chosen = clients[settings.client]
if (chosen === undefined) throw new RangeError(`there is no client ${settings.client}`)
const store = new InsuredQuotaStore({
  primary: new RedisQuotaStore({
    client: await chosen.connect(settings.port),
    ...(settings.givesTime && { clock: () => Date.now() + offsets.storeClock })
  }),
  fallback: new NotedStore(),
  clock: () => performance.now() + offsets.insuredClock
})

process.on('unhandledRejection', (reason) => { report.unhandled.push(String(reason)) })
subscribe('fastify-llm-quota:insured-store', (message) => {
  const { state, error }: InsuredQuotaStoreChange = Object(message)
  report.published.push(state)
  if (error instanceof Error) report.reasons.push(error.message)
})

const stream = new Writable({
  write (line, _encoding, done) {
    const { msg, level } = JSON.parse(String(line))
    if (level > 40 || /primary store/.test(msg)) report.logged.push(msg)
    done()
  }
})
const app = Fastify({ logger: { level: 'warn', stream } })
await app.register(quotaPlugin, {
  store,
  perMinute: settings.limit,
  authentication: ({ headers }) => localAuthentication(String(headers['x-caller']))
})
app.post('/api/analyze', async () => 'admitted')

const orders: { readonly [Name in Order['order']]: (order: Order) => void } = {
  stall ({ milliseconds, times }) {
    const block = (left: number): void => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)
      if (left > 1) setImmediate(block, left - 1)
    }
    block(times)
  },
  stepInsuredClock ({ milliseconds }) { offsets.insuredClock += milliseconds },
  stepStoreClock ({ milliseconds }) { offsets.storeClock += milliseconds },
  report () { process.send?.({ ...report, state: store.state }) }
}
process.on('message', (order: Order) => { orders[order.order](order) })
process.on('disconnect', () => { process.exit() })
process.send?.(await app.listen({ host: '127.0.0.1', port: 0 }))
