import { createServer } from 'node:net'
import { PGlite } from '@electric-sql/pglite'
import type { Test } from 'tap'
import { listenOnLoopback } from './loopback.js'

// All servers of this process share one database, because creating it takes seconds.
let database: Promise<PGlite> | undefined

/** Starts PostgreSQL in this process, for one client at a time over TCP, until the test ends or calls `stop`, which ends all connections. */
export async function startPglite (t: Test, schema: string): Promise<{ url: string, stop (): Promise<void> }> {
  const started = await (database ??= PGlite.create())
  await started.exec(schema)
  const { port, stop } = await listenOnLoopback(createServer((socket) => {
    socket.on('data', (data) => {
      started.execProtocolRaw(data).then((response) => { socket.write(response) }, () => { socket.destroy() })
    })
  }))
  t.teardown(stop)
  return { url: `postgres://postgres@127.0.0.1:${port}/postgres`, stop }
}
