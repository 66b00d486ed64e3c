// Draws docs/dashboard.svg: the dashboard for a run of the example service, from the values of its /metrics.
import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { printToken, startExample } from '../test/support/example.js'
import { linePlots, type Series } from './plot.js'

const seconds = 90
const body = JSON.stringify({ businessText: 'Our invoices went out late. Customers complain.' })
const outcomes = ['admitted', 'rejected', 'unauthenticated', 'unavailable', 'disabled']

const service = await startExample('service/main.js', { METRICS: 'true' })
const tokens = Array.from({ length: 60 }, (_, number) => printToken(`caller ${number}`))
const samples: Map<string, number>[] = []
for (let second = 0; second <= seconds; second++) {
  const started = performance.now()
  samples.push(await scrape())
  await Promise.all(requestsOf(second).map(ask))
  await sleep(Math.max(0, 1000 - (performance.now() - started)))
}
await service.stop()

writeFileSync('docs/dashboard.svg', linePlots([
  { title: 'Decisions per second, by outcome', xLabel: 'seconds', series: outcomes.map((outcome) => ({ name: outcome, points: rate((name) => name.startsWith('llm_quota_decisions_total{quota="default"') && name.includes(`outcome="${outcome}"`)) })) },
  { title: 'Tracked callers', xLabel: 'seconds', series: [{ name: 'tracked callers', points: samples.map((sample, second) => [second, sample.get('llm_quota_tracked_callers{quota="default"}') ?? 0]) }] },
  { title: 'Mean store latency, µs', xLabel: 'seconds', series: [{ name: 'memory store', points: storeTimes() }] }
]))

// More and more callers send requests, one of them floods the service until it is rejected, and some requests have no token.
function requestsOf (second: number): (string | undefined)[] {
  const callers = tokens.slice(0, Math.min(tokens.length, 2 + second))
  const wave = Math.round(6 + 5 * Math.sin(second / 8))
  const requests: (string | undefined)[] = Array.from({ length: wave }, (_, turn) => callers[(second * 3 + turn) % callers.length])
  const flood = second > 30 && second < 55 ? Array.from({ length: 12 }, () => tokens[0]) : []
  return [...requests, ...flood, ...(second % 10 === 0 ? [undefined, undefined] : [])]
}

async function ask (token: string | undefined): Promise<void> {
  const headers = { 'content-type': 'application/json', ...(token !== undefined && { authorization: `Bearer ${token}` }) }
  await (await fetch(`${service.address}/api/analyze`, { method: 'POST', headers, body })).arrayBuffer()
}

async function scrape (): Promise<Map<string, number>> {
  const text = await (await fetch(`${service.address}/metrics`)).text()
  return new Map([...text.matchAll(/^([a-z]\S*(?:\{[^}]*\})?) (\S+)$/gm)].map(([, name = '', value]) => [name, Number(value)]))
}

function sum (sample: Map<string, number> | undefined, counts: (name: string) => boolean): number {
  return [...sample ?? []].filter(([name]) => counts(name)).reduce((total, [, value]) => total + value, 0)
}

function rate (counts: (name: string) => boolean): Series['points'] {
  return samples.slice(1).map((sample, index) => [index + 1, sum(sample, counts) - sum(samples[index], counts)])
}

function storeTimes (): Series['points'] {
  const times = rate((name) => name === 'llm_quota_store_duration_seconds_sum')
  const counts = rate((name) => name === 'llm_quota_store_duration_seconds_count')
  return times.map(([second, time], index) => [second, time * 1e6 / Math.max(1, counts[index]?.[1] ?? 1)])
}
