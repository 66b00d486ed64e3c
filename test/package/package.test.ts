// The packed tarball is complete and works in every kind of project, with the lowest supported
// version of Fastify and of the packages that a host can use with it. The projects link to the
// packages of this repository, so nothing is installed.
import { execFileSync, spawnSync } from 'node:child_process'
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'
import { plainEnvironment } from '../support/environment.js'

const require = createRequire(import.meta.url)

// Outside the repository, so that no project finds its packages.
const folders = mkdtempSync(join(tmpdir(), 'quota-package-'))
t.teardown(() => {
  rmSync(folders, { recursive: true })
})
const [{ filename }] = JSON.parse(
  execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folders], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore']
  })
)
const tarball = join(folders, filename)
const {
  dependencies,
  exports,
  peerDependencies,
  peerDependenciesMeta
} = JSON.parse(readFileSync('package.json', 'utf8'))

const entries = Object.keys(exports)
  .filter((path) => path !== './package.json')
  .map((path) => join('fastify-llm-quota', path))

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
  // It takes a tenth of the time of TypeScript 6, with which test/types checks the same programs.
  // Not bin/tsc, which has no extension: the loader of tap for coverage fails on such a module.
  const tsc = resolve('node_modules/typescript-7/lib/tsc.js')
  const always = '--strict --noEmit --skipLibCheck --target es2023 --types node'.split(' ')
  /** Returns what the compiler finds wrong in the given programs of the project, or ''. */
  const check = (options: string, ...programs: string[]): string => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [tsc, ...always, ...options.split(' '), ...programs],
      { cwd: folder, encoding: 'utf8', env: environment }
    )
    return status === 0 ? stdout + stderr : `${stdout}${stderr}the compiler exited with ${status}`
  }
  return {
    check,
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
    /** Returns what the compiler finds wrong in the given programs of test/types, or ''. */
    compile: (options: string, ...programs: string[]) => {
      for (const name of programs) {
        copyFileSync(
          join('test/types', name.replace('default.cts', 'default.mts')),
          join(folder, name)
        )
      }
      return check(options, ...programs)
    }
  }
}

t.test('an install can conflict with the version of Fastify only', async (t) => {
  const { fastify, ...optional } = peerDependencies
  t.equal(typeof fastify, 'string')
  t.same(optional, { 'prom-client': '*' })
  t.same(peerDependenciesMeta, { 'prom-client': { optional: true } })
})

