// Passes its arguments on to tap: of a test or a folder of tests, such as test/rules/caller.test.ts
// or test/rules, the compiled files; and whatever else as it is. Without a file, tap runs what
// .taprc includes.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, rmSync } from 'node:fs'

// tsc leaves what it has compiled of a test that is gone.
for (const name of readdirSync('build/test', { recursive: true, encoding: 'utf8' })) {
  if (name.endsWith('.test.js') && !existsSync(`test/${name.replace(/js$/, 'ts')}`)) {
    rmSync(`build/test/${name}`)
  }
}

const words = process.argv.slice(2).map((word) => {
  if (!/^(\.[\\/])?test\b/.test(word)) return word
  const compiled = `build/${word.replaceAll('\\', '/').replace(/\/$/, '')}`
  return compiled.endsWith('.ts') ? compiled.replace(/ts$/, 'js') : `${compiled}/**/*.test.js`
})
const env = {
  // Without CI, tap's reporter draws over its last lines again and again, even in a file.
  ...(!process.stdout.isTTY && { CI: 'true' }),
  // The tests are compiled already: tap need not load TypeScript for each file.
  TAP_TYPE_STRIP_ONLY: '1',
  ...process.env
}
const preload = '--node-arg=--require=./scripts/before-tests.cjs'
const tap = ['node_modules/tap/dist/esm/run.mjs', preload, ...words]
const { status } = spawnSync(process.execPath, tap, {
  stdio: 'inherit',
  env
})
process.exitCode = status ?? 1
