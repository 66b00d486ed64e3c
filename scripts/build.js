// Builds dist/: the package once, as CommonJS in dist/cjs. An entry point is a module for `import` in dist/esm, which exports the same
// objects, and for `require` either the file in dist/cjs or, where it has a default export, one in dist/require that is the plugin itself
// with everything else as its properties, as Fastify's own plugins are. There is one copy of everything, so that both halves of an
// application share their classes.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const root = new URL('../', import.meta.url)
const { exports: entries } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'))
const names = Object.values(entries).flatMap((entry) => entry.import === undefined ? [] : [basename(entry.import.default, '.js')])

rmSync(new URL('dist', root), { recursive: true, force: true })
execFileSync(process.execPath, [fileURLToPath(import.meta.resolve('typescript/bin/tsc')), '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
write('dist/cjs/package.json', '{ "type": "commonjs" }\n')
write('dist/require/package.json', '{ "type": "commonjs" }\n')
for (const { name, exported, main, declaration } of describe(names)) {
  const passedOn = `export * from '../cjs/${name}.js'\n` + (main === undefined ? '' : `export { ${main} as default } from '../cjs/${name}.js'\n`)
  write(`dist/esm/${name}.js`, passedOn)
  write(`dist/esm/${name}.d.ts`, passedOn)
  if (main === undefined) continue
  write(`dist/require/${name}.js`, `const entry = require('../cjs/${name}.js')\nmodule.exports = Object.assign(entry.${main}, entry)\n`)
  write(`dist/require/${name}.d.ts`, `import type { FastifyInstance } from 'fastify'
import { ${exported.join(', ')} } from '../cjs/${name}.js'
${declaration}
declare namespace plugin {
  export { ${exported.join(', ')}, plugin as default }
}
export = plugin
`)
}

/** What each entry point exports by name, types included, which of these is its default export as well, and how this plugin is declared. */
function describe (names) {
  const files = names.map((name) => fileURLToPath(new URL(`dist/cjs/${name}.d.ts`, root)))
  // The names and the text of the declarations do not depend on other packages, which take seconds to read.
  const options = { noLib: true, types: [] }
  const relative = (name, file) => name.startsWith('.') ? ts.resolveModuleName(name, file, options, ts.sys) : { resolvedModule: undefined }
  const host = { ...ts.createCompilerHost(options), resolveModuleNameLiterals: (literals, file) => literals.map(({ text }) => relative(text, file)) }
  const program = ts.createProgram(files, options, host)
  const checker = program.getTypeChecker()
  return names.map((name, index) => {
    const all = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(files[index])))
    const isDefault = ({ name }) => name === 'default'
    const named = all.filter((symbol) => !isDefault(symbol))
    const main = all.find(isDefault)
    const twin = main && named.find((symbol) => checker.getAliasedSymbol(symbol) === checker.getAliasedSymbol(main))
    const exported = named.map((symbol) => symbol.name)
    if (twin === undefined) return { name, exported }
    const plugin = checker.getAliasedSymbol(twin)
    const [signature] = checker.getTypeOfSymbol(plugin).getCallSignatures()
    const [comment] = plugin.valueDeclaration.parent.parent.jsDoc
    return { name, exported, main: twin.name, declaration: `${comment.getText()}\n${signature.declaration.getText().replace(/function \w+/, 'function plugin')}` }
  })
}

function write (file, text) {
  const url = new URL(file, root)
  mkdirSync(dirname(fileURLToPath(url)), { recursive: true })
  writeFileSync(url, text)
}
