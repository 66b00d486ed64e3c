// The example service as a process, its metrics and its OpenAPI document, and the two smaller examples.
import { spawnSync } from 'node:child_process'
import SwaggerParser from '@apidevtools/swagger-parser'
import t from 'tap'
import { statuses } from '../support/credentials.js'
import { plainEnvironment } from '../support/environment.js'
import { startExample } from '../support/example.js'
import { analysis, startService } from '../support/example-service.js'
import { Programs } from '../support/programs.js'

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
  await statuses(7, () => post('alice', '/api/analyze', text))
  await statuses(3, () => analyze())
  await as('bob', '/api/analyze-node?parentCode=FIN&businessText=x')

  const response = await fetch(`${address}/metrics`)
  t.match(response.headers.get('content-type'), 'text/plain; version=0.0.4')
  const printed = await response.text()
  t.same(printed.match(/(?<=^llm_quota_decisions_total\{quota="default",).* [1-9]\d*$/gm), [
    'operation="POST /api/analyze",outcome="admitted",enforced="true"} 4',
    'operation="POST /api/analyze",outcome="rejected",enforced="true"} 3',
    'operation="POST /api/analyze",outcome="unauthenticated",enforced="true"} 3',
    'operation="GET /api/analyze-node",outcome="admitted",enforced="true"} 1'
  ])
  t.match(printed, /^llm_quota_tracked_callers\{quota="default"\} 2$/m)
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
  t.match((await fetch(`${address}/documentation/`)).headers.get('content-type'), 'text/html')
})

t.test('the smallest example answers requests, and the migration example prints each decision in which the two quotas differ', async (t) => {
  const programs = Programs.start(t)
  const smallest = await programs.serve('smallest')
  t.equal((await fetch(`${smallest}/api/analyze`, { method: 'POST' })).status, 401)
  const migration = await programs.serve('migration', { SERVICE_RATE_LIMIT_PER_MINUTE: '2' })
  t.same(await statuses(3, () => fetch(`${migration}/api/analyze`, { method: 'POST' })), [200, 200, 429], 'the earlier quota still answers')
  await programs.printed(/2 different/)
  t.same(programs.lines.filter((line) => line.startsWith('POST')), [
    'POST /api/analyze: earlier admitted, new unauthenticated (1 different, 0 alike so far)',
    'POST /api/analyze: earlier admitted, new unauthenticated (2 different, 0 alike so far)'
  ])
})
