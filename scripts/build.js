// Builds dist/: the package once, as CommonJS, and for each entry point a module that passes it on to `import`. There is
// one copy of everything, so that what one half of an application makes is known to the other half.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename } from 'node:path'

const root = new URL('../', import.meta.url)
const { exports: entries } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'))

rmSync(new URL('dist', root), { recursive: true, force: true })
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc')
execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
writeFileSync(new URL('dist/cjs/package.json', root), '{ "type": "commonjs" }\n')

mkdirSync(new URL('dist/esm', root))
for (const { import: entry } of Object.values(entries)) {
  if (entry === undefined) continue
  const name = basename(entry.default)
  const defaultExport = /\b(\w+) as default\b/.exec(readFileSync(new URL(`lib/${name.replace('.js', '.ts')}`, root), 'utf8'))?.[1]
  const source = `export * from '../cjs/${name}'\n` +
    (defaultExport ? `export { ${defaultExport} as default } from '../cjs/${name}'\n` : '')
  writeFileSync(new URL(entry.default, root), source)
  writeFileSync(new URL(entry.types, root), source)
}
