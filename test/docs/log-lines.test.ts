// The log lines in docs/operating.md are those of the code, word for word, so that an alert on a
// line of the page fires.
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type typescript from 'typescript'
import t from 'tap'

// For an import, Node.js would read all of it for the names that it exports, which takes 1 s.
const ts: typeof typescript = createRequire(import.meta.url)('typescript')

/** The argument of each function that is the message. */
const messageArguments = new Map([
  ['logLine', 3],
  ['logFailure', 2],
  ['#warnOnce', 3],
  ['#failed', 1],
  // Those of a `MinuteLog`.
  ['line', 4],
  ['failure', 3]
])

/** Stands for what is inserted into a message, and for what the page leaves out. */
const gap = '…'

/** Returns the texts that an expression can have, with a gap for each part that is not known. */
function textsOf (expression: typescript.Expression): string[] {
  if (ts.isStringLiteralLike(expression)) return [expression.text]
  if (ts.isConditionalExpression(expression)) {
    return [...textsOf(expression.whenTrue), ...textsOf(expression.whenFalse)]
  }
  if (ts.isBinaryExpression(expression)) {
    return joined(textsOf(expression.left), textsOf(expression.right))
  }
  if (ts.isTemplateExpression(expression)) {
    return expression.templateSpans.reduce(
      (texts, span) => joined(joined(texts, textsOf(span.expression)), [span.literal.text]),
      [expression.head.text]
    )
  }
  if (ts.isIdentifier(expression)) {
    const value = valueOf(expression)
    if (value !== undefined) return textsOf(value)
  }
  return [gap]
}

function joined (beginnings: readonly string[], ends: readonly string[]): string[] {
  return beginnings.flatMap((beginning) => ends.map((end) => beginning + end))
}

/** Returns the value of a constant of the same function or file. */
function valueOf (name: typescript.Identifier): typescript.Expression | undefined {
  for (let scope: typescript.Node = name.parent; scope !== undefined; scope = scope.parent) {
    if (!ts.isBlock(scope) && !ts.isSourceFile(scope)) continue
    for (const statement of scope.statements) {
      if (!ts.isVariableStatement(statement)) continue
      for (const declaration of statement.declarationList.declarations) {
        const isNamed = ts.isIdentifier(declaration.name) && declaration.name.text === name.text
        if (isNamed) return declaration.initializer
      }
    }
  }
  return undefined
}

function messagesIn (file: string): string[] {
  const text = readFileSync(file, 'utf8')
  if (![...messageArguments.keys()].some((name) => text.includes(name))) return []
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const found: string[] = []
  const visit = (node: typescript.Node): void => {
    if (ts.isCallExpression(node)) {
      const called = ts.isPropertyAccessExpression(node.expression)
        ? node.expression.name.text
        : node.expression.getText()
      const message = node.arguments[messageArguments.get(called) ?? Infinity]
      if (message !== undefined) found.push(...textsOf(message))
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

// A function that is given its message has only a gap.
const messages = readdirSync('lib', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !name.startsWith('earlier'))
  .flatMap((name) => messagesIn(`lib/${name}`))
  .filter((message) => !/^…(?:;.*)?$/.test(message))

const [, section = ''] =
  /^## Log lines\n(.*?)^## /ms.exec(readFileSync('docs/operating.md', 'utf8')) ?? []
const lines = [...section.matchAll(/^\| (?:info|warn|error|debug) \| (.*?) \|/gm)].flatMap(
  ([, cell = '']) => [...cell.matchAll(/`([^`]+)`/g)].map(([, line = '']) => line)
)

/** Whether a line of the page is this message, or its beginning and a gap. */
function isLineOf (line: string, message: string): boolean {
  return line === message || (line.endsWith(gap) && message.startsWith(line.slice(0, -1).trimEnd()))
}

t.test('each log line of the page is one of the code', async (t) => {
  t.ok(lines.length > 25, `${lines.length} lines`)
  t.same(lines.filter((line) => !messages.some((message) => isLineOf(line, message))), [])
})

t.test('each log line of the code is on the page', async (t) => {
  t.ok(messages.length > 25, `${messages.length} messages`)
  t.same(messages.filter((message) => !lines.some((line) => isLineOf(line, message))), [])
})
