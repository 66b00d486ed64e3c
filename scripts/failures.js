// Finds in the results of tests, in the format TAP, what failed.

/** How many lines of what is said about a failure are shown. */
const longestDetails = 40

/**
 * Returns a text for each assertion that failed, for each test or file that failed without one, for
 * example because of a time limit, and for each error that ended a process: the names of its file
 * and tests, and what is said about it.
 */
export function failuresIn (results) {
  const failures = []
  // The file and the tests that the line is in, from the outside in.
  const running = []
  const lines = results.split('\n')
  for (let index = 0; index < lines.length; index++) {
    const [, indent, what, rest] =
      /^((?: {4})*)(# Subtest:|# Uncaught:|not ok \d+ -) (.*)$/.exec(lines[index]) ?? []
    if (what === undefined) continue
    const depth = indent.length / 4
    const name = rest.replace(/ # time=\S+$/, '')
    if (what === '# Subtest:') {
      running[depth] = { name, failuresBefore: failures.length }
      continue
    }
    const details = what === '# Uncaught:' ? stackAfter(lines, index) : detailsAfter(lines, index)
    index += details.length
    // A test that has failed because of what is in it is shown by that.
    const own = running[depth]
    if (own?.name === name && failures.length > own.failuresBefore) continue
    const names = [...running.slice(0, depth).map((each) => each.name), name]
    failures.push([`FAIL ${names.join(' > ')}`, ...details.slice(0, longestDetails)].join('\n'))
  }
  return failures
}

/** Returns the lines after that of a failure which describe it, from `---` to `...`. */
function detailsAfter (lines, index) {
  const next = lines[index + 1] ?? ''
  if (!/^ *---$/.test(next)) return []
  const end = lines.indexOf(next.replace('---', '...'), index)
  return lines.slice(index + 1, end + 1)
}

/** Returns the comments after that of an error, which before-tests.cjs writes. */
function stackAfter (lines, index) {
  const after = lines.slice(index + 1)
  return after.slice(0, after.findIndex((line) => !/^ *# {2}/.test(line)))
}
