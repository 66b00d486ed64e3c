// docs/rules.md, "Handing over": permits that other processes end, on servers.
import { setTimeout as sleep } from 'node:timers/promises'
import { Queue, QueueEvents, Worker } from 'bullmq'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import quotaPlugin, { localAuthentication } from '../../lib/index.js'
import { RedisQuotaStore } from '../../lib/redis.js'
import { PermitProcess } from '../support/permit-processes.js'
import { startPostgres } from '../support/postgres-server.js'
import { startRedis } from '../support/redis-server.js'

t.jobs = 2

const servers = {
  Redis: async (t: Test) => (await startRedis(t)).server.url,
  PostgreSQL: async (t: Test) => (await startPostgres(t)).server.url
}
const kinds: [kind: string, server: keyof typeof servers][] = [
  ['plain', 'Redis'],
  ['plain', 'PostgreSQL'],
  ['sharded', 'Redis'],
  ['insured', 'Redis']
]

for (const [kind, server] of kinds) {
  t.test(`with a ${kind} store on ${server}`, { buffered: true }, async (t) => {
    const url = await servers[server](t)
    const admitting = await PermitProcess.start(t, kind, url)
    const worker = await PermitProcess.start(t, kind, url)

    await t.test('each permit is settled once, by one of two processes', async (t) => {
      const callers = Array.from({ length: 5 }, (_, number) => `caller ${number}`)
      let used = 0
      const ending = []
      for (let job = 0; job < 100; job++) {
        const text = await admitting.takeAndHandOver(callers[job % callers.length] ?? '')
        used += job
        ending.push(admitting.resume(text, job), worker.resume(text, job))
      }
      await Promise.all(ending)
      const counts = await Promise.all(callers.map((caller) => worker.standing(caller)))
      t.same(new Set(counts.map(({ held }) => held)), new Set([0]))
      t.equal(counts.reduce((sum, { count }) => sum + count, 0), used)
      const published = [...(await admitting.settlements()), ...(await worker.settlements())]
      t.equal(published.length, 100)
      t.equal(published.reduce((sum, each) => sum + each.used, 0), used)
    })

    await t.test('no end changes anything once the window is over', async (t) => {
      const text = await worker.takeAndHandOver('mira', 'brief')
      await sleep(1100)
      await worker.tell('take', { caller: 'mira', quota: 'brief' }).answer
      await worker.resume(text, 500)
      t.same(await worker.standing('mira', 'brief'), { count: 60, held: 60 })
      t.same(await worker.settlements(), [])
    })

    await t.test('a process that is killed changes nothing of its permits', async (t) => {
      await admitting.tell('take', { caller: 'before', quota: 'tokens' }).answer
      const text = await admitting.takeAndHandOver('after')
      await admitting.kill()
      t.same(await worker.standing('before'), { count: 60, held: 60 })
      t.same(await worker.standing('after'), { count: 60, held: 0 })
      // An attempt of a worker that is deployed before its end.
      await worker.resume(text, 500, false)
      await worker.kill()
      const deployed = await PermitProcess.start(t, kind, url)
      t.same(await deployed.standing('after'), { count: 60, held: 0 })
      await deployed.resume(text, 75)
      await deployed.resume(text, 75)
      t.same(await deployed.standing('after'), { count: 75, held: 0 })
      t.same(await deployed.settlements(), [{ used: 75, before: 0 }])
    })
  })
}

/** A service with a budget for each month, on a Redis of its own. */
async function createService (t: Test) {
  const { server, client } = await startRedis(t)
  const app: FastifyInstance = Fastify()
  await app.register(quotaPlugin, {
    operations: [],
    store: new RedisQuotaStore({ client }),
    quotas: { budget: { perMonth: { cents: 20_000 }, cost: 6000 } }
  })
  const mira = localAuthentication('mira')
  const count = async () => (await app.quotaStanding(mira, 'budget'))?.count
  return { app, mira, count, connection: { host: '127.0.0.1', port: server.port } }
}

t.test('a job that fails twice and is tried again counts once', async (t) => {
  const { app, mira, count, connection } = await createService(t)
  const queue = new Queue('prompts', { connection })
  const events = new QueueEvents('prompts', { connection })
  const worker = new Worker(
    'prompts',
    async ({ data, attemptsMade }) => {
      await using permit = app.quotaResume(data.permit)
      await permit.charge({ cents: 1500 })
      if (attemptsMade < 2) throw new Error('the model is down')
      await permit.end()
      return attemptsMade
    },
    { connection }
  )
  t.teardown(async () => {
    await worker.close()
    await events.close()
    await queue.close()
  })
  await events.waitUntilReady()
  const permit = await app.quotaAcquire(mira, 'budget')
  const data = { permit: await permit.handOver() }
  const job = await queue.add('prompt', data, { attempts: 3 })
  t.equal(await job.waitUntilFinished(events), 2)
  t.equal(await count(), 1500)
})

t.test('a webhook that comes twice counts once, also what was used beyond', async (t) => {
  const { app, mira, count } = await createService(t)
  const batches = new Map<string, string>()
  app.post<{ Params: { id: string }, Body: { cents: number } }>(
    '/batches/:id',
    async ({ params, body }) => {
      const permit = app.quotaResume(batches.get(params.id) ?? '')
      await permit.charge(body)
      await permit.end()
      return 'ended'
    }
  )
  for (const [id, cents, total] of [['small', 1500, 1500], ['large', 7000, 8500]] as const) {
    const permit = await app.quotaAcquire(mira, 'budget', { reference: id })
    batches.set(id, await permit.handOver())
    const call = async () =>
      (await app.inject({ method: 'POST', url: `/batches/${id}`, body: { cents } })).statusCode
    t.same(await Promise.all([call(), call()]), [200, 200])
    t.equal(await call(), 200)
    t.equal(await count(), total)
  }
})
