// The packed tarball is complete and works in every kind of project, with the lowest supported
// versions of its peers. The projects link to the packages of this repository, so nothing is
// installed.
import { execFileSync, spawnSync } from 'node:child_process'
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'
import { plainEnvironment } from '../support/environment.js'

// Outside the repository, so that no project finds its packages.
const folders = mkdtempSync(join(tmpdir(), 'quota-package-'))
t.teardown(() => {
  rmSync(folders, { recursive: true })
})
const [{ filename, unpackedSize }] = JSON.parse(
  execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folders], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore']
  })
)
const tarball = join(folders, filename)
const { dependencies, devDependencies, exports, peerDependencies } = JSON.parse(
  readFileSync('package.json', 'utf8')
)

/**
 * Creates an empty project with the packed package, its dependencies, and the given packages, some
 * of them under another name.
 */
function createProject (...packages: (string | readonly [name: string, linked: string])[]) {
  const folder = mkdtempSync(join(folders, 'project-'))
  const own = join(folder, 'node_modules/fastify-llm-quota')
  mkdirSync(own, { recursive: true })
  execFileSync('tar', ['-xzf', tarball, '--strip-components=1', '-C', own])
  for (const entry of [...Object.keys(dependencies), '@types/node', ...packages]) {
    const [name, linked] = typeof entry === 'string' ? [entry, entry] : entry
    const link = join(folder, 'node_modules', name)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(resolve('node_modules', linked), link)
  }
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  const environment = plainEnvironment()
  return {
    write: (name: string, text: string) => {
      writeFileSync(join(folder, name), text)
    },
    run: (...words: string[]) =>
      execFileSync(process.execPath, words, {
        cwd: folder,
        encoding: 'utf8',
        env: environment,
        stdio: ['ignore', 'pipe', 'inherit']
      }),
    /** Returns the errors of the compiler in the given programs of test/types. */
    compile: (options: string, ...programs: string[]) => {
      for (const name of programs) {
        copyFileSync(
          join('test/types', name.replace('default.cts', 'default.mts')),
          join(folder, name)
        )
      }
      const words = [
        ...`--strict --noEmit --skipLibCheck --target es2023 --types node ${options}`.split(' '),
        ...programs
      ]
      return spawnSync(process.execPath, [resolve('node_modules/typescript/bin/tsc'), ...words], {
        cwd: folder,
        encoding: 'utf8',
        env: environment
      }).stdout
    }
  }
}

t.test('what require returns can be registered', async (t) => {
  const { write, run } = createProject('fastify')
  write(
    'required.cjs',
    `
    const app = require('fastify')()
    app.register(require('fastify-llm-quota'))
    app.inject({ method: 'POST', url: '/api/analyze' }).then(({ statusCode }) => { console.log(statusCode) })
  `
  )
  t.equal(run('required.cjs').trim(), '401')
})

t.test('import and require of each entry point give the same objects', async (t) => {
  const { write, run } = createProject('fastify', 'prom-client')
  const entries = Object.keys(exports)
    .filter((path) => path !== './package.json')
    .map((path) => join('fastify-llm-quota', path))
  write(
    'copies.mjs',
    `
    import { createRequire } from 'node:module'
    const require = createRequire(import.meta.url)
    for (const entry of ${JSON.stringify(entries)}) {
      const imported = await import(entry)
      const required = require(entry)
      const names = Object.keys(required)
      // Without a default export of its own, a CommonJS file has all of its exports as the default.
      const others = names.filter((name) => imported[name] !== required[name]).concat(imported.default === (required.default ?? required) ? [] : 'default')
      console.log(entry, names.length > 0 && others.length === 0 ? 'one copy' : others)
    }
  `
  )
  t.same(
    run('copies.mjs').trim().split('\n'),
    entries.map((entry) => `${entry} one copy`)
  )
})

t.test('the types resolve under node16 and for bundlers', async (t) => {
  const { compile } = createProject('fastify', 'ioredis', 'prom-client')
  t.equal(compile('--module node16', 'named.mts', 'default.mts', 'default.cts', 'required.cts'), '')
  t.equal(
    compile(
      '--module preserve --moduleResolution bundler',
      'named.mts',
      'default.mts',
      'default.cts',
      'required.cts'
    ),
    ''
  )
})