t.test('each package that the code imports is declared, for isolated installs', async (t) => {
  const declared = [...Object.keys(dependencies), ...Object.keys(peerDependencies)]
  const imported = new Set<string>()
  for (const name of readdirSync('dist', { recursive: true, encoding: 'utf8' })) {
    if (!/\.[cm]?js$/.test(name)) continue
    const text = readFileSync(join('dist', name), 'utf8')
    for (const [, path = ''] of text.matchAll(/(?:require\(|from )["']([^."'][^"']*)["']/g)) {
      if (!path.startsWith('node:')) imported.add(path)
    }
  }
  const expected = [
    '@fastify/env',
    '@fastify/error',
    'eventsource-parser',
    'fastify-plugin',
    'prom-client'
  ]
  t.same([...imported].sort(), expected)
  t.same([...imported].filter((path) => !declared.includes(path)), [])
})

t.test('the Lua scripts ship as they stand in lib, with what they include', async (t) => {
  const scripts = readdirSync('lib', { recursive: true, encoding: 'utf8' }).filter((name) =>
    /(?<!\.part)\.lua$/.test(name)
  )
  t.not(scripts.length, 0)
  for (const name of scripts) {
    const shipped: string = require(resolve('dist', `${name}.js`)).default
    const parts = readFileSync(join('lib', name), 'utf8').split(/^ *-- include (.+)$/m)
    const source = parts.map((part, index) =>
      index % 2 === 0 ? part : readFileSync(join('lib', dirname(name), part), 'utf8')
    )
    t.equal(shipped, source.join(''), name)
  }
})

t.test('what require returns is the plugin and can be registered', async (t) => {
  const { write, run } = createProject('fastify')
  write(
    'required.cjs',
    `
    const app = require('fastify')()
    const quotaPlugin = require('fastify-llm-quota')
    app.register(quotaPlugin)
    app.inject({ method: 'POST', url: '/api/analyze' })
      .then(({ statusCode }) => { console.log(statusCode, quotaPlugin === quotaPlugin.default) })
  `
  )
  t.equal(run('required.cjs').trim(), '401 true')
})

t.test('import and require of each entry point give the same objects', async (t) => {
  const { write, run } = createProject('fastify', 'prom-client')
  write(
    'copies.mjs',
    `
    import { createRequire } from 'node:module'
    const require = createRequire(import.meta.url)
    for (const entry of ${JSON.stringify(entries)}) {
      const imported = await import(entry)
      const required = require(entry)
      // Node.js and the compiler add names of their own.
      const added = ['default', 'module.exports', '__esModule']
      const names = Object.keys(imported).filter((name) => !added.includes(name))
      const others = names.filter((name) => imported[name] !== required[name])
      // Without a default export of its own, a CommonJS file has all of its exports as the default.
      if (imported.default !== (required.default ?? required)) others.push('default')
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
  'a host that checks the types of its libraries needs only the packages that it uses',
  async (t) => {
    const { write, check } = createProject('fastify')
    write(
      'host.mts',
      entries
        .filter((entry) => entry !== 'fastify-llm-quota/metrics')
        .map((entry, index) => `export * as entry${index} from '${entry}'\n`)
        .join('')
    )
    t.equal(check('--module nodenext --skipLibCheck false', 'host.mts'), '')
  }
)

t.test('the types of the metrics are correct with the lowest version of prom-client', async (t) => {
  const { write, check } = createProject('fastify', ['prom-client', 'prom-client-lowest'])
  write('host.mts', "export * from 'fastify-llm-quota/metrics'\n")
  t.equal(check('--module nodenext --skipLibCheck false', 'host.mts'), '')
})

t.test(
  'the package works with the lowest supported versions of Fastify, @fastify/jwt and prom-client',
  async (t) => {
    const [lowest = ''] = peerDependencies.fastify.split(' ')
    const { devDependencies } = JSON.parse(readFileSync('test/versions/package.json', 'utf8'))
    t.equal(devDependencies['fastify-lowest'], `npm:fastify@${lowest.slice(1)}`)
    const { compile } = createProject('ioredis', 'prom-client', ['fastify', 'fastify-lowest'])
    t.equal(compile('--module nodenext', 'named.mts'), '', 'the types compile')
    const { write, run } = createProject(
      ['prom-client', 'prom-client-lowest'],
      ['fastify', 'fastify-lowest'],
      ['@fastify/jwt', 'fastify-jwt-lowest']
    )
    write(
      'lowest.mjs',
      `
    import fastifyJwt from '@fastify/jwt'
    import Fastify from 'fastify'
    import quotaPlugin, { protectedOperations, quotaResponses } from 'fastify-llm-quota'
    import quotaMetricsPlugin from 'fastify-llm-quota/metrics'
    import { register } from 'prom-client'
    const warnings = []
    const stream = { write (line) { warnings.push(JSON.parse(line).msg) } }
    const logger = { level: 'warn', stream }
    const app = Fastify({ ignoreTrailingSlash: true, caseSensitive: false, logger })
    await app.register(fastifyJwt, { secret: 'a secret of thirty-two bytes or more' })
    app.addHook('onRequest', async (request) => {
      if (request.headers.authorization !== undefined) await request.jwtVerify()
    })
    const outcome = async (request) => request.quota.decisions[0]?.outcome
    app.get('/context/api/analyze-node', { schema: { response: quotaResponses } }, outcome)
    await app.register(quotaPlugin, { prefix: '/context', perMinute: 2 })
    await app.register(quotaMetricsPlugin)
    app.post('/context/api/analyze', outcome)
    const received = []
    for (const [method, url, sub] of [
      ['POST', '/context/api/analyze'],
      ['POST', '/context/API/%61nalyze/', 'alice'],
      ['GET', '/context/api/analyze-node?x', 'alice'],
      ['POST', '/context/api/analyze', 'alice'],
      ['POST', '/context/api/analyze', 'bob'],
      ['GET', '/context/api/analyze', 'alice']
    ]) {
      const headers = {}
      if (sub !== undefined) {
        headers.authorization = 'Bearer ' + app.jwt.sign({ iss: 'https://identity.example', sub })
      }
      received.push((await app.inject({ method, url, headers })).statusCode)
    }
    const lines = (await register.metrics()).split('\\n')
    console.log(JSON.stringify({
      version: app.version,
      received,
      warned: warnings.some((warning) => /HEAD/.test(warning)),
      operations: protectedOperations.length,
      rejected: lines.find((line) => line.includes('"rejected"'))
    }))
  `
    )
    t.same(JSON.parse(run('lowest.mjs')), {
      version: '5.0.0',
      received: [401, 200, 200, 429, 200, 404],
      warned: true,
      operations: 4,
      rejected:
        'llm_quota_decisions_total{quota="default",unit="requests",' +
        'operation="POST /context/api/analyze",enforced="true",outcome="rejected",reason=""} 1'
    })
  }
)

t.test('each file is in the tarball once, and so is each file to which a page links', async (t) => {
  const files = execFileSync('tar', ['-tzf', tarball], { encoding: 'utf8' }).trim().split('\n')
  t.equal(new Set(files).size, files.length)
  for (const page of files.filter((file) => file.endsWith('.md'))) {
    const text = execFileSync('tar', ['-xzOf', tarball, page], { encoding: 'utf8' })
    const linked = [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)|<img src="([^":]+)"/g)].map(
      ([, link, image]) => join(dirname(page), link ?? image ?? '')
    )
    t.same(
      linked.filter((file) => !files.includes(file)),
      [],
      page
    )
  }
})
