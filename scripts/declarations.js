// Adds the declarations of types to dist/, after build.js, as `npm run build` does. Most tests
// do without them.
//
// They are compiled on their own, because build.js leaves out comments, and would leave out those
// of the declarations, too. Declarations to which no entry point leads are removed, because no
// compiler loads them.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { compileLib, passedOn, plugins } from './entry-points.js'

// For an import, Node.js would read all of it for the names that it exports, which takes 1 s.
const ts = createRequire(import.meta.url)('typescript')

compileLib('--emitDeclarationOnly')
for (const [entry, plugin] of Object.entries(plugins)) {
  writeFileSync(`dist/${entry}.d.mts`, passedOn(entry, plugin))
  writeFileSync(`dist/${entry}.d.cts`, declarationForRequire(entry, plugin))
}
removeUnused()

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

function removeUnused () {
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
}
