/** A log that a test can read line by line. */
export function captureLog (level = 'info') {
  const lines: Record<string, unknown>[] = []
  const stream = {
    write (line: string) {
      lines.push(JSON.parse(line))
    }
  }
  const at = (level: number) => lines.filter((line) => line.level === level)
  const messages = (level: number) => at(level).map(({ msg }) => String(msg))
  return {
    lines,
    /** The messages of the warnings. */
    warnings: () => messages(40),
    /** The messages of the errors. */
    errors: () => messages(50),
    /** The lines of the errors. */
    failures: () => at(50),
    /** The lines of the warnings and errors. */
    problems: () => [...at(40), ...at(50)],
    logger: { level, stream }
  }
}
