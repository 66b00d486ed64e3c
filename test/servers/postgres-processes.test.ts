// The places of processes that hold requests in flight in the PostgreSQL store and are killed, frozen, or cut off from the server.
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { acquireOne, place } from '../support/acquire-one.js'
import { plainEnvironment } from '../support/environment.js'
import { FaultyProxy } from '../support/faulty-proxy.js'
import { startPostgres } from '../support/postgres-server.js'
import { demand } from '../support/told-store.js'

const held = 2

t.test('the places of a process', async (t) => {
  const { server, pool } = await startPostgres(t)
  const network = await FaultyProxy.start(server.port)
  const holders: Record<string, ChildProcess> = {}
  t.teardown(async () => {
    for (const holder of Object.values(holders)) holder.kill('SIGKILL')
    await network.stop()
  })
  const urls = { healthy: server.url, killed: server.url, frozen: server.url, 'cut off': `postgres://postgres@127.0.0.1:${network.port}/postgres` }
  for (const [caller, url] of Object.entries(urls)) {
    const holder = fork('build/test/support/postgres-holder.js', [url, caller, String(held)], { env: plainEnvironment() })
    holders[caller] = holder
    t.same(await once(holder, 'message'), [held, undefined])
  }
  const store = new PostgresQuotaStore({ pool })
  const count = async (caller: string) => Number((await store.peek(demand(caller, place())))?.count)

  holders.killed?.kill('SIGKILL')
  holders.frozen?.kill('SIGSTOP')
  network.isSilent = true
  const freeAfter: Record<string, number> = {}
  let leastHeld = held
  const started = performance.now()
  while (performance.now() - started < 31_000) {
    leastHeld = Math.min(leastHeld, await count('healthy'))
    for (const caller of ['killed', 'frozen', 'cut off']) if (await count(caller) === 0) freeAfter[caller] ??= performance.now() - started
    await sleep(100)
  }
  t.comment(freeAfter)
  t.equal(leastHeld, held, 'a process that renews its places keeps them')
  // A look at the places takes a part of a second.
  for (const caller of ['killed', 'frozen', 'cut off']) t.ok((freeAfter[caller] ?? Infinity) <= 31_000, `${caller}: free within 30 s`)

  for (const caller of ['frozen', 'cut off']) {
    const taken = [await acquireOne(store, caller, place(held)), await acquireOne(store, caller, place(held))]
    t.same(taken.map(({ admitted }) => admitted), [true, true], 'others take the places')
    if (caller === 'frozen') holders[caller]?.kill('SIGCONT')
    else network.isSilent = false
    const woken = performance.now()
    while (await count(caller) < 2 * held) await sleep(20)
    t.comment(`${caller}: its running requests have their places again after ${Math.round(performance.now() - woken)} ms`)
    t.match(await acquireOne(store, caller, place(2 * held)), { admitted: false, count: 2 * held })
    holders[caller]?.send('leave')
    await once(holders[caller] as ChildProcess, 'exit')
    t.equal(await count(caller), held, 'and only its own are given back')
    for (const acquisition of taken) await store.release(acquisition, 1)
    t.equal(await count(caller), 0)
  }
  holders.healthy?.send('leave')
  await once(holders.healthy as ChildProcess, 'exit')
  t.same((await pool.query('SELECT FROM llm_quota_place WHERE held > 0')).rows, [])
})
