// Makes mistakes in lib, one mutant of the lists in mutants/ after another, in a copy of what
// `npm run compile` has built, and runs the test that is named to find it. Fails unless each of
// them does: another test that fails does not count.
//
// Without arguments, all of them. An argument is the name of a list, such as `limits`, or a file of
// lib, such as `permit/usage.ts`. Those of scripts in Lua need redis-server; PostgreSQL is PGlite.
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import ts from 'typescript'
import { isScript, scriptText } from './script-text.js'

// A mutant can make a test wait for ever.
const longestRun = 120_000

const { config } = ts.readConfigFile('tsconfig.json', ts.sys.readFile)
const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, '.')
// Of one file alone, the compiler does not look for the package.json that makes it a module.
const compilerOptions = { ...options, module: ts.ModuleKind.ESNext, sourceMap: false }

const scripts = readdirSync('lib', { recursive: true, encoding: 'utf8' }).filter(isScript)
const folder = mkdtempSync(join(tmpdir(), 'mutants-'))

/** Returns the mutants of the lists and files that the arguments name. */
async function mutantsOf (names) {
  const mutants = []
  for (const list of readdirSync('scripts/mutants')) {
    const module = await import(`./mutants/${list}`)
    const isNamed = names.length === 0 || names.includes(basename(list, '.js'))
    mutants.push(...module.mutants.filter(({ file }) => isNamed || names.includes(file)))
  }
  if (mutants.length === 0) throw new Error(`there are no mutants of ${names.join(' and ')}`)
  return mutants
}

/** Returns the files of `build/lib` that are made of a file of lib. Others can include a script. */
function madeOf (file) {
  return file.endsWith('.ts')
    ? [file.replace(/ts$/, 'js')]
    : scripts.map((script) => `${script}.js`)
}

/** Writes what is made of the changed file into the copy. */
function plant (mutant) {
  const read = (name) => {
    const text = readFileSync(join('lib', name), 'utf8')
    return name === mutant.file ? changed(text, mutant) : text
  }
  for (const name of madeOf(mutant.file)) {
    const made = mutant.file.endsWith('.ts')
      ? ts.transpileModule(read(mutant.file), { compilerOptions }).outputText
      : `export default ${JSON.stringify(scriptText(name.replace(/\.js$/, ''), read))}\n`
    writeFileSync(join(folder, 'build', 'lib', name), made)
  }
}

/** Writes what is made of the file as it is. */
function restore ({ file }) {
  for (const name of madeOf(file)) {
    cpSync(join('build', 'lib', name), join(folder, 'build', 'lib', name))
  }
}

/** Returns the text with the change of a mutant. */
function changed (text, { file, from, to }) {
  const parts = text.split(from)
  if (parts.length !== 2) {
    throw new Error(`${file} has ${parts.length - 1} times, not once:\n${from}`)
  }
  return parts.join(to)
}

/** Runs tests of a file: by depth, a pattern of their names. Returns what they print. */
function run (file, patterns) {
  const { status, stdout } = spawnSync(
    process.execPath,
    [
      `--require=${resolve('scripts/before-tests.cjs')}`,
      `build/${file.replace(/ts$/, 'js')}`
    ],
    {
      cwd: folder,
      encoding: 'utf8',
      env: { ...process.env, TAP_GREP: patterns.join('\n'), TAP_TIMEOUT: '110' },
      killSignal: 'SIGKILL',
      maxBuffer: 2 ** 30,
      timeout: longestRun
    }
  )
  return { hasPassed: status === 0, output: stdout }
}

function patternOf (name) {
  return `/^${name.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')}$/`
}

/** Whether the test that is named finds the mutant. Another that fails does not count. */
function isFound (mutant) {
  plant(mutant)
  const { hasPassed, output } = run(mutant.test, mutant.foundBy.map(patternOf))
  restore(mutant)
  const failed = output.split('\n').filter((line) => /^ *not ok \d+ - /.test(line))
  return !hasPassed && failed.some((line) => line.includes(` - ${mutant.foundBy.at(-1)}`))
}

try {
  const mutants = await mutantsOf(process.argv.slice(2))
  cpSync('build', join(folder, 'build'), { recursive: true })
  for (const name of readdirSync('.')) {
    if (name !== 'build') symlinkSync(resolve(name), join(folder, name))
  }

  for (const file of new Set(mutants.map(({ test }) => test))) {
    const names = mutants.filter(({ test }) => test === file).map(({ foundBy }) => foundBy[0])
    const pattern = new Set(names.map((name) => patternOf(name).slice(1, -1)))
    const { hasPassed, output } = run(file, [`/${[...pattern].join('|')}/`])
    const ran = output.replaceAll(/^.*# SKIP.*\n/gm, '')
    if (!hasPassed) throw new Error(`${file} fails without a mutant:\n${ran}`)
  }

  const survivors = []
  for (const [index, mutant] of mutants.entries()) {
    const startedAt = performance.now()
    const isDead = isFound(mutant)
    if (!isDead) survivors.push(mutant)
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
    const what = isDead ? 'found' : 'NOT FOUND'
    console.log(`${index + 1}. ${what} in ${seconds} s: ${mutant.file}: ${mutant.what}`)
  }
  console.log(`${mutants.length - survivors.length} of ${mutants.length} mutants are found`)
  for (const { file, what, foundBy } of survivors) {
    console.error(`${file}: ${what}; this test should fail: ${foundBy.at(-1)}`)
  }
  if (survivors.length > 0) process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true })
}
