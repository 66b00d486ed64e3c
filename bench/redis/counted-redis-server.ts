// Counts the instructions that a Redis server executes in user space, with valgrind's tool callgrind.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { freePort } from '../../test/support/redis-server.js'

/**
 * Returns the instructions per decision: the slope between `perSlope` and twice as many decisions, each on a separate server, so that its
 * start and end are not included.
 */
export async function instructionsOf (decide: (client: Redis, decisions: number) => Promise<void>, perSlope = 2_000): Promise<number> {
  const fewer = await instructionsDuring((client) => decide(client, perSlope))
  const more = await instructionsDuring((client) => decide(client, 2 * perSlope))
  return (more - fewer) / perSlope
}

/** Returns the instructions of a server from its start to its end. */
export async function instructionsDuring (run: (client: Redis) => Promise<void>): Promise<number> {
  const port = await freePort()
  const directory = mkdtempSync(join(tmpdir(), 'quota-callgrind-'))
  const child = spawn('valgrind', [
    '--tool=callgrind', '--callgrind-out-file=/dev/null', 'redis-server',
    '--port', String(port), '--bind', '127.0.0.1', '--dir', directory, '--save', '', '--hz', '1', '--dynamic-hz', 'no',
    // Under valgrind, a script takes fifty times as long, so that the server would log it as slow.
    '--slowlog-log-slower-than', '-1'
  ], { stdio: ['ignore', 'ignore', 'pipe'] })
  let report = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => { report += text })
  const client = new Redis({ port, host: '127.0.0.1', retryStrategy: () => 100, maxRetriesPerRequest: null })
  client.on('error', () => {})
  try {
    await client.ping()
    await run(client)
  } finally {
    client.disconnect()
    child.kill('SIGTERM')
    await once(child, 'close')
    rmSync(directory, { recursive: true })
  }
  const [, collected] = /Collected : (\d+)/.exec(report) ?? []
  if (collected === undefined) throw new Error(`valgrind gave no figure: ${report}`)
  return Number(collected)
}
