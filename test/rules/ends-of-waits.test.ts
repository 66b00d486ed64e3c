// docs/rules.md, "Waiting": how a wait ends before there is room: by a limit or a store that fails,
// the host's response, a signal or a server that closes. In virtual time. Callers who leave are in
// leaving.test.ts.
import { getEventListeners } from 'node:events'
import { PassThrough } from 'node:stream'
import type { FastifyReply } from 'fastify'
import t, { type Test } from 'tap'
import { callerKey, localAuthentication, MemoryQuotaStore, type Demand } from '../../lib/index.js'
import { demand, place } from '../support/demands.js'
import { Gate } from '../support/gate.js'
import { matchExactly } from '../support/match-exactly.js'
import { until } from '../support/until.js'
import { createWaitingServer, pass, service, slots } from '../support/waiting-server.js'

type Host = Awaited<ReturnType<typeof createWaitingServer>>

/** What the store is asked for a place. */
const placeOf = (caller: string): Demand =>
  demand(callerKey(localAuthentication(caller)) ?? '', {
    ...place(1),
    counters: 'slots.concurrent'
  })

t.test('a limit that fails at the turn of a request ends its wait with 503', async (t) => {
  let limit: () => number = () => 1
  const host = await createWaitingServer(t, { calls: { perMinute: () => limit(), wait: 60_000 } })
  await host.run()
  const { response } = await host.queue()
  limit = () => {
    throw new Error('of the host')
  }
  await pass(host.time, 500)
  t.equal((await response).statusCode, 503)
  t.match(host.decisions.at(-1), { outcome: 'unavailable', reason: 'limit', waited: 500 })
})

t.test('a store that fails the first in a line refuses all who need it, at once', async (t) => {
  const failing: (() => void)[] = []
  let isDown = false
  const host = await createWaitingServer(
    t,
    { slots: slots(1, 60_000) },
    {
      wrap: (store) => ({
        ...store,
        acquire (demands) {
          if (!isDown) return store.acquire(demands)
          return new Promise((_resolve, reject) => {
            failing.push(() => reject(new Error('no answer')))
          })
        }
      })
    }
  )
  await host.run()
  const waiting = []
  for (const caller of ['bob', 'bob', 'carol', 'dave']) waiting.push(await host.queue(caller))
  isDown = true
  await pass(host.time, 500)
  t.equal(failing.length, 1)
  failing[0]?.()
  for (const { response } of waiting) {
    const { statusCode, headers } = await response
    t.match({ statusCode, headers }, { statusCode: 503, headers: { 'retry-after': '1' } })
  }
  t.equal(failing.length, 1, 'only the first has asked')
  t.equal(host.waiting(), 0)
  const refusals = host.decisions.slice(1)
  t.equal(refusals.length, 4)
  for (const each of refusals) {
    t.match(each, { outcome: 'unavailable', reason: 'store', quota: 'slots', waited: 500 })
  }
})

t.test('a store that fails refuses those in a line for whom it counts', async (t) => {
  const memory = new MemoryQuotaStore()
  let isDown = false
  const other = {
    settle: memory.settle.bind(memory),
    acquire (demands: readonly Demand[]) {
      if (isDown) throw new Error('of the other store')
      return memory.acquire(demands)
    }
  }
  const host = await createWaitingServer(t, {
    slots: slots(1, 60_000),
    calls: { perMinute: 100, wait: 50_000, store: other }
  })
  const first = await host.run()
  const both = [await host.queue('bob'), await host.queue('carol')]
  const place = host.app.quotaAcquire({ slots: service() }, 'slots')
  await until('three wait', () => host.waiting() === 3)
  isDown = true
  first.finish()
  for (const { response } of both) t.equal((await response).statusCode, 503)
  t.equal((await place).refusal, null)
  matchExactly(t, host.decisions.slice(-3), [
    { outcome: 'unavailable', reason: 'store', quota: 'calls' },
    { outcome: 'unavailable', reason: 'store', quota: 'calls' },
    { outcome: 'admitted', quota: 'slots' }
  ])
})

t.test('forty in line get 503 when the server closes, as who comes then', async (t) => {
  let goOn = (): void => {}
  const host = await createWaitingServer(
    t,
    { slots: slots(1, { timeout: 300_000, queue: 40 }) },
    {
      rateLimitHeaders: 'draft-10',
      declare (app) {
        app.addHook('preClose', async () =>
          new Promise<void>((resolve) => {
            goOn = resolve
          })
        )
      }
    }
  )
  await host.run('zoe')
  const responses = []
  for (let request = 0; request < 40; request++) responses.push(host.ask(`${request % 10}`))
  await until('all wait', () => host.waiting() === 40)
  const closed = host.app.close()
  await until('nobody waits', () => host.waiting() === 0)
  const late = await host.app.quotaAcquire({ slots: service() }, 'slots')
  t.match(late.refusal, { outcome: 'unavailable', reason: 'closing', quota: 'slots' })
  const received = new Set<string>()
  for (const response of responses) {
    const { statusCode, headers, body } = await response
    received.add(`${statusCode} ${headers['retry-after']} ${headers.ratelimit} ${body}`)
  }
  t.same(
    [...received],
    ['503 1 undefined {"error":"The request quota is unavailable. Please try again.","status":503}']
  )
  const reasons = host.decisions.map(({ reason }) => reason)
  t.same(reasons.slice(1), Array.from({ length: 41 }, () => 'closing'))
  goOn()
  await closed
})

