// The public contract, "Stores": the insured store, with stores that fail in every way.
import { spawnSync } from 'node:child_process'
import { channel } from 'node:diagnostics_channel'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { InsuredQuotaStore, MemoryQuotaStore, type Acquisition, type InsuredQuotaStoreChange, type QuotaStore } from '../lib/index.js'
import { plainEnvironment } from './support/environment.js'
import { alice, analyze, captureLog, createService } from './support/service.js'

const changes = channel('fastify-llm-quota:insured-store')

const answer: Acquisition = { admitted: true, count: 77, windowRemaining: 60_000, overflow: false }

// The insured store's own timers would not keep this process waiting for them.
const alive = setInterval(() => {}, 1_000)
t.teardown(() => { clearInterval(alive) })

/** A store that does as it is told, and tells how often it was asked. */
class ToldStore implements QuotaStore {
  asked = 0
  manner: 'answers' | 'promises' | 'throws' | 'rejects' | 'hangs' | 'answers late' | 'fails late' = 'promises'

  acquire (): Acquisition | Promise<Acquisition> {
    this.asked += 1
    switch (this.manner) {
      case 'answers': return answer
      case 'promises': return Promise.resolve(answer)
      case 'throws': throw new Error('thrown')
      case 'rejects': return Promise.reject(new Error('rejected'))
      case 'hangs': return new Promise(() => {})
      case 'answers late': return sleep(60, answer)
      case 'fails late': return sleep(60).then(() => { throw new Error('too late anyway') })
    }
  }

  clearCounters (): void {}

  inspect () {
    return { trackedCallers: 77, sweeps: 0 }
  }
}

function insure (options: { timeout?: number, coolDown?: number } = {}) {
  const primary = new ToldStore()
  const fallback = new MemoryQuotaStore()
  const store = new InsuredQuotaStore({ primary, fallback, timeout: 30, coolDown: 100, ...options })
  return { primary, fallback, store }
}

t.test('the primary answers as long as it does, at once when it does', async (t) => {
  const { primary, store } = insure()
  t.equal((await store.acquire('a', 5)).count, 77)
  primary.manner = 'answers'
  t.same(store.acquire('a', 5), answer)
  t.equal(store.state, 'primary')
})

const tooLate = 'no answer within 30 ms'
const reasons = { throws: 'thrown', rejects: 'rejected', hangs: tooLate, 'answers late': tooLate, 'fails late': tooLate }

for (const manner of ['throws', 'rejects', 'hangs', 'answers late', 'fails late'] as const) {
  t.test(`a primary that ${manner}`, async (t) => {
    const { primary, store } = insure()
    const unhandled: unknown[] = []
    const listener = (reason: unknown) => { unhandled.push(reason) }
    process.on('unhandledRejection', listener)
    const published: InsuredQuotaStoreChange[] = []
    const publish = (message: unknown): void => { published.push(message as InsuredQuotaStoreChange) }
    changes.subscribe(publish)
    primary.manner = manner
    t.match(await store.acquire('a', 1), { admitted: true, count: 1 }, 'the fallback answers')
    t.equal(store.state, 'fallback')
    t.match(await store.acquire('a', 1), { admitted: false, count: 1 }, 'and meters')
    t.equal(primary.asked, 1, 'while the primary rests')

    await sleep(110)
    await Promise.all(Array.from({ length: 10 }, async () => store.acquire('b', 3)))
    t.equal(primary.asked, 2, 'after its rest one request tries it')
    t.equal(store.state, 'fallback')

    await sleep(110)
    primary.manner = 'promises'
    const [first, ...others] = await Promise.all(Array.from({ length: 10 }, async () => store.acquire('c', 3)))
    t.equal(first?.count, 77, 'the one that finds it well')
    t.ok(others.every(({ count }) => count <= 3), 'the others did not wait for it')
    t.equal(store.state, 'primary')
    t.equal((await store.acquire('a', 1)).count, 77)
    await sleep(70)
    t.same(unhandled, [])
    t.equal(store.state, 'primary', 'late answers are dropped')
    t.match(published, [{ store, state: 'fallback', error: { message: reasons[manner] } }, { store, state: 'primary', error: undefined }], 'each change is published once')
    t.equal(published.length, 2)
    changes.unsubscribe(publish)
    process.off('unhandledRejection', listener)
  })
}

