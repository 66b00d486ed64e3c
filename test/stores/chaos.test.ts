// A short run of `npm run chaos`: two instances share a real server, with faults in an order that depends on a seed.
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { runChaos } from '../../chaos/chaos.js'
import { FaultyProxy } from '../../chaos/faulty-proxy.js'

t.test('no caller is admitted more often than one limit for each store that decided, whatever fails', async (t) => {
  const failures = await runChaos({
    seed: 4,
    seconds: 12,
    client: 'ioredis',
    // Two and a half times the limit of the command, because other tests run at the same time.
    backWithin: 5_000,
    log: (line) => { t.comment(line) }
  })
  t.same(failures, [])
})

t.test('the error for an unknown fault lists the faults that exist', async (t) => {
  await t.rejects(runChaos({ seed: 1, seconds: 1, client: 'ioredis', faults: ['earthquake'], log: () => {} }), /there are these faults: kill, .*freeze/)
})

// Replies in a different order would belong to other commands, so a caller would get another caller's answer.
t.test('delayed replies keep their order', async (t) => {
  const replies = Array.from({ length: 2_000 }, (_, number) => `reply ${number}\n`)
  const server = createServer(async (socket) => {
    socket.setNoDelay()
    for (const reply of replies) {
      socket.write(reply)
      await turn()
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const proxy = await FaultyProxy.start(typeof address === 'object' && address !== null ? address.port : 0)
  t.teardown(async () => {
    await proxy.stop()
    server.close()
  })
  proxy.delay(() => 20 + Math.random() * 60)
  let received = ''
  const client = connect(proxy.port, '127.0.0.1')
  client.on('data', (chunk) => { received += String(chunk) })
  while (received.length < replies.join('').length) await once(client, 'data')
  client.destroy()
  t.equal(received, replies.join(''))
})
