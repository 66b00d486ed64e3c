import Fastify, { type FastifyInstance } from 'fastify'
import { Registry } from 'prom-client'
import type { Test } from 'tap'
import quotaPlugin, { type QuotaOptions } from '../../lib/index.js'
import quotaMetricsPlugin, { type QuotaMetricsRegistry } from '../../lib/metrics.js'
import { fromHeader } from './server.js'

export const ofDefault = '{quota="default",unit="requests"}'
export const ofChat = '{quota="chat",unit="tokens"}'
export const ofStreams = '{quota="streams",unit="concurrent-requests"}'
export const admitted = 'default requests POST /api/analyze admitted'
export const chat = { method: 'POST', path: '/api/chat' }
export const quotas: QuotaOptions['quotas'] = {
  chat: { operations: [chat], perMinute: { tokens: 70 }, cost: 10 },
  streams: { operations: [chat], concurrent: 9 }
}

/**
 * Creates a server with the quota and its metrics, whose callers are named by the header
 * `x-caller`.
 */
export async function createMetricsServer (
  t: Test,
  options: QuotaOptions = {},
  registry: Registry = new Registry()
) {
  const app: FastifyInstance = Fastify()
  t.teardown(() => app.close())
  await app.register(quotaPlugin, { authentication: fromHeader, ...options })
  await app.register(quotaMetricsPlugin, { registry })
  for (const url of ['/api/analyze', chat.path, '/api/zoned', '/api/planned']) {
    app.post(url, async () => 'ran')
  }
  app.post('/api/marked', { config: { quota: () => 'nothing' } }, async () => 'ran')
  const ask = async (url = '/api/analyze', caller = 'alice', count = 1): Promise<number[]> => {
    const statuses = []
    for (let request = 0; request < count; request++) {
      statuses.push(
        (await app.inject({ method: 'POST', url, headers: { 'x-caller': caller } })).statusCode
      )
    }
    return statuses
  }
  return {
    app,
    registry,
    ask,
    close: () => app.close(),
    decisions: () => decisionsIn(registry),
    scrape: () => scrape(registry)
  }
}

/** Returns the value of each series in a scrape. */
export async function scrape (registry: QuotaMetricsRegistry): Promise<Record<string, number>> {
  const text = await registry.metrics()
  return Object.fromEntries(
    [...text.matchAll(/^([a-z]\S*(?:\{[^}]*\})?) (\S+)$/gm)].map(([, series = '', value]) => [
      series,
      Number(value)
    ])
  )
}

/**
 * Returns the counts above 0 of decisions, by quota, unit, operation, `false` if they are not
 * enforced, outcome and reason.
 */
export async function decisionsIn (
  registry: QuotaMetricsRegistry
): Promise<Record<string, number>> {
  const series = Object.entries(await scrape(registry)).filter(
    ([name, value]) => name.startsWith('llm_quota_decisions_total') && value > 0
  )
  return Object.fromEntries(
    series.map(([name, value]) => [
      [...name.matchAll(/="([^"]*)"/g)]
        .map(([, label]) => label)
        .filter((label) => label !== '' && label !== 'true')
        .join(' '),
      value
    ])
  )
}