/** Has a request of bob wait for the slot that one of alice has; the replies are in their order. */
async function waitForSlot (t: Test) {
  const replies: FastifyReply[] = []
  const host = await createWaitingServer(
    t,
    { slots: slots(1, 1000) },
    {
      declare (app) {
        app.addHook('onRequest', (_request, reply, done) => {
          replies.push(reply)
          done()
        })
      }
    }
  )
  const first = await host.run('alice')
  const { response } = await host.queue('bob')
  return { host, first, response, replies }
}

t.test('a response that the host sends ends a wait, and counts nothing', async (t) => {
  const { host, first, response, replies } = await waitForSlot(t)
  replies.at(-1)?.code(504).send('too late')
  t.equal((await response).statusCode, 504)
  await until('nobody waits', () => host.waiting() === 0)
  first.finish()
  await first.response
  t.equal(host.decisions.length, 1)
  t.equal(host.running.length, 1)
  t.match(await host.store.peek?.(placeOf('service')), { count: 0 })
})

t.test('a request asks nothing at its turn if the host has begun to respond', async (t) => {
  const { host, first, response, replies } = await waitForSlot(t)
  const body = new PassThrough()
  const reply = replies.at(-1)
  body.write('too ')
  reply?.code(504).send(body)
  await until('the response has begun', () => reply?.raw.headersSent === true)
  t.equal(host.waiting(), 1)
  host.asked.length = 0
  first.finish()
  await until('nobody waits', () => host.waiting() === 0)
  t.same(host.asked, [])
  body.end('late')
  t.match(await response, { statusCode: 504, body: 'too late' })
  t.equal(host.decisions.length, 1)
})

t.test('a signal ends a wait with its reason, and counts nothing', async (t) => {
  const host = await createWaitingServer(t, { slots: slots(1, 1000) })
  const { app } = host
  const acquire = (signal: AbortSignal) =>
    app.quotaAcquire({ slots: service() }, 'slots', { signal })
  const reason = new Error('the user has stopped it')
  await t.rejects(acquire(AbortSignal.abort(reason)), reason)
  const controller = new AbortController()
  const permit = await acquire(controller.signal)
  const stopped = new AbortController()
  const waiting = acquire(stopped.signal)
  await until('a request waits', () => host.waiting() === 1)
  stopped.abort(reason)
  await t.rejects(waiting, reason)
  t.equal(host.waiting(), 0)
  // A permit that was admitted is no longer the signal's.
  controller.abort()
  t.equal(permit.refusal, null)
  await permit.end()
  t.match(await host.store.peek?.(placeOf('service')), { count: 0 })
  t.equal(host.decisions.length, 1)
})

t.test('waits that share a signal share one listener, which goes with the last one', async (t) => {
  const { app, waiting } = await createWaitingServer(t, { slots: slots(1, 1000) })
  const first = await app.quotaAcquire({ slots: service() }, 'slots')
  const stopped = new AbortController()
  const { signal } = stopped
  const acquire = () => app.quotaAcquire({ slots: service() }, 'slots', { signal })
  const one = acquire()
  const others = Array.from({ length: 11 }, acquire)
  await until('all wait', () => waiting() === 12)
  t.equal(getEventListeners(signal, 'abort').length, 1)
  await first.end()
  const admitted = await one
  stopped.abort()
  for (const each of others) await t.rejects(each, { name: 'AbortError' })
  await admitted.end()
  t.equal(getEventListeners(signal, 'abort').length, 0)
})

t.test('a signal that is aborted while the store is first asked ends the wait', async (t) => {
  const gate = new Gate()
  const host = await createWaitingServer(t, { slots: slots(1, 1000) }, { wrap: gate.wrap })
  await host.run('alice')
  const stopped = new AbortController()
  gate.close()
  const acquiring = host.app.quotaAcquire({ slots: service() }, 'slots', { signal: stopped.signal })
  const ended = t.rejects(acquiring, { name: 'AbortError' })
  await until('it asks the store', () => gate.asking === 1)
  stopped.abort()
  gate.open()
  await until('its wait has ended', () => host.seconds.length === 1)
  await ended
  t.same(host.seconds, [0])
})

