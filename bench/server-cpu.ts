import { readdirSync, readFileSync } from 'node:fs'

// Linux counts the CPU time of processes in hundredths of a second.
const microsecondsPerTick = 10_000

/**
 * Returns the CPU time that a PostgreSQL server has used, with all of its processes, in
 * microseconds.
 */
export function serverCpu (pid: number | undefined): number {
  let ticks = 0
  for (const name of readdirSync('/proc')) {
    const fields = fieldsOf(name)
    const isMain = name === String(pid)
    // The main process also counts the processes that have ended.
    if (isMain || fields[1] === String(pid)) ticks += sum(fields.slice(11, isMain ? 15 : 13))
  }
  return ticks * microsecondsPerTick
}

/**
 * Returns the fields of a process from its state on, which follows its name in parentheses; none if
 * it has ended.
 */
function fieldsOf (name: string): string[] {
  if (!/^\d+$/.test(name)) return []
  try {
    const text = readFileSync(`/proc/${name}/stat`, 'utf8')
    return text.slice(text.lastIndexOf(')') + 2).split(' ')
  } catch {
    return []
  }
}

function sum (ticks: readonly string[]): number {
  return ticks.reduce((total, each) => total + Number(each), 0)
}
