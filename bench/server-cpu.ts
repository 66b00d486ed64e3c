import { readdirSync, readFileSync } from 'node:fs'

/**
 * Returns the CPU time that a server and its child processes that have not ended have used, in
 * microseconds.
 */
export function cpuOf (pid: number | undefined): number {
  let microseconds = 0
  for (const name of list('/proc')) {
    if (!/^\d+$/.test(name)) continue
    if (name === String(pid) || parentOf(name) === String(pid)) microseconds += runningTime(name)
  }
  return microseconds
}

/** Returns the number of a process's parent; nothing if the process has ended. */
function parentOf (process: string): string | undefined {
  const text = read(`/proc/${process}/stat`)
  // The state and the parent follow the name, which is in parentheses.
  return text.slice(text.lastIndexOf(')') + 2).split(' ')[1]
}

/** Returns the sum of all threads. Linux counts it in nanoseconds. */
function runningTime (process: string): number {
  let nanoseconds = 0
  for (const thread of list(`/proc/${process}/task`)) {
    const [running = '0'] = read(`/proc/${process}/task/${thread}/schedstat`).split(' ')
    nanoseconds += Number(running)
  }
  return nanoseconds / 1_000
}

// A process can end at any time. What it has used is then missing.
function list (folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function read (file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