// How a wait ends while the store is asked, and what the host gets.
type End = (host: Host, stopped: AbortController) => unknown
const ends: [how: string, end: End, what: string][] = [
  ['its signal is aborted', (_host, stopped) => stopped.abort(), 'AbortError'],
  ['the server closes', ({ app }) => app.close(), 'closing']
]
for (const [how, end, what] of ends) {
  t.test(`what is counted for a request is given back if, while it asks, ${how}`, async (t) => {
    const gate = new Gate()
    const host = await createWaitingServer(
      t,
      { off: { perDay: 0 }, calls: { perMinute: 1, wait: 60_000 }, slots: slots(1, 60_000) },
      { wrap: gate.wrap }
    )
    const first = await host.run('alice')
    const stopped = new AbortController()
    const bob = localAuthentication('bob')
    const callers = { off: bob, calls: bob, slots: service() }
    const names = ['off', 'calls', 'slots']
    const waiting = host.app.quotaAcquire(callers, names, { signal: stopped.signal }).then(
      ({ refusal }) => refusal?.reason,
      ({ name }) => name
    )
    await until('a request waits', () => host.waiting() === 1)
    gate.close()
    first.finish()
    await until('it asks the store', () => gate.asking === 1)
    const ending = end(host, stopped)
    t.equal(await waiting, what)
    const before = host.decisions.length
    gate.open()
    await ending
    await until('all is given back', async () => {
      const places = await host.store.peek?.(placeOf('service'))
      const ofBob = { ...placeOf('bob'), counters: 'calls.requests.minute', window: 60_000 }
      const calls = await host.store.peek?.(ofBob)
      return places?.count === 0 && calls?.count === 0
    })
    t.equal(host.decisions.length, before)
    t.same(host.log.failures(), [])
  })
}

t.test('a request that is rejected after its wait has ended gives nothing back', async (t) => {
  const gate = new Gate()
  let settlements = 0
  const host = await createWaitingServer(
    t,
    { slots: slots(1, 60_000) },
    {
      wrap: (store) => ({
        ...gate.wrap(store),
        settle (...given) {
          settlements += 1
          return store.settle?.(...given)
        }
      })
    }
  )
  const first = await host.run('alice')
  const stopped = new AbortController()
  const { signal } = stopped
  const waiting = host.app.quotaAcquire({ slots: service() }, 'slots', { signal })
  await until('a request waits', () => host.waiting() === 1)
  const other = await host.queue('bob')
  gate.close()
  await pass(host.time, 500)
  t.equal(gate.asking, 1)
  stopped.abort()
  await t.rejects(waiting, { name: 'AbortError' })
  gate.open()
  first.finish()
  await until('the other one runs', () => host.running.length === 2)
  t.equal(settlements, 1, 'that of the first')
  host.running[1]?.finish()
  t.equal((await other.response).statusCode, 200)
})

t.test('a request whose wait ends while its limit is read asks no store', async (t) => {
  const reading: (() => void)[] = []
  let isSlow = false
  const concurrent = async (): Promise<number> => {
    if (!isSlow) return 1
    await new Promise<void>((resolve) => {
      reading.push(resolve)
    })
    return 1
  }
  const host = await createWaitingServer(t, {
    slots: { concurrent, authentication: service, wait: 60_000 }
  })
  const first = await host.run('alice')
  const stopped = new AbortController()
  const { signal } = stopped
  const waiting = host.app.quotaAcquire({ slots: service() }, 'slots', { signal })
  await until('a request waits', () => host.waiting() === 1)
  await host.queue('bob')
  host.asked.length = 0
  isSlow = true
  first.finish()
  await until('its limit is read', () => reading.length === 1)
  stopped.abort()
  await t.rejects(waiting, { name: 'AbortError' })
  isSlow = false
  reading[0]?.()
  await until('the other one runs', () => host.running.length === 2)
  t.equal(host.asked.length, 1, 'the other one has asked')
  t.same(host.log.failures(), [])
})

for (const isAdmitted of [true, false]) {
  const says = isAdmitted ? 'admits' : 'rejects'
  t.test(`a wait ends with its time while a store is asked, which then ${says}`, async (t) => {
    const gate = new Gate()
    const host = await createWaitingServer(t, { slots: slots(1, 1000) }, { wrap: gate.wrap })
    const first = await host.run('alice')
    const { response } = await host.queue('bob')
    await pass(host.time, 400)
    gate.close()
    if (isAdmitted) first.finish()
    await pass(host.time, 600)
    t.equal(gate.asking, 1)
    t.equal((await response).statusCode, 429)
    matchExactly(t, host.decisions.slice(1), [{ outcome: 'rejected', waited: 1000 }])
    t.equal(host.waiting(), 0)
    gate.open()
    await until('nothing is counted for it', async () => {
      const standing = await host.app.quotaStanding(service(), 'slots')
      return standing?.count === (isAdmitted ? 0 : 1)
    })
    t.same([host.decisions.length, host.running.length], [2, 1])
  })
}

t.test('a request whose store cannot give back is decided on as the store says', async (t) => {
  const gate = new Gate()
  const host = await createWaitingServer(
    t,
    { calls: { limit: 1, window: 1000, wait: 1200 } },
    { wrap: (store) => ({ acquire: gate.wrap(store).acquire }) }
  )
  await host.run('alice')
  const { response } = await host.queue('alice')
  await pass(host.time, 900)
  gate.close()
  await pass(host.time, 500)
  t.same([gate.asking, host.waiting()], [1, 1])
  gate.open()
  await until('it runs', () => host.running.length === 2)
  matchExactly(t, host.decisions.slice(1), [{ outcome: 'admitted', waited: 1400 }])
  for (const { finish } of host.running) finish()
  t.equal((await response).statusCode, 200)
})
