// Writes, beside each script of lib in another language, a module that exports its text, which git
// ignores: decide.lua.ts exports the text of decide.lua and of what it includes.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isScript, scriptText } from './script-text.js'

for (const name of readdirSync('lib', { recursive: true, encoding: 'utf8' })) {
  // Left by a script that is gone.
  if (/\.(lua|sql)\.ts$/.test(name) && !existsSync(join('lib', name.slice(0, -'.ts'.length)))) {
    rmSync(join('lib', name))
  }
  if (!isScript(name)) continue
  const text = scriptText(name, (file) => readFileSync(join('lib', file), 'utf8'))
  writeFileSync(join('lib', `${name}.ts`), `export default ${JSON.stringify(text)}\n`)
}
