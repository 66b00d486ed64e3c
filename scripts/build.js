// npm run build: builds dist/, of which `npm pack` makes the package. write-script-texts.js comes
// first.
//
// lib is compiled once, as CommonJS, because require, Jest and TypeScript's node16 cannot load an
// ES module from CommonJS. `import` gets named exports from it as they are. Only an entry point
// with a default export, a plugin, needs a module for `import` and a file for `require`, which pass
// on the same objects: the default import of a CommonJS file would be all of its exports, and what
// `require` returns is the plugin itself, with the other exports as its properties.
//
// Declarations to which no entry point leads are removed, because no compiler loads them.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const plugins = {
  index: 'quotaPlugin',
  metrics: 'quotaMetricsPlugin',
  earlier: 'earlierQuotaPlugin'
}

process.chdir(fileURLToPath(new URL('..', import.meta.url)))
rmSync('dist', { recursive: true, force: true })
// The comments of the code, a tenth of the package, are left out: the repository has them. A run
// that wrote the declarations, too, would leave out theirs.
for (const options of [['--removeComments', '--declaration', 'false'], ['--emitDeclarationOnly']]) {
  const tsc = ['node_modules/typescript-7/bin/tsc', '-p', 'tsconfig.build.json', ...options]
  execFileSync(process.execPath, tsc, { stdio: 'inherit' })
}
writeFileSync('dist/package.json', '{ "type": "commonjs" }\n')
for (const [entry, plugin] of Object.entries(plugins)) {
  const passedOn =
    `export * from './${entry}.js'\n` + `export { ${plugin} as default } from './${entry}.js'\n`
  for (const ending of ['mjs', 'd.mts']) writeFileSync(`dist/${entry}.${ending}`, passedOn)
  const required =
    `const entry = require('./${entry}.js')\n` +
    `module.exports = Object.assign(entry.${plugin}, entry)\n`
  writeFileSync(`dist/${entry}.cjs`, required)
  writeFileSync(`dist/${entry}.d.cts`, declarationForRequire(entry, plugin))
}

/**
 * Returns the declaration of a function with the types and values of an entry point as its members.
 */
function declarationForRequire (entry, plugin) {
  const declaration = readFileSync(`dist/${entry}.d.ts`, 'utf8')
  const { statements } = ts.createSourceFile(`${entry}.d.ts`, declaration, ts.ScriptTarget.Latest)
  const others = statements
    .flatMap(({ exportClause }) => exportClause.elements.map(({ name }) => name.text))
    .filter((name) => name !== plugin && name !== 'default')
    .join(', ')
  return `import { ${plugin} as plugin, ${others} } from './${entry}.js'
declare function ${plugin} (...given: Parameters<typeof plugin>): ReturnType<typeof plugin>
declare namespace ${plugin} { export { ${plugin}, ${plugin} as default, ${others} } }
export = ${plugin}
`
}

// The set grows while the loop reads it.
const loaded = new Set(['package.json'])
for (const name of loaded) {
  for (const [, imported] of readFileSync(name, 'utf8').matchAll(/['"](\.[^'"]+)\.c?js['"]/g)) {
    loaded.add(join(dirname(name), `${imported}.d.ts`))
  }
}
for (const name of readdirSync('dist', { recursive: true, encoding: 'utf8' })) {
  if (name.endsWith('.d.ts') && !loaded.has(join('dist', name))) rmSync(join('dist', name))
}
