// Adds the types to dist/, which build.js has written. Declarations to which no entry point leads
// are removed, because no compiler loads them.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { plugins } from './plugins.js'

for (const name of readdirSync('dist', { recursive: true, encoding: 'utf8' })) {
  if (/ts$/.test(name)) rmSync(join('dist', name))
}
execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json'], {
  stdio: 'inherit'
})
for (const [entry, plugin] of Object.entries(plugins)) {
  writeFileSync(
    `dist/${entry}.d.mts`,
    `export * from './${entry}.js'\nexport { ${plugin} as default } from './${entry}.js'\n`
  )
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
