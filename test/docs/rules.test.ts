// Each sentence of docs/rules.md has its tests: tested-rules.md names them.
import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { MemoryQuotaStore } from '../../lib/index.js'
import { quotaStoreContract } from '../../lib/testing.js'

/** Ends a text that is the beginning of another one. */
const rest = '…'
const nothing = 'promises nothing'
/** Names the checks of quotaStoreContract, in place of a file. */
const contract = 'contract'

/** What a line of tested-rules.md says: a sentence of the page, and its tests below it. */
interface Entry {
  readonly words: string
  readonly tests: string[]
}

/** Returns the sentences of a page. An item of a list is one or more, a row of a table is one. */
function sentencesIn (page: string): string[] {
  const parts = page
    .replaceAll(/^#.*$/gm, '\n')
    .replaceAll(/^\|[-:| ]+\|$/gm, '')
    // What a part begins with: a row of a table, or an item of a list, whose number goes.
    .replaceAll(/^(?=\|)/gm, '\n')
    .replaceAll(/^ *(?:\d+\.|-) /gm, '\n')
    .split(/\n\s*\n/)
    .map((part) => part.trim().replaceAll(/\s+/g, ' '))
    .filter((part) => part !== '')
  return parts.flatMap((part) =>
    part.startsWith('|') ? [part] : part.split(/(?<=[.!?]\)?) (?=[A-Z\d`(])/)
  )
}

function entriesIn (table: string): Entry[] {
  const entries: Entry[] = []
  for (const [, indent, text = ''] of table.matchAll(/^( *)- (.+)$/gm)) {
    if (indent === '') entries.push({ words: text, tests: [] })
    else entries.at(-1)?.tests.push(text)
  }
  return entries
}

/** Whether a text is this one, or begins like this one if that ends with an ellipsis. */
function isText (text: string, shown: string): boolean {
  return shown.endsWith(rest) ? text.startsWith(shown.slice(0, -rest.length)) : text === shown
}

const checks = quotaStoreContract((options) => new MemoryQuotaStore(options))

/** Whether a file of tests has a text in quotes, which is the name of a test, or begins one. */
function isInFile (file: string, shown: string): boolean {
  const path = `test/${file}`
  if (!existsSync(path)) return false
  // A name can be written as two texts on two lines.
  const source = readFileSync(path, 'utf8').replaceAll(/['`] \+\s+['`]/g, '')
  return ["'", '"', '`'].some((quote) =>
    source.includes(
      shown.endsWith(rest) ? quote + shown.slice(0, -rest.length) : quote + shown + quote
    )
  )
}

/** Whether there is a test, given as its file and its name. */
function exists (test: string): boolean {
  const [file = '', ...parts] = test.split(': ')
  const shown = parts.join(': ')
  return file === contract
    ? checks.some(({ name }) => isText(name, shown))
    : isInFile(file, shown)
}

function isNothing ({ tests }: Entry): boolean {
  return tests.length === 1 && tests[0] === nothing
}

const sentences = sentencesIn(readFileSync('docs/rules.md', 'utf8'))
const entries = entriesIn(readFileSync('test/docs/tested-rules.md', 'utf8'))

t.test('each sentence of the rules has one entry in the table of their tests', async (t) => {
  t.ok(sentences.length > 200, `${sentences.length} sentences`)
  const entriesOf = (sentence: string) => entries.filter(({ words }) => isText(sentence, words))
  t.same(sentences.filter((sentence) => entriesOf(sentence).length !== 1), [])
})

t.test('each entry of the table is one sentence of the rules, and has tests', async (t) => {
  const sentencesOf = ({ words }: Entry) => sentences.filter((each) => isText(each, words))
  t.same(entries.filter((entry) => sentencesOf(entry).length !== 1 || entry.tests.length === 0), [])
})

t.test('each test that the table names exists', async (t) => {
  const tested = entries.filter((entry) => !isNothing(entry))
  t.ok(tested.length > 150, `${tested.length} sentences with tests`)
  for (const { words, tests } of tested) {
    t.same(tests.filter((test) => !exists(test)), [], words)
  }
})
