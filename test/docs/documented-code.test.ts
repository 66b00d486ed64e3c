// Every program in the README, in docs/ and in the docstrings compiles with the package, runs to its end, and prints what its comments
// say.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { plainEnvironment } from '../support/environment.js'

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

const recipes = ['clients', 'identities', 'recipes'].flatMap((folder) => readdirSync(`examples/${folder}`).filter((name) => name.endsWith('.ts')).map((name) => readFileSync(`examples/${folder}/${name}`, 'utf8')))
const files = ['README.md', 'CONTRIBUTING.md', ...readdirSync('docs').filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
  ...readdirSync('lib', { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts')).map((name) => `lib/${name}`)]
// The recipes, which need an issuer, a browser and the like, are run by test/docs/identities.test.ts, test/docs/recipes.test.ts and
// test/docs/clients.test.ts.
const programs = files.flatMap(programsOf).filter(({ source }) => !recipes.includes(source))

/** Returns the output that the comments at the ends of lines state, in order. */
function expectedOf (source: string): string[] {
  return [...source.matchAll(/(?:console\.log\(.*\)|^await .*\)) \/\/ (.*)$/gm)].map(([, printed = '']) => printed)
}

function groupsOf<Item> (items: readonly Item[], size: number): Item[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, group) => items.slice(group * size, (group + 1) * size))
}

/** Runs programs in one process, and returns the lines that each one printed, by name. */
async function run (names: readonly string[]): Promise<Record<string, string[]>> {
  const child = spawn(process.execPath, [join(folder, 'run.js'), ...names], {
    env: plainEnvironment({ PORT: '0', JWT_SECRET: 'a secret of thirty-two bytes or more' }),
    stdio: ['ignore', 'ignore', 'inherit', 'ipc']
  })
  const printed: Record<string, string[]> = {}
  child.on('message', ([name, line]: [string, string]) => { (printed[name] ??= []).push(line) })
  await once(child, 'close')
  return printed
}

// Sends the output of each program together with its name. A program that fails ends the process, so the programs after it do not reach their end either.
const runner = `
import { format } from 'node:util'
let program
console.log = (...values) => { for (const line of format(...values).split('\\n')) process.send([program, line]) }
for (program of process.argv.slice(2)) await import('./' + program + '.js')
process.disconnect()
process.exit()
`

t.test('each documented program compiles, runs to its end, and prints what its comments say', async (t) => {
  t.ok(programs.length > 40, `${programs.length} programs`)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  for (const { name, source } of programs) writeFileSync(join(folder, `${name}.ts`), `${source}\nconsole.log('${atTheEnd}')\n`)
  writeFileSync(join(folder, 'run.js'), runner)
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({
    extends: '../../tsconfig.json',
    compilerOptions: { rootDir: '.', outDir: '.', moduleDetection: 'force' },
    include: ['*.ts'],
    exclude: []
  }))
  t.doesNotThrow(() => execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', folder], { stdio: ['ignore', 'inherit', 'inherit'] }), 'the programs compile')

  // Several programs run in one process, one after another, because starting a process takes longer than most programs run.
  for (const group of groupsOf(programs, 12)) {
    const printed = await run(group.map(({ name }) => name))
    for (const { name, source } of group) {
      t.test(`the program ${name} prints what its comments say`, async (t) => {
        const lines = printed[name] ?? []
        t.equal(lines.at(-1), atTheEnd)
        for (const expected of expectedOf(source)) t.ok(lines.includes(expected), `prints ${expected}`)
      })
    }
  }
})
