// docs/rules.md, "Concurrent requests": the places of processes that are killed, frozen, or cut off
// from the server. "Waiting": those who wait for them.
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { PostgresQuotaStore } from '../../lib/postgres.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { acquireOne, demand, place } from '../support/demands.js'
import { plainEnvironment } from '../support/environment.js'
import { FaultyProxy } from '../../chaos/faulty-proxy.js'
import { PermitProcess } from '../support/permit-processes.js'
import { startPostgres } from '../support/postgres-server.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'

const held = 2
// All of them wait for 30 s.
t.jobs = 4

const kinds = { Redis: onRedis, PostgreSQL: onPostgres }

for (const [kind, start] of Object.entries(kinds)) {
  t.test(
    `the places of a process on ${kind} are free within 30 s of its last renewal, and it ` +
      'takes them again when it wakes',
    {
      buffered: true
    },
    async (t) => {
      const { server, store } = await start(t)
      const network = await FaultyProxy.start(server.port)
      const holders: Record<string, ChildProcess> = {}
      t.teardown(async () => {
        for (const holder of Object.values(holders)) holder.kill('SIGKILL')
        await network.stop()
      })
      for (const caller of ['healthy', 'killed', 'frozen', 'cut off']) {
        const url =
          caller === 'cut off'
            ? server.url.replace(String(server.port), String(network.port))
            : server.url
        const holder = fork('build/test/support/place-holder.js', [url, caller, String(held)], {
          env: plainEnvironment(),
          // Without the modules of tap, which take longer than all else.
          execArgv: []
        })
        holders[caller] = holder
        t.same(await once(holder, 'message'), [held, undefined])
      }
      const count = async (caller: string) =>
        Number((await store.peek(demand(caller, place())))?.count)
      holders.killed?.kill('SIGKILL')
      holders.frozen?.kill('SIGSTOP')
      network.isSilent = true
      const free = new Set<string>()
      let longestHeld = 0
      let leastHeld = held
      const started = performance.now()
      let lookedAfter = 0
      while (free.size < 3 && lookedAfter < 40_000) {
        lookedAfter = performance.now() - started
        leastHeld = Math.min(leastHeld, await count('healthy'))
        for (const caller of ['killed', 'frozen', 'cut off']) {
          if ((await count(caller)) === 0) free.add(caller)
          else longestHeld = Math.max(longestHeld, lookedAfter)
        }
        await sleep(200)
      }
      t.equal(leastHeld, held, 'a process that renews its places keeps them')
      t.same([...free].sort(), ['cut off', 'frozen', 'killed'], 'the others are free')
      t.ok(longestHeld < 30_200, `none is held after ${longestHeld} ms`)
      for (const caller of ['frozen', 'cut off']) {
        const taken = [
          await acquireOne(store, caller, place(held)),
          await acquireOne(store, caller, place(held))
        ]
        t.same(
          taken.map(({ admitted }) => admitted),
          [true, true],
          'others take the places'
        )
        if (caller === 'frozen') holders[caller]?.kill('SIGCONT')
        else network.isSilent = false
        await until(
          'the process has taken its places again',
          async () => (await count(caller)) === 2 * held
        )
        t.match(await acquireOne(store, caller, place(2 * held)), {
          admitted: false,
          count: 2 * held
        })
        await leave(holders[caller])
        t.equal(await count(caller), held, 'and only its own are given back')
        for (const { receipt } of taken) await store.settle(receipt, { count: 1, held: 1 })
        t.equal(await count(caller), 0)
      }
      await leave(holders.healthy)
      t.equal(await count('healthy'), 0)
    }
  )
}

const slot = { caller: 'service', quota: 'slots' }

for (const [kind, start] of Object.entries(kinds)) {
  t.test(`a process gets the places of another one on ${kind}`, { buffered: true }, async (t) => {
    const { server } = await start(t)
    const one = await PermitProcess.start(t, 'plain', server.url)
    const other = await PermitProcess.start(t, 'plain', server.url)
    const first = one.tell('take', slot)
    t.match(await first.answer, { isAdmitted: true, waited: 0 })

    const second = other.tell('take', slot)
    // It is in line by the time that the next command is answered.
    await other.standing(slot.caller, slot.quota)
    const freedAt = performance.now()
    await one.tell('end', { permit: first.id }).answer
    t.match(await second.answer, { isAdmitted: true })
    const delay = performance.now() - freedAt
    t.ok(delay < 5000, `a place that is freed, within a moment (${delay} ms)`)

    const third = one.tell('take', slot)
    await one.standing(slot.caller, slot.quota)
    await other.kill()
    const killedAt = performance.now()
    t.match(await third.answer, { isAdmitted: true })
    const lost = performance.now() - killedAt
    t.ok(lost < 32_000, `that of a process that is killed, within 30 s (${lost} ms)`)
    t.same(await one.standing(slot.caller, slot.quota), { count: 1, held: 1 })
  })
}

async function leave (holder: ChildProcess | undefined): Promise<void> {
  if (holder === undefined) throw new Error('there is no such process')
  holder.send('leave')
  await once(holder, 'exit')
}

async function onRedis (t: Parameters<typeof startRedis>[0]) {
  const { server, client } = await startRedis(t)
  return { server, store: new RedisQuotaStore({ client, rememberRejections: false }) }
}

async function onPostgres (t: Parameters<typeof startPostgres>[0]) {
  const { server, pool } = await startPostgres(t)
  return { server, store: new PostgresQuotaStore({ pool, rememberRejections: false }) }
}
