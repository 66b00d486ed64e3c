// Writes the JavaScript of dist/, of which `npm pack` makes the package. write-script-texts.js
// comes first, and build-declarations.js adds the types, which tests at run time do not need.
//
// lib is compiled once, as CommonJS, because require, Jest and TypeScript's node16 cannot load an
// ES module from CommonJS. `import` gets named exports from it as they are. Only an entry point
// with a default export, a plugin, needs a module for `import` and a file for `require`, which pass
// on the same objects: the default import of a CommonJS file would be all of its exports, and what
// `require` returns is the plugin itself, with the other exports as its properties.
//
// The comments of the code, a tenth of the package, are left out: the repository has them.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { plugins } from './plugins.js'

const { config } = ts.readConfigFile('tsconfig.build.json', ts.sys.readFile)
const { options } = ts.parseJsonConfigFileContent(config, ts.sys, '.')
const compilerOptions = { ...options, declaration: false, removeComments: true }

mkdirSync('dist', { recursive: true })
for (const name of readdirSync('dist', { recursive: true, encoding: 'utf8' })) {
  if (/js$/.test(name)) rmSync(join('dist', name))
}
for (const name of readdirSync('lib', { recursive: true, encoding: 'utf8' })) {
  if (!name.endsWith('.ts')) continue
  const source = readFileSync(join('lib', name), 'utf8')
  const { outputText } = ts.transpileModule(source, { compilerOptions })
  const file = join('dist', name.replace(/ts$/, 'js'))
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, outputText)
}
writeFileSync('dist/package.json', '{ "type": "commonjs" }\n')
for (const [entry, plugin] of Object.entries(plugins)) {
  writeFileSync(
    `dist/${entry}.mjs`,
    `export * from './${entry}.js'\nexport { ${plugin} as default } from './${entry}.js'\n`
  )
  writeFileSync(
    `dist/${entry}.cjs`,
    `const entry = require('./${entry}.js')\n` +
      `module.exports = Object.assign(entry.${plugin}, entry)\n`
  )
}
