// Every program in the README, in docs/ and in the docstrings, which `npm run compile` has compiled, runs to its end and prints what its comments
// say. The documents also contain or name the programs that other tests of this folder run.
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { Programs } from '../support/programs.js'

/** Returns the output that the comments at the ends of lines state, in order. */
function expectedOf (source: string): string[] {
  return [...source.matchAll(/(?:console\.log\(.*\)|^await .*\)) \/\/ (.*)$/gm)].map(([, printed = '']) => printed)
}

const files = readdirSync('documented')
// PostgreSQL starts sooner if V8 does not optimize its WebAssembly.
const programs = Programs.start(t, ['--liftoff-only'])
t.ok(files.length > 32, `${files.length} programs`)
for (const file of files) {
  t.test(`the program ${file} prints what its comments say`, async (t) => {
    await programs.run(`build/documented/${file.replace(/ts$/, 'js')}`, {}, /^the program has come to its end$/)
    for (const expected of expectedOf(readFileSync(`documented/${file}`, 'utf8'))) t.ok(programs.lines.includes(expected), `prints ${expected}`)
  })
}

for (const folder of ['clients', 'identities', 'recipes']) {
  t.test(`docs/${folder}.md contains each tested program`, async (t) => {
    const page = readFileSync(`docs/${folder}.md`, 'utf8')
    for (const name of readdirSync(`examples/${folder}`, { recursive: true, encoding: 'utf8' }).filter((name) => /\.[a-z]+$/.test(name))) {
      const program = readFileSync(`examples/${folder}/${name}`, 'utf8')
      t.ok(page.includes(`s\n${program}\`\`\``) || (folder === 'recipes' && page.includes(`\`${name}\``)), name)
    }
  })
}
