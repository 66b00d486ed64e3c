// Writes each program in the README, in CONTRIBUTING.md, in docs/ and in the docstrings of lib to
// documented/, which git ignores, so that tsc compiles it together with everything else. A block
// whose first line is a comment with the name of a file, such as `// service.ts`, becomes that file
// in the folder of its document, and tests import or start it. Any other is named after its
// heading, and test/docs/programs.test.ts runs it to its end. The pages of docs/recipes/ share one
// folder, and with it the files that their programs import.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

const namesIn = (folder, end, recursive) => {
  return readdirSync(folder, { recursive, encoding: 'utf8' })
    .filter((name) => name.endsWith(end))
    .map((name) => `${folder}/${name}`)
}

rmSync('documented', { recursive: true, force: true })
for (const file of [
  'README.md',
  'CONTRIBUTING.md',
  ...namesIn('docs', '.md', false),
  ...namesIn('docs/recipes', '.md', false),
  ...namesIn('lib', '.ts', true)
]) {
  const folder = folderOf(file)
  const written = new Map()
  for (const { heading, language, source } of blocksIn(file)) {
    const [, name] = /^\/\/ ([\w/-]+\.[a-z]+)$/m.exec(source.split('\n', 1)[0]) ?? []
    if (name !== undefined) write(`${folder}/${name}`, source)
    if (name !== undefined || language !== 'ts') continue
    const number = (written.get(heading) ?? 0) + 1
    written.set(heading, number)
    write(
      `${folder}/${heading}${number > 1 ? `-${number}` : ''}.ts`,
      `${source}\nconsole.log('the program has come to its end')\n`
    )
  }
}

function folderOf (file) {
  if (file.startsWith('docs/recipes/')) return 'documented/recipes'
  const name = file.replace(/^docs\//, '').replace(/\.\w+$/, '')
  return `documented/${name.replaceAll('/', '-')}`
}

function blocksIn (file) {
  const text = readFileSync(file, 'utf8')
  if (!file.endsWith('.md')) {
    return [...text.matchAll(/^ *\* ```ts\n(.*?)^ *\* ```$/gms)].map(([, code]) => ({
      heading: 'example',
      language: 'ts',
      source: code.replaceAll(/^ *\* ?/gm, '')
    }))
  }
  let heading = 'beginning'
  return [
    ...text.matchAll(
      /^#+ (?<title>[^\n]*)$|^(?<indent> *)```(?<language>\w+)\n(?<code>.*?)^ *```$/gms
    )
  ].flatMap(({ groups: { title, indent, language, code } }) => {
    if (title === undefined) {
      return { heading, language, source: code.replaceAll(new RegExp(`^${indent}`, 'gm'), '') }
    }
    heading = title
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-')
    return []
  })
}

function write (file, text) {
  mkdirSync(dirname(file), { recursive: true })
  // Fails if two programs would have the same name.
  writeFileSync(file, text, { flag: 'wx' })
}
