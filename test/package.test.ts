// The packed tarball, installed beside Fastify in an empty project.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { plainEnvironment } from './support/environment.js'

const program = `
const app = Fastify()
app.decorateRequest('user')
app.addHook('preValidation', async (request) => { request.user = quota.localAuthentication('alice') })
await app.register(quota.default, { perMinute: 1 })
app.post('/api/analyze', async () => 'ran')
const answers = []
for (let request = 0; request < 2; request++) answers.push((await app.inject({ method: 'POST', url: '/api/analyze' })).statusCode)
console.log(JSON.stringify(answers))
`

t.test('the package works through import and require', async (t) => {
  const project = mkdtempSync(join(tmpdir(), 'quota-consumer-'))
  t.teardown(() => { rmSync(project, { recursive: true }) })
  const run = (command: string, ...words: string[]) => execFileSync(command, words, { cwd: project, encoding: 'utf8', env: plainEnvironment(), stdio: ['ignore', 'pipe', 'inherit'] })
  const [{ filename }] = JSON.parse(execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', project], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }))
  writeFileSync(join(project, 'package.json'), '{ "private": true }')
  run('npm', 'install', '--silent', '--prefer-offline', '--no-audit', '--no-fund', `./${filename}`, 'fastify')

  writeFileSync(join(project, 'consumer.mjs'), `import Fastify from 'fastify'\nimport * as quota from 'fastify-llm-quota'\n${program}`)
  writeFileSync(join(project, 'consumer.cjs'), `const Fastify = require('fastify')\nconst quota = require('fastify-llm-quota')\nasync function main () {\n${program.replace('quota.default', 'quota')}\n}\nmain()`)
  for (const consumer of ['consumer.mjs', 'consumer.cjs']) t.same(JSON.parse(run(process.execPath, consumer)), [200, 429], consumer)

  writeFileSync(join(project, 'shared.mjs'), `
    import { createRequire } from 'node:module'
    import { MemoryQuotaStore, quotaPlugin } from 'fastify-llm-quota'
    const required = createRequire(import.meta.url)('fastify-llm-quota')
    console.log(MemoryQuotaStore === required.MemoryQuotaStore && quotaPlugin === required.quotaPlugin)
  `)
  t.equal(run(process.execPath, 'shared.mjs'), 'true\n', 'both halves of an application share one copy')
})
