// Every program in the README, in docs/ and in the docstrings, as `npm run compile` has compiled
// it, prints what its comments say. Those that have a file name are modules, which other tests of
// this folder start or import.
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { Programs } from '../support/programs.js'

/** Returns the output that the comments at the ends of lines state, in order. */
function expectedOf (source: string): string[] {
  return [...source.matchAll(/console\.log\(.*\) \/\/ (.*)$/gm)].map(([, printed = '']) => printed)
}

const all = readdirSync('documented', { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.ts')
)
const sources = new Map(all.map((name) => [name, readFileSync(`documented/${name}`, 'utf8')]))
const programs = [...sources].filter(([, source]) =>
  source.endsWith("\nconsole.log('the program has come to its end')\n")
)
t.ok(programs.length > 25, `${programs.length} programs`)

const process = Programs.start(t)

t.test('the README shows what its first program prints', async (t) => {
  const [, shown = ''] = /^```console\n(.*?)^```$/ms.exec(readFileSync('README.md', 'utf8')) ?? []
  await process.run('README/use.ts', {}, /^the program has come to its end$/)
  t.same(process.lines.slice(0, -1), shown.trimEnd().split('\n'))
})

for (const [name, source] of programs) {
  t.test(`the program ${name} prints what its comments say`, async (t) => {
    await process.run(name, {}, /^the program has come to its end$/)
    t.same(
      expectedOf(source).filter((line) => !process.lines.includes(line)),
      [],
      'prints each of them',
      { printed: process.lines }
    )
  })
}
