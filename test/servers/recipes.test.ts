// The programs of docs/recipes that need a server, on real servers, unchanged.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Queue, QueueEvents } from 'bullmq'
import t, { type Test } from 'tap'
import { hs256 } from '../support/credentials.js'
import { plainEnvironment } from '../support/environment.js'
import { RedisServer } from '../support/redis-server.js'

async function startRedis (t: Test): Promise<RedisServer> {
  const server = await RedisServer.start()
  t.teardown(() => {
    server.remove()
  })
  return server
}

/** Starts a program in a process of its own, and returns the process and what it prints first. */
async function start (
  t: Test,
  program: string,
  { port }: RedisServer
): Promise<{ process: ChildProcess; printed: string }> {
  const started = spawn(process.execPath, [`build/documented/recipes/${program}.js`], {
    env: plainEnvironment({ PORT: '0', REDIS_URL: `redis://127.0.0.1:${port}` }),
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => {
    started.kill('SIGKILL')
  })
  const [printed] = await once(started.stdout, 'data')
  return { process: started, printed: String(printed).trim() }
}

/** Starts the worker of the queue, and returns the queue with its events. */
async function startWorker (t: Test) {
  const server = await startRedis(t)
  const connection = { host: '127.0.0.1', port: server.port }
  const queue = new Queue('prompts', { connection })
  const events = new QueueEvents('prompts', { connection })
  const { process: worker } = await start(t, 'worker', server)
  t.teardown(async () => {
    await events.close()
    await queue.close()
  })
  await events.waitUntilReady()
  return { queue, events, worker }
}

t.test('a job whose owner has no room is delayed until the day ends', async (t) => {
  const { queue, events, worker } = await startWorker(t)
  const delayed = once(events, 'delayed')
  // Each is counted 150 of 1,000 in the end, and needs room for 200.
  const jobs = await queue.addBulk(
    Array.from({ length: 7 }, (_, number) => ({
      name: 'prompt',
      data: { owner: 'mira', prompt: String(number) }
    }))
  )
  for (const job of jobs.slice(0, 6)) {
    t.match(await job.waitUntilFinished(events), /Two invoices\.$/)
  }
  const [{ jobId, delay }] = await delayed
  t.equal(jobId, jobs[6]?.id)
  const wait = delay - Date.now()
  // A day of the time zone has 25 hours at most.
  t.ok(wait > 0 && wait <= 25 * 3_600_000, `it waits ${wait} ms`)
  t.equal(await queue.getDelayedCount(), 1)

  const other = await queue.add('prompt', { owner: 'tomas', prompt: 'another' })
  t.equal(await other.waitUntilFinished(events), 'another Two invoices.')

  const exited = once(worker, 'exit')
  worker.kill('SIGTERM')
  t.same(await exited, [0, null])
})

t.test('a job that fails twice and is tried again is counted once', async (t) => {
  const { queue, events } = await startWorker(t)
  const add = async (prompt: string) =>
    await queue.add('prompt', { owner: 'mira', prompt }, { attempts: 3 })
  const failing = await add('fails twice')
  t.equal(await failing.waitUntilFinished(events), 'fails twice Two invoices.')
  // Six count 900 of 1,000 with it: if an attempt were counted, the sixth would have no room.
  for (let job = 2; job <= 6; job++) {
    t.match(await (await add(String(job))).waitUntilFinished(events), /Two invoices/)
  }
})

t.test('a batch is settled once, by another process, if its webhook comes thrice', async (t) => {
  const server = await startRedis(t)
  const headers = {
    // The secret in service.ts of docs/recipes/README.md.
    authorization: `Bearer ${hs256({ sub: 'mira' }, 'a secret of at least 32 characters')}`,
    'content-type': 'application/json'
  }
  const post = async (address: string, path: string, body: object) =>
    await fetch(`${address}/${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  const standing = async (address: string) =>
    Object(await (await fetch(`${address}/standing`, { headers })).json())

  const { process: admitting, printed: first } = await start(t, 'batches', server)
  const prompts = Array.from({ length: 3_000 }, (_, number) => String(number))
  const { id } = Object(await (await post(first, 'batches', { prompts })).json())
  t.match(await standing(first), { count: 6_000, held: 0 })
  t.equal((await post(first, 'batches', { prompts: ['invalid'] })).status, 500)
  t.equal((await standing(first)).count, 6_000, 'a batch that was not submitted costs nothing')
  admitting.kill('SIGKILL')
  await once(admitting, 'exit')

  const { printed: second } = await start(t, 'batches', server)
  const result = { id, cents: 1_500 }
  const responses = await Promise.all([1, 2, 3].map(() => post(second, 'webhook', result)))
  t.same(responses.map(({ status }) => status), [204, 204, 204])
  t.equal((await standing(second)).count, 1_500)
  t.equal((await post(second, 'webhook', { id: 'unknown', cents: 1 })).status, 404)
})
