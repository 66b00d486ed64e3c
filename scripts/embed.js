// Writes a module beside each script of lib that is in another language: acquire.lua.ts beside acquire.lua exports its text. Git ignores
// these modules; every command that compiles lib writes them first.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

for (const name of readdirSync('lib', { recursive: true, encoding: 'utf8' })) {
  if (/\.(lua|sql)$/.test(name)) writeFileSync(`lib/${name}.ts`, `export default ${JSON.stringify(readFileSync(`lib/${name}`, 'utf8'))}\n`)
}
