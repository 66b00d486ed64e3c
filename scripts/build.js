// Compiles lib to dist/, after write-script-texts.js. declarations.js adds the types.
//
// lib is compiled once, as CommonJS, because require, Jest and TypeScript's node16 cannot load an
// ES module from CommonJS. `import` gets named exports from it as they are. Only an entry point
// with a default export, a plugin, needs a module for `import` and a file for `require`, which pass
// on the same objects: the default import of a CommonJS file would be all of its exports, and what
// `require` returns is the plugin itself, with the other exports as its properties.
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { compileLib, passedOn, plugins } from './entry-points.js'

process.chdir(fileURLToPath(new URL('..', import.meta.url)))
removeFormer()
// The comments of the code, a tenth of the package, are left out: the repository has them.
compileLib('--removeComments', '--declaration', 'false')
writeFileSync('dist/package.json', '{ "type": "commonjs" }\n')
for (const [entry, plugin] of Object.entries(plugins)) {
  writeFileSync(`dist/${entry}.mjs`, passedOn(entry, plugin))
  const required =
    `const entry = require('./${entry}.js')\n` +
    `module.exports = Object.assign(entry.${plugin}, entry)\n`
  writeFileSync(`dist/${entry}.cjs`, required)
}

/** Removes what an earlier build has compiled, because lib may have changed. */
function removeFormer () {
  if (!existsSync('dist')) return
  for (const name of readdirSync('dist', { recursive: true, encoding: 'utf8' })) {
    if (/(?<!\.d)\.[cm]?js$/.test(name)) rmSync(join('dist', name))
  }
}
