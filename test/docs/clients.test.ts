// The clients of docs/clients.md: each one sends a request while its caller is at the limit.
// Time is virtual: an expected wait ends immediately and advances the clock of the store by the
// same amount.
import Fastify from 'fastify'
import OpenAI from 'openai'
import t, { type Test } from 'tap'
import { ask as askAi, patientFetch } from '../../documented/clients/ai.js'
import quotaPlugin, { localAuthentication, MemoryQuotaStore } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'

const minute = 60_000

/** A service with a limit of 1, and the status of each of its responses. */
async function startService (t: Test, clock: VirtualClock) {
  const statuses: number[] = []
  const app = Fastify()
  app.addHook('onSend', async (_request, reply) => {
    statuses.push(reply.statusCode)
  })
  await app.register(quotaPlugin, {
    perMinute: 1,
    store: new MemoryQuotaStore({ clock: clock.now }),
    authentication: ({ headers }) =>
      headers.authorization === 'Bearer nobody'
        ? null
        : localAuthentication(String(headers.authorization))
  })
  app.post('/v1/chat/completions', { config: { quota: true } }, async () => ({
    id: '1',
    object: 'chat.completion',
    created: 1,
    model: 'any',
    choices: [
      { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Two invoices.' } }
    ]
  }))
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => app.close())
  return { address, statuses }
}

/** Makes timers of a minute run immediately and advance the clock, and counts them. */
function skipWaits (t: Test, clock: VirtualClock): number[] {
  const waits: number[] = []
  const real = globalThis.setTimeout
  t.teardown(() => {
    Reflect.set(globalThis, 'setTimeout', real)
  })
  Reflect.set(globalThis, 'setTimeout', (callback: () => void, delay: number) => {
    if (delay !== minute) return real(callback, delay)
    waits.push(delay)
    clock.advance(delay)
    return real(callback, 0)
  })
  return waits
}

async function askOpenAi (address: string, token: string): Promise<unknown> {
  const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: token })
  const messages = [{ role: 'user' as const, content: 'Which invoices are late?' }]
  const completion = await client.chat.completions.create({ model: 'any', messages })
  return completion.choices[0]?.message.content
}

async function askWithFetch (address: string, token: string): Promise<unknown> {
  const response = await patientFetch(`${address}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` }
  })
  return Object(await response.json()).choices?.[0].message.content
}

for (const [name, ask] of [
  ['openai', askOpenAi],
  ['ai', askAi],
  ['fetch', askWithFetch]
] as const) {
  t.test(
    `${name} waits until the window ends, sends the request once more, and does not retry a 401`,
    async (t) => {
      const clock = new VirtualClock()
      const { address, statuses } = await startService(t, clock)
      await ask(address, 'alice')
      const waits = skipWaits(t, clock)
      t.equal(await ask(address, 'alice'), 'Two invoices.')
      t.same([waits, statuses], [[minute], [200, 429, 200]])
      await ask(address, 'nobody').catch(() => {})
      t.same(statuses.slice(3), [401])
    }
  )
}

t.test('the patient fetch does not wait for a window of a month', async (t) => {
  const app = Fastify()
  await app.register(quotaPlugin, {
    operations: [],
    quotas: { chat: { limit: 1, window: 31 * 24 * 3_600_000 } },
    authentication: () => localAuthentication('alice')
  })
  app.post('/chat', { config: { quota: 'chat' } }, async () => 'ran')
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(() => app.close())
  const ask = async () => await patientFetch(`${address}/chat`, { method: 'POST' })
  t.equal((await ask()).status, 200)
  const rejected = await ask()
  t.same([rejected.status, rejected.headers.get('retry-after')], [429, String(31 * 24 * 3600)])
})
