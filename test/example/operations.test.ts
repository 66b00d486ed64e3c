// The example service for its operator: metrics after a series of requests, and the OpenAPI document.
import SwaggerParser from '@apidevtools/swagger-parser'
import parsePrometheus from 'parse-prometheus-text-format'
import t from 'tap'
import { printToken, startExample, type Example } from '../support/example.js'

interface Metric { name: string, type: string, metrics: { value?: string, count?: string, labels?: Record<string, string> }[] }

const body = JSON.stringify({ businessText: 'Invoices are late.' })

async function analyze (service: Example, token?: string): Promise<number> {
  const headers = { 'content-type': 'application/json', ...(token !== undefined && { authorization: `Bearer ${token}` }) }
  return (await fetch(`${service.address}/api/analyze`, { method: 'POST', headers, body })).status
}

t.test('/metrics reports exactly the requests that were sent', async (t) => {
  const service = await startExample('service/main.js', { METRICS: 'true', SERVICE_RATE_LIMIT_PER_MINUTE: '4' })
  t.teardown(() => service.stop())
  const [alice, bob] = [printToken('alice'), printToken('bob')]
  for (let request = 0; request < 7; request++) await analyze(service, alice)
  for (let request = 0; request < 2; request++) await analyze(service, bob)
  for (let request = 0; request < 3; request++) await analyze(service)
  await fetch(`${service.address}/api/analyze-node?parentCode=FIN&businessText=x`, { headers: { authorization: `Bearer ${bob}` } })
  await fetch(`${service.address}/health`)

  const response = await fetch(`${service.address}/metrics`)
  t.match(response.headers.get('content-type'), 'text/plain; version=0.0.4')
  const text = await response.text()
  const metrics: Metric[] = parsePrometheus(text)
  const named = (name: string) => metrics.find((metric) => metric.name === name)
  const decisions = Object.fromEntries((named('llm_quota_decisions_total')?.metrics ?? [])
    .filter(({ labels, value }) => labels?.quota === 'default' && Number(value) > 0)
    .map(({ labels, value }) => [`${labels?.outcome} ${labels?.operation}`, Number(value)]))
  t.same(decisions, {
    'admitted POST /api/analyze': 6,
    'rejected POST /api/analyze': 3,
    'unauthenticated POST /api/analyze': 3,
    'admitted GET /api/analyze-node': 1
  })
  t.equal(named('llm_quota_decisions_total')?.metrics.filter(({ labels }) => labels?.quota === 'default').length, 10, 'five outcomes of the two operations that were requested')
  t.match(named('llm_quota_limit')?.metrics.find(({ labels }) => labels?.quota === 'default'), { value: '4' })
  t.equal(named('llm_quota_tracked_callers')?.metrics.find(({ labels }) => labels?.quota === 'default')?.value, '2')
  t.equal(named('llm_quota_sweeps')?.metrics.find(({ labels }) => labels?.quota === 'default')?.value, '0')
  t.equal(named('llm_quota_overflow_decisions_total')?.metrics.find(({ labels }) => labels?.quota === 'default')?.value, '0')
  t.same(named('llm_quota_insured_primary')?.metrics, [], 'the store is not insured')
  t.equal(named('llm_quota_store_duration_seconds')?.metrics[0]?.count, '10')
  t.notMatch(text, /alice|bob|"[0-9a-f]{8,}"/)
})

t.test('/metrics is off unless it is enabled', async (t) => {
  const service = await startExample('service/main.js')
  t.teardown(() => service.stop())
  t.equal((await fetch(`${service.address}/metrics`)).status, 404)
})

t.test('the API description is valid OpenAPI 3.1, and contains the refusals of the quota', async (t) => {
  const service = await startExample('service/main.js')
  t.teardown(() => service.stop())
  const document = JSON.parse(await (await fetch(`${service.address}/documentation/json`)).text())
  t.equal(document.openapi, '3.1.0')
  await t.resolves(SwaggerParser.validate(structuredClone(document)))
  for (const [path, method] of [['/api/analyze', 'post'], ['/api/justify-leaf', 'post'], ['/api/analyze-stream', 'get'], ['/api/analyze-node', 'get']] as const) {
    const { responses } = document.paths[path][method]
    t.same(Object.keys(responses).sort(), ['200', '400', '401', '429', '502', '503'], path)
    t.match(responses['429'].headers, { 'Retry-After': { schema: { type: 'integer' }, description: String }, 'Cache-Control': {} })
    t.notOk('Retry-After' in responses['401'].headers)
    t.match(responses['401'].content['application/json'].schema.properties, { error: {}, status: { enum: [401] } })
  }
  const page = await fetch(`${service.address}/documentation/`)
  t.same([page.status, /html/.test(String(page.headers.get('content-type')))], [200, true])
})

t.test('the migration example prints each decision in which the two quotas differ', async (t) => {
  const service = await startExample('migration.js', { SERVICE_RATE_LIMIT_PER_MINUTE: '2' })
  t.teardown(() => { service.process.kill('SIGKILL') })
  const statuses = []
  for (let request = 0; request < 3; request++) statuses.push(await analyze(service))
  t.same(statuses, [200, 200, 429], 'the earlier quota still answers')
  await service.printed(/2 different/)
  t.same(service.output().match(/^POST.*$/gm), [
    'POST /api/analyze: earlier admitted, new unauthenticated (1 different, 0 alike so far)',
    'POST /api/analyze: earlier admitted, new unauthenticated (2 different, 0 alike so far)'
  ])
})
