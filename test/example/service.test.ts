// The example service as a process, its metrics and its OpenAPI document, and the two smaller examples.
import { spawnSync } from 'node:child_process'
import SwaggerParser from '@apidevtools/swagger-parser'
import parsePrometheus from 'parse-prometheus-text-format'
import t from 'tap'
import { plainEnvironment } from '../support/environment.js'
import { startExample } from '../support/example.js'
import { analysis, startService } from '../support/example-service.js'
import { Programs } from '../support/programs.js'

interface Metric { name: string, metrics: { value?: string, count?: string, labels?: Record<string, string> }[] }

t.test('the service and the command that prints a token run as processes', async (t) => {
  const printed = spawnSync('npm', ['run', '--silent', 'token', '--', 'alice'], { encoding: 'utf8', env: plainEnvironment() })
  t.match(printed.stdout, /^[\w-]+\.[\w-]+\.[\w-]+\n$/, 'the command prints a token and nothing else')
  t.equal(printed.status, 0)
  t.notMatch(printed.stderr, 'Error')
  t.match(spawnSync(process.execPath, ['build/examples/service/print-token.js'], { encoding: 'utf8', env: plainEnvironment() }), { status: 2, stderr: /^Usage/ })

  const service = await startExample('service/main.js')
  t.match(await (await fetch(`${service.address}/about`)).json(), { operations: { 'POST /api/analyze': {} } })
  t.match(await (await fetch(`${service.address}/health`)).json(), { status: 'ok' })
  await service.printed(new RegExp(`curl -i ${service.address}/api/analyze`))
  const token = printed.stdout.trim()
  t.equal((await fetch(`${service.address}/api/analyze`, { ...analysis, headers: { ...analysis.headers, authorization: `Bearer ${token}` } })).status, 200)
  t.equal(await service.stop(), 0, 'it closes cleanly')
  t.notMatch(service.output(), /"level":(40|50|60)/)
  for (const secret of [token, 'Invoices are', 'alice"', '127.0.0.1",']) t.notMatch(service.output().replace(/curl[^}]*\}/, ''), secret)
})

t.test('/metrics reports exactly the requests that were sent', async (t) => {
  const { post, as, analyze, address } = await startService(t, { METRICS: 'true', SERVICE_RATE_LIMIT_PER_MINUTE: '4' })
  const text = { businessText: 'Invoices are late.' }
  for (let request = 0; request < 7; request++) await post('alice', '/api/analyze', text)
  for (let request = 0; request < 2; request++) await post('bob', '/api/analyze', text)
  for (let request = 0; request < 3; request++) await analyze()
  await as('bob', '/api/analyze-node?parentCode=FIN&businessText=x')
  await fetch(`${address}/health`)

  const response = await fetch(`${address}/metrics`)
  t.match(response.headers.get('content-type'), 'text/plain; version=0.0.4')
  const printed = await response.text()
  const metrics: Metric[] = parsePrometheus(printed)
  const of = (name: string) => metrics.find((metric) => metric.name === name)?.metrics ?? []
  const ofDefault = (name: string) => of(name).filter(({ labels }) => labels?.quota === 'default')
  const decisions = ofDefault('llm_quota_decisions_total')
  t.same(Object.fromEntries(decisions.filter(({ value }) => Number(value) > 0).map(({ labels, value }) => [`${labels?.outcome} ${labels?.operation}`, Number(value)])), {
    'admitted POST /api/analyze': 6,
    'rejected POST /api/analyze': 3,
    'unauthenticated POST /api/analyze': 3,
    'admitted GET /api/analyze-node': 1
  })
  t.equal(decisions.length, 10, 'five outcomes of the two operations that were requested')
  for (const [name, value] of [['limit', '4'], ['tracked_callers', '2'], ['sweeps', '0'], ['overflow_decisions_total', '0']] as const) t.equal(ofDefault(`llm_quota_${name}`)[0]?.value, value, name)
  t.same(of('llm_quota_insured_primary'), [], 'the store is not insured')
  t.equal(of('llm_quota_store_duration_seconds')[0]?.count, '10')
  t.notMatch(printed, /alice|bob|"[0-9a-f]{8,}"/)
})

t.test('the API description is valid OpenAPI 3.1, and contains the refusals of the quota', async (t) => {
  const { address } = await startService(t)
  t.equal((await fetch(`${address}/metrics`)).status, 404, '/metrics is off unless it is enabled')
  const document = JSON.parse(await (await fetch(`${address}/documentation/json`)).text())
  t.equal(document.openapi, '3.1.0')
  await t.resolves(SwaggerParser.validate(structuredClone(document)))
  for (const [path, method] of [['/api/analyze', 'post'], ['/api/justify-leaf', 'post'], ['/api/analyze-stream', 'get'], ['/api/analyze-node', 'get']] as const) {
    const { responses } = document.paths[path][method]
    t.same(Object.keys(responses).sort(), ['200', '400', '401', '429', '502', '503'], path)
    t.match(responses['429'].headers, { 'Retry-After': { schema: { type: 'integer' }, description: String }, 'Cache-Control': {} })
    t.notOk('Retry-After' in responses['401'].headers)
    t.match(responses['401'].content['application/json'].schema.properties, { error: {}, status: { enum: [401] } })
  }
  const page = await fetch(`${address}/documentation/`)
  t.same([page.status, /html/.test(String(page.headers.get('content-type')))], [200, true])
})

t.test('the smallest example answers requests, and the migration example prints each decision in which the two quotas differ', async (t) => {
  const programs = Programs.start(t)
  const smallest = await programs.run('build/examples/smallest.js', { PORT: '0' }, /^http:/)
  t.equal((await fetch(`${smallest}/api/analyze`, { method: 'POST' })).status, 401)
  const migration = await programs.run('build/examples/migration.js', { PORT: '0', SERVICE_RATE_LIMIT_PER_MINUTE: '2' }, /^http:/)
  const statuses = []
  for (let request = 0; request < 3; request++) statuses.push((await fetch(`${migration}/api/analyze`, { method: 'POST' })).status)
  t.same(statuses, [200, 200, 429], 'the earlier quota still answers')
  await programs.printed(/2 different/)
  t.same(programs.lines.filter((line) => line.startsWith('POST')), [
    'POST /api/analyze: earlier admitted, new unauthenticated (1 different, 0 alike so far)',
    'POST /api/analyze: earlier admitted, new unauthenticated (2 different, 0 alike so far)'
  ])
})