t.test(
  'the package works with the lowest versions of Fastify, @fastify/jwt and prom-client in its peer ranges',
  async (t) => {
    for (const [alias, peer] of Object.entries({
      'fastify-lowest': 'fastify',
      'fastify-jwt-lowest': '@fastify/jwt',
      'prom-client-lowest': 'prom-client'
    })) {
      t.equal(
        devDependencies[alias],
        `npm:${peer}@${peerDependencies[peer].split(' ')[0].slice(1)}`
      )
    }
    const { write, run, compile } = createProject(
      'ioredis',
      ['prom-client', 'prom-client-lowest'],
      ['fastify', 'fastify-lowest'],
      ['@fastify/jwt', 'fastify-jwt-lowest']
    )
    t.equal(compile('--module nodenext', 'named.mts'), '', 'the types compile')
    write(
      'lowest.mjs',
      `
    import fastifyJwt from '@fastify/jwt'
    import Fastify from 'fastify'
    import quotaPlugin, { protectedOperations, quotaResponses } from 'fastify-llm-quota'
    import quotaMetricsPlugin from 'fastify-llm-quota/metrics'
    import { register } from 'prom-client'
    const warnings = []
    const app = Fastify({ ignoreTrailingSlash: true, caseSensitive: false, logger: { level: 'warn', stream: { write (line) { warnings.push(JSON.parse(line).msg) } } } })
    await app.register(fastifyJwt, { secret: 'a secret of thirty-two bytes or more' })
    app.addHook('onRequest', async (request) => { if (request.headers.authorization !== undefined) await request.jwtVerify() })
    app.get('/context/api/analyze-node', { schema: { response: quotaResponses } }, async (request) => request.quota.outcome)
    await app.register(quotaPlugin, { prefix: '/context', perMinute: 2 })
    await app.register(quotaMetricsPlugin)
    app.post('/context/api/analyze', async (request) => request.quota.outcome)
    const received = []
    for (const [method, url, sub] of [
      ['POST', '/context/api/analyze'], ['POST', '/context/API/%61nalyze/', 'alice'], ['GET', '/context/api/analyze-node?x', 'alice'],
      ['POST', '/context/api/analyze', 'alice'], ['POST', '/context/api/analyze', 'bob'], ['GET', '/context/api/analyze', 'alice']
    ]) received.push((await app.inject({ method, url, headers: sub ? { authorization: 'Bearer ' + app.jwt.sign({ iss: 'https://identity.example', sub }) } : {} })).statusCode)
    const rejected = (await register.metrics()).split('\\n').find((line) => line.includes('"rejected"'))
    console.log(JSON.stringify({ version: app.version, received, warned: warnings.some((warning) => /HEAD/.test(warning)), operations: protectedOperations.length, rejected }))
  `
    )
    t.same(JSON.parse(run('lowest.mjs')), {
      version: '5.0.0',
      received: [401, 200, 200, 429, 200, 404],
      warned: true,
      operations: 4,
      rejected:
        'llm_quota_decisions_total{quota="default",unit="requests",operation="POST /api/analyze",enforced="true",outcome="rejected",reason=""} 1'
    })
  }
)

t.test('each file is in the tarball once, and so is each file to which a page links', async (t) => {
  const files = execFileSync('tar', ['-tzf', tarball], { encoding: 'utf8' }).trim().split('\n')
  t.equal(new Set(files).size, files.length)
  t.ok(files.length <= 250, `${files.length} files`)
  t.ok(unpackedSize <= 700_000, `${unpackedSize} bytes`)
  for (const page of files.filter((file) => file.endsWith('.md'))) {
    const text = execFileSync('tar', ['-xzOf', tarball, page], { encoding: 'utf8' })
    const linked = [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, file = '']) =>
      join(dirname(page), file)
    )
    // What docs/api says is beside the types.
    t.same(
      linked.filter((file) => !files.includes(file) && !file.startsWith('package/docs/api/')),
      [],
      page
    )
  }
})
