// Every program in the README, in docs/ and in the docstrings: it compiles against the package, runs to its end, and prints what
// the comment behind a line says that it prints.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { plainEnvironment } from './support/environment.js'

const folder = 'build/documented'
const atTheEnd = 'the program has come to its end'

interface Program { readonly name: string, readonly source: string }

function programsOf (file: string): Program[] {
  const text = readFileSync(file, 'utf8')
  const blocks = file.endsWith('.md')
    ? [...text.matchAll(/^( *)```ts\n(.*?)^ *```$/gms)].map(([, indent = '', code = '']) => code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''))
    : [...text.matchAll(/^ *\* ```ts\n(.*?)^ *\* ```$/gms)].map(([, code = '']) => code.replaceAll(/^ *\* ?/gm, ''))
  return blocks.map((source, index) => ({ name: `${file.replaceAll(/\W/g, '-')}-${index}`, source }))
}

const recipes = readdirSync('examples/identities').map((name) => readFileSync(`examples/identities/${name}`, 'utf8'))
const files = ['README.md', 'CONTRIBUTING.md', ...readdirSync('docs').filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
  ...readdirSync('lib', { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts')).map((name) => `lib/${name}`)]
// The recipes, which need an issuer, a browser and the like, are run by test/identities.test.ts.
const programs = files.flatMap(programsOf).filter(({ source }) => !recipes.includes(source))

/** What the comments at the ends of lines say is printed, in order. */
function expectedOf (source: string): string[] {
  return [...source.matchAll(/(?:console\.log\(.*\)|^await .*\)) \/\/ (.*)$/gm)].map(([, printed = '']) => printed)
}

t.test('the programs that are documented', async (t) => {
  t.ok(programs.length > 40, `${programs.length} of them`)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const { name, source } of programs) writeFileSync(join(folder, `${name}.ts`), `${source}\nconsole.log('${atTheEnd}')\n`)
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({
    extends: '../../tsconfig.json',
    compilerOptions: { rootDir: '.', outDir: '.', noEmit: false, moduleDetection: 'force' },
    include: ['*.ts'],
    exclude: []
  }))
  t.doesNotThrow(() => execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', folder], { stdio: ['ignore', 'inherit', 'inherit'] }), 'they compile')

  for (const { name, source } of programs) {
    t.test(name, async (t) => {
      const child = spawn(process.execPath, [join(folder, `${name}.js`)], { env: plainEnvironment({ PORT: '0', JWT_SECRET: 'a secret of thirty-two bytes or more' }), stdio: ['ignore', 'pipe', 'inherit'] })
      const ended = once(child, 'close')
      let printed = ''
      child.stdout.on('data', (chunk) => {
        printed += String(chunk)
        // Servers and their clients would go on.
        if (printed.includes(atTheEnd)) child.kill('SIGKILL')
      })
      await ended
      t.match(printed, atTheEnd)
      const lines = printed.split('\n')
      for (const expected of expectedOf(source)) t.ok(lines.includes(expected), `prints ${expected}`)
    })
  }
})
