// The alert rules in docs/operating.md and the queries in docs/dashboard.json, checked with promtool. Each alert is tested with the
// metrics that a service reports before and during a problem.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Fastify, { type FastifyInstance } from 'fastify'
import { Registry } from 'prom-client'
import t, { type Test } from 'tap'
import quotaPlugin, { InsuredQuotaStore, localAuthentication, MemoryQuotaStore, type QuotaStore } from '../../lib/index.js'
import quotaMetricsPlugin from '../../lib/metrics.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { plainEnvironment } from '../support/environment.js'
import { startRedis } from '../support/redis-server.js'

interface Panel { title: string, description?: string, type: string, fieldConfig: { defaults: { noValue?: string, thresholds?: object } }, targets: { expr: string }[] }

const folder = mkdtempSync(join(tmpdir(), 'quota-alerts-'))
t.teardown(() => { rmSync(folder, { recursive: true }) })

const [, rules = ''] = /```yaml\n(groups:.*?)```/s.exec(readFileSync('docs/operating.md', 'utf8')) ?? []
const rulesFile = write('rules.yml', rules)
const summaries = Object.fromEntries([...rules.matchAll(/alert: (\w+).*?summary: "([^"]*)"/gs)].map(([, alert = '', summary = '']) => [alert, summary]))

function write (name: string, text: string): string {
  const file = join(folder, name)
  writeFileSync(file, text)
  return file
}

function promtool (...words: string[]): string {
  return execFileSync('promtool', words, { encoding: 'utf8', env: plainEnvironment(), stdio: ['ignore', 'pipe', 'pipe'] })
}

const minutes = 15
const wrongFrom = 5

/** The metrics of each minute, with a problem in between. */
async function report (t: Test, store: QuotaStore, callers: (minute: number) => string[], goWrong: () => Promise<void> = async () => {}) {
  const registry = new Registry()
  const app: FastifyInstance = Fastify()
  t.teardown(() => app.close())
  await app.register(quotaPlugin, { store, perMinute: 1000, authentication: ({ headers }) => localAuthentication(headers['x-caller']) })
  await app.register(quotaMetricsPlugin, { registry })
  app.post('/api/analyze', async () => 'ran')
  const samples: Map<string, string>[] = []
  for (let minute = 0; minute < minutes; minute++) {
    if (minute === wrongFrom) await goWrong()
    for (const caller of callers(minute)) await app.inject({ method: 'POST', url: '/api/analyze', headers: { 'x-caller': caller } })
    samples.push(new Map([...(await registry.metrics()).matchAll(/^([a-z]\S*(?:\{[^}]*\})?) (\S+)$/gm)].map(([, series = '', value = '']) => [series, value])))
  }
  const names = new Set(samples.flatMap((sample) => [...sample.keys()]))
  return [...names].map((series) => ({ series, values: samples.map((sample) => sample.get(series) ?? '_').join(' ') }))
}

/** Throws with promtool's explanation unless exactly the given alert fires at the end, and none before the problem. */
function assertFires (name: string, series: object[], alert: string): void {
  const expected = Object.keys(summaries).flatMap((alertname) => [
    { eval_time: `${wrongFrom - 1}m`, alertname, exp_alerts: [] },
    { eval_time: `${minutes - 1}m`, alertname, exp_alerts: alertname === alert ? [{ exp_annotations: { summary: summaries[alert] } }] : [] }
  ])
  // JSON is valid YAML.
  promtool('test', 'rules', write(`${name}.yml`, JSON.stringify({
    rule_files: [rulesFile], evaluation_interval: '1m', tests: [{ interval: '1m', input_series: series, alert_rule_test: expected }]
  })))
}

const twoCallers = () => ['alice', 'bob']

t.test('the alert rules are valid', async (t) => {
  t.match(promtool('check', 'rules', rulesFile), 'SUCCESS: 3 rules found')
  t.same(Object.keys(summaries), ['QuotaStoreUnavailable', 'QuotaOnFallback', 'QuotaOverflow'])
})

t.test('QuotaStoreUnavailable fires when a store that is not insured loses its server', async (t) => {
  const { server, client } = await startRedis(t)
  const series = await report(t, new RedisQuotaStore({ client }), twoCallers, async () => { await server.kill() })
  t.doesNotThrow(() => { assertFires('unavailable', series, 'QuotaStoreUnavailable') })
  t.throws(() => { assertFires('unavailable', series, 'QuotaOverflow') }, 'promtool detects a wrong expectation')
})

t.test('QuotaOnFallback fires when an insured store loses its server', async (t) => {
  const { server, client } = await startRedis(t)
  const store = new InsuredQuotaStore({ primary: new RedisQuotaStore({ client }), timeout: 1000 })
  const series = await report(t, store, twoCallers, async () => { await server.kill() })
  t.doesNotThrow(() => { assertFires('fallback', series, 'QuotaOnFallback') })
})

t.test('QuotaOverflow fires when there are more callers than the cap', async (t) => {
  const series = await report(t, new MemoryQuotaStore({ maxTrackedCallers: 2 }), (minute) => minute < wrongFrom ? ['alice', 'bob'] : ['alice', 'bob', 'carol'])
  t.doesNotThrow(() => { assertFires('overflow', series, 'QuotaOverflow') })
})

t.test('the dashboard queries the metrics that a service reports, and describes each panel', async (t) => {
  const panels: Panel[] = JSON.parse(readFileSync('docs/dashboard.json', 'utf8')).panels
  const expressions = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
  const recorded = { groups: [{ name: 'dashboard', rules: expressions.map((expr, index) => ({ record: `panel_${index}`, expr })) }] }
  t.match(promtool('check', 'rules', write('dashboard.yml', JSON.stringify(recorded))), `SUCCESS: ${expressions.length} rules found`)

  const series = await report(t, new InsuredQuotaStore({ primary: new MemoryQuotaStore() }), twoCallers)
  const reported = new Set(series.map(({ series }) => series.replace(/\{.*/, '')))
  const asked = new Set(expressions.flatMap((expr) => expr.match(/llm_quota_\w+/g) ?? []))
  t.same([...asked].filter((name) => !reported.has(name)), [])
  t.same([...asked].map((name) => name.replace(/_(bucket|sum|count)$/, '')).filter((name, index, all) => all.indexOf(name) === index).sort(), [
    'llm_quota_decisions_total', 'llm_quota_insured_primary', 'llm_quota_limit', 'llm_quota_overflow_decisions_total', 'llm_quota_store_duration_seconds',
    'llm_quota_sweeps', 'llm_quota_tracked_callers'
  ], 'every metric is shown')
  for (const { title, description = '' } of panels) t.ok(description.length > 20, `${title}: ${description}`)
  t.equal(panels.find(({ title }) => title === 'Insured store')?.fieldConfig.defaults.noValue, 'not insured')
  t.equal(panels.filter(({ fieldConfig }) => fieldConfig.defaults.thresholds !== undefined).length, 5)
})
