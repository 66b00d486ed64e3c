// docs/rules.md, "Waiting": processes that wait for the places of each other, one of them killed.
import t, { type Test } from 'tap'
import { PermitProcess } from '../support/permit-processes.js'
import { startPostgres } from '../support/postgres-server.js'
import { startRedis } from '../support/redis-server.js'

t.jobs = 2

const place = { caller: 'service', quota: 'slots' }

const servers = {
  Redis: async (t: Test) => (await startRedis(t)).server.url,
  PostgreSQL: async (t: Test) => (await startPostgres(t)).server.url
}
for (const [name, start] of Object.entries(servers)) {
  t.test(`on ${name}, a process gets the places of another one`, { buffered: true }, async (t) => {
    const url = await start(t)
    const one = await PermitProcess.start(t, 'plain', url)
    const other = await PermitProcess.start(t, 'plain', url)
    const first = one.tell('take', place)
    t.match(await first.answer, { isAdmitted: true, waited: 0 })

    const second = other.tell('take', place)
    // It is in line by the time that the next command is answered.
    await other.standing(place.caller, place.quota)
    const freedAt = performance.now()
    await one.tell('end', { permit: first.id }).answer
    t.match(await second.answer, { isAdmitted: true })
    const delay = performance.now() - freedAt
    t.ok(delay < 5000, `a place that is freed, within a moment (${delay} ms)`)

    const third = one.tell('take', place)
    await one.standing(place.caller, place.quota)
    await other.kill()
    const killedAt = performance.now()
    t.match(await third.answer, { isAdmitted: true })
    const lost = performance.now() - killedAt
    t.ok(lost < 32_000, `that of a process that is killed, within 30 s (${lost} ms)`)
    t.same(await one.standing(place.caller, place.quota), { count: 1, held: 1 })
  })
}
