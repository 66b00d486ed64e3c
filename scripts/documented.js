// Writes each program in the README, in docs/ and in the docstrings of lib to documented/, which git ignores, so that tsc compiles it together with
// everything else and test/docs/documented-code.test.ts can run it.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'

const namesIn = (folder, end) => readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith(end)).map((name) => `${folder}/${name}`)

// Other tests run the recipes, which need an issuer, a browser and the like.
const recipes = ['clients', 'identities', 'recipes'].flatMap((folder) => namesIn(`examples/${folder}`, '.ts')).map((file) => readFileSync(file, 'utf8'))

rmSync('documented', { recursive: true, force: true })
mkdirSync('documented')
const documents = readdirSync('docs').filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)
for (const file of ['README.md', 'CONTRIBUTING.md', ...documents, ...namesIn('lib', '.ts')]) {
  for (const [index, source] of programsIn(file).entries()) {
    if (!recipes.includes(source)) writeFileSync(`documented/${file.replaceAll(/\W/g, '-')}-${index}.ts`, `${source}\nconsole.log('the program has come to its end')\n`)
  }
}

function programsIn (file) {
  const text = readFileSync(file, 'utf8')
  return file.endsWith('.md')
    ? [...text.matchAll(/^( *)```ts\n(.*?)^ *```$/gms)].map(([, indent, code]) => code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''))
    : [...text.matchAll(/^ *\* ```ts\n(.*?)^ *\* ```$/gms)].map(([, code]) => code.replaceAll(/^ *\* ?/gm, ''))
}
