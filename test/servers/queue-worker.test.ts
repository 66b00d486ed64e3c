// The worker of docs/recipes/handlers-sockets-workers.md, on a real Redis.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Queue, QueueEvents } from 'bullmq'
import t from 'tap'
import { plainEnvironment } from '../support/environment.js'
import { RedisServer } from '../support/redis-server.js'

t.test('a job whose owner has no room is delayed until the day ends', async (t) => {
  const server = await RedisServer.start()
  t.teardown(() => {
    server.remove()
  })
  const connection = { host: '127.0.0.1', port: server.port }
  const queue = new Queue('prompts', { connection })
  const events = new QueueEvents('prompts', { connection })
  const worker = spawn(process.execPath, ['build/documented/recipes/worker.js'], {
    env: plainEnvironment({ REDIS_URL: `redis://127.0.0.1:${server.port}` }),
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(async () => {
    worker.kill('SIGKILL')
    await events.close()
    await queue.close()
  })
  await events.waitUntilReady()
  await once(worker.stdout, 'data')

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
