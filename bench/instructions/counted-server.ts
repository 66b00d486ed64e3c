// Counts the instructions per request of a server process in user space, with valgrind's tool callgrind.
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Situation } from '../http/measure.js'
import { median } from '../statistics.js'
import { Client } from './client.js'

/** A server to measure, and the request to send. */
export interface CountedServer {
  readonly name: string
  readonly situation: Situation
  readonly path: string
  readonly status: number
  /** The number of callers, which send requests in turn. */
  readonly callers: number
}

/** The instructions of a process per request. */
export interface Instructions {
  /** The median of ten counts of 500 requests each, which represents a typical request. */
  readonly usual: number
  /** The mean of all 5,000 requests, including full garbage collections and compilations. */
  readonly mean: number
}

/** The number of requests before counting starts, after which V8 has compiled the hot code. */
export const warmUpRequests = 60_000
export const counts = 10
const warmUpParts = 100
export const requestsPerCount = 500

// callgrind must check for code that V8 has changed, which it does not do by default. With a single thread, the compiler and the garbage
// collector run in the same order each time.
export const valgrindOptions = ['--tool=callgrind', '--callgrind-out-file=/dev/null', '--instr-atstart=no', '--smc-check=all-non-file']
export const nodeOptions = ['--single-threaded']

/** @throws {Error} If valgrind is not installed. */
export function assertValgrind (): void {
  if (spawnSync('valgrind', ['--version']).status === 0) return
  throw new Error('Instructions are counted with valgrind, which is not on the PATH. Install it: on Debian and Ubuntu `apt-get install valgrind`, on Fedora `dnf install valgrind`.')
}

/**
 * Starts a server in a new process and counts the instructions per request.
 *
 * @param warmUp The number of requests before counting starts.
 */
export async function instructionsOf (counted: CountedServer, warmUp = warmUpRequests): Promise<Instructions> {
  const { name, situation } = counted
  const server = fileURLToPath(new URL('../http/server.js', import.meta.url))
  const child = spawn('valgrind', [...valgrindOptions, process.execPath, ...nodeOptions, server, name, JSON.stringify(situation)], { stdio: ['ignore', 'inherit', 'pipe', 'ipc'] })
  try {
    return await count(child, counted, warmUp)
  } finally {
    child.kill('SIGKILL')
  }
}

async function count (child: ChildProcess, { path, status, callers }: CountedServer, warmUp: number): Promise<Instructions> {
  let log = ''
  child.stderr?.setEncoding('utf8').on('data', (text) => { log += String(text) })
  const started: unknown[] = await Promise.race([once(child, 'message'), once(child, 'close')])
  const { address, token } = Object(started[0])
  if (typeof address !== 'string') throw new Error(`the server did not start:\n${log}`)
  const client = await Client.connect(Number(new URL(address).port))
  const headersOf = (caller: number) => ({ 'x-subject': `caller ${caller}`, ...(typeof token === 'string' && { authorization: `Bearer ${token}` }) })
  const send = (first: number, count: number) => {
    const headers = Array.from({ length: Math.min(callers, count) }, (_, index) => headersOf((first + index) % callers))
    return client.send(count, path, headers, status)
  }
  // The first 200 after many 429s, at the end of a window, makes V8 discard compiled code that sends responses. To avoid this, some requests
  // are admitted during the warm-up, as in a real service.
  for (let sent = 0; sent < warmUpParts; sent++) {
    await client.send(1, path, [headersOf(callers + sent)], 200)
    await send(sent * warmUp / warmUpParts, warmUp / warmUpParts)
  }
  control(child, '-i', 'on')
  const totals = [total(child)]
  for (let counted = 0; counted < counts; counted++) {
    await send(counted * requestsPerCount, requestsPerCount)
    totals.push(total(child))
  }
  client.close()
  const each = totals.slice(1).map((later, index) => (later - (totals[index] ?? NaN)) / requestsPerCount)
  return { usual: median(each), mean: each.reduce((sum, instructions) => sum + instructions, 0) / each.length }
}

/** Returns the number of instructions that a process has executed while counting was on. */
export function total (child: ChildProcess): number {
  const threads = [...control(child, '-e').matchAll(/^\s*Th \d+\s+([\d,]+)/gm)].map(([, instructions = '']) => Number(instructions.replaceAll(',', '')))
  return threads.reduce((sum, instructions) => sum + instructions, 0)
}

/** Runs `callgrind_control` on a process. */
export function control ({ pid }: ChildProcess, ...command: string[]): string {
  return execFileSync('callgrind_control', [...command, String(pid)], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
}
