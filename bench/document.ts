import { existsSync, readFileSync, writeFileSync } from 'node:fs'

const file = 'docs/benchmarks.md'
const parts = ['cost', 'instructions', 'times'] as const

/** Writes one part of docs/benchmarks.md without changing the other. Each part has its own program. */
export function writePart (name: typeof parts[number], text: string): void {
  const written = existsSync(file) ? readFileSync(file, 'utf8') : ''
  const texts = parts.map((part) => `${start(part)}\n\n${(part === name ? text : textOf(part, written)).trim()}\n\n${end(part)}\n`)
  writeFileSync(file, `# Benchmarks\n\n${texts.join('\n')}`)
}

function textOf (part: string, written: string): string {
  const from = written.indexOf(start(part))
  const to = written.indexOf(end(part))
  return from < 0 || to < from ? 'Not measured yet.' : written.slice(from + start(part).length, to)
}

function start (part: string): string {
  return `<!-- ${part} -->`
}

function end (part: string): string {
  return `<!-- end of ${part} -->`
}