t.test('many requests that fail at once are one change', async (t) => {
  const { primary, store } = insure()
  const log = captureLog()
  const app = await createService({ store, perMinute: 100 }, { logger: log.logger })
  primary.manner = 'hangs'
  const answers = await Promise.all(Array.from({ length: 50 }, () => analyze(app, alice)))
  t.ok(answers.every(({ statusCode }) => statusCode === 200))
  t.match(log.warnings(), [/primary store fails; its fallback answers/])
  t.match(log.lines.filter(({ level }) => level === 40), [{ err: { message: tooLate } }])
  primary.manner = 'promises'
  await sleep(110)
  for (let request = 0; request < 3; request++) await analyze(app, alice)
  t.match(log.warnings(), [/fails/, /answers again/])
  t.equal(log.warnings().length, 2)
  t.same(log.errors(), [])

  const other = insure()
  other.primary.manner = 'throws'
  await other.store.acquire('a', 1)
  t.equal(log.warnings().length, 2, 'another server\'s store is not this one\'s')
  await app.close()
  primary.manner = 'throws'
  await store.acquire('a', 1)
  t.equal(log.warnings().length, 2, 'a closed server logs nothing more')
})

t.test('an answer that was asked for before a change changes nothing', async (t) => {
  const { primary, store } = insure({ timeout: 200, coolDown: 10 })
  primary.manner = 'fails late'
  const slow = store.acquire('a', 5)
  primary.manner = 'throws'
  await store.acquire('a', 5)
  await sleep(20)
  primary.manner = 'answers'
  await store.acquire('a', 5)
  t.equal(store.state, 'primary')
  t.match(await slow, { admitted: true })
  t.equal(store.state, 'primary')
})

t.test('a good answer that was asked for before the primary failed does not end its rest', async (t) => {
  const { primary, store } = insure({ timeout: 200, coolDown: 1_000 })
  primary.manner = 'answers late'
  const slow = store.acquire('a', 5)
  primary.manner = 'throws'
  await store.acquire('a', 5)
  t.same(await slow, answer)
  t.equal(store.state, 'fallback')
})

t.test('a server whose store is not insured listens for no changes', async (t) => {
  const app = await createService()
  t.equal(changes.hasSubscribers, false)
  await app.close()
})

t.test('where the fallback fails as well, nothing is admitted', async (t) => {
  const [primary, fallback] = [new ToldStore(), new ToldStore()]
  primary.manner = 'rejects'
  fallback.manner = 'throws'
  const app = await createService({ store: new InsuredQuotaStore({ primary, fallback }) })
  t.equal((await analyze(app, alice)).statusCode, 503)
})

t.test('inspect asks the store that answers, and clearCounters both', async (t) => {
  const { primary, fallback, store } = insure()
  t.equal((await store.inspect()).trackedCallers, 77)
  primary.manner = 'throws'
  await store.acquire('a', 5)
  t.same(await store.inspect(), { trackedCallers: 1, sweeps: 0 })
  await store.clearCounters()
  t.same(fallback.inspect(), { trackedCallers: 0, sweeps: 0 })
})

t.test('its timers keep no process alive', async (t) => {
  const program = `
    import { InsuredQuotaStore } from 'fastify-llm-quota'
    const primary = { acquire: () => new Promise(() => {}), clearCounters () {}, inspect () {} }
    new InsuredQuotaStore({ primary, timeout: 600_000 }).acquire('a', 1)
  `
  const { status } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], { env: plainEnvironment(), timeout: 60_000 })
  t.equal(status, 0)
})

t.test('the longest time that a timer can take', async (t) => {
  t.doesNotThrow(() => new InsuredQuotaStore({ primary: new MemoryQuotaStore(), timeout: 2 ** 31 - 1, coolDown: 2 ** 31 - 1 }))
})

t.test('options that cannot be used are refused by name', async (t) => {
  const primary = new MemoryQuotaStore()
  const invalid: [object, RegExp][] = [
    [{ primary: undefined }, /option primary must be a store/],
    [{ fallback: {} }, /option fallback must be a store .* it got {}/],
    ...[0, -1, NaN, Infinity, 2 ** 31, '100'].flatMap((value): [object, RegExp][] => [
      [{ timeout: value }, /option timeout must be a number of milliseconds/],
      [{ coolDown: value }, /option coolDown must be a number of milliseconds/]
    ])
  ]
  for (const [options, message] of invalid) {
    t.throws(() => Reflect.construct(InsuredQuotaStore, [{ primary, ...options }]), { code: 'FST_ERR_LLM_QUOTA_OPTION', message })
  }
})
