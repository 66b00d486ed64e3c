// docs/rules.md, "Several quotas": the plugin with several quotas of every kind, compared step by step with an independent model.
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import Fastify, { type FastifyRequest } from 'fastify'
import t from 'tap'
import quotaPlugin, { MemoryQuotaStore, type LimitName, type QuotaStore } from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { assertProperty } from '../support/property.js'
import { QuotasModel, type ModelQuota, type ModelRequest } from '../support/quotas-model.js'
import { fromHeader, fromOrganisation } from '../support/quota-host.js'

const walks = Number(process.env.RANDOM_WALKS ?? 12)
const stepsPerWalk = 500

const names = ['default', 'one', 'two', 'three'] as const
const limitNames: readonly LimitName[] = ['perMinute', 'perHour', 'perDay', 'tokensPerMinute', 'tokensPerHour', 'tokensPerDay', 'inFlight']
const definition = fc.record({
  limitName: fc.constantFrom(...limitNames, 'inFlight' as const),
  limit: fc.integer({ min: 0, max: 6 }),
  isEnforced: fc.constantFrom(true, true, true, false),
  isOfOrganisation: fc.boolean(),
  unreportedTokens: fc.constantFrom(0, 2)
})
const step = fc.oneof(
  { weight: 10, arbitrary: fc.record({ kind: fc.constant('request' as const), quotas: fc.subarray([...names]), user: fc.constantFrom('alice', 'alice', 'bob', 'bob', 'bob', ''), organisation: fc.constantFrom('acme', 'acme', 'acme', undefined), isHeld: fc.boolean() }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('finish' as const), which: fc.nat() }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('charge' as const), which: fc.nat(), tokens: fc.integer({ min: 0, max: 3 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('pause' as const), gap: fc.constantFrom(0, 1, 30_000, 59_999, 60_000, 3_540_000, 3_600_000, 86_400_000) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('limit' as const), quota: fc.constantFrom(...names), limit: fc.integer({ min: -1, max: 6 }) }) }
)
const walk = fc.record({
  first: definition.map((made) => ({ ...made, limitName: 'perMinute' as const, isOfOrganisation: false, unreportedTokens: 0 })),
  others: fc.array(definition, { minLength: 3, maxLength: 3 }),
  isAsynchronous: fc.boolean(),
  steps: fc.array(step, { minLength: stepsPerWalk, maxLength: stepsPerWalk, size: 'max' })
})

/** The same store, whose answers come with promises. */
function asynchronous (store: MemoryQuotaStore): QuotaStore {
  return {
    acquire: async (...asked) => store.acquire(...asked),
    quota: (name, window) => asynchronous(store.quota(name, window)),
    enter: async (...asked) => store.enter(...asked),
    peek: async (callerKey) => store.peek(callerKey)
  }
}

type Walk = typeof walk extends fc.Arbitrary<infer Made> ? Made : never

/** A host with the quotas of a walk, and the same quotas for the model. */
async function createHost ({ first, others, isAsynchronous }: Walk) {
  const clock = new VirtualClock()
  const defined = [first, ...others].map((made, index) => ({ ...made, name: names[index] ?? 'default' }))
  const preferences = new Map<string, number>()
  const memory = new MemoryQuotaStore({ clock: clock.now })
  const app = Fastify()
  await app.register(quotaPlugin, {
    operations: [],
    preferences,
    authentication: fromHeader,
    mode: first.isEnforced ? 'enforce' : 'shadow',
    perMinute: first.limit,
    store: isAsynchronous ? asynchronous(memory) : memory,
    quotas: Object.fromEntries(defined.slice(1).map(({ name, limitName, limit, isEnforced, isOfOrganisation, unreportedTokens }) => [name, {
      [limitName]: limit,
      mode: isEnforced ? 'enforce' as const : 'shadow' as const,
      authentication: isOfOrganisation ? fromOrganisation : fromHeader,
      ...(limitName.startsWith('tokens') && { unreportedTokens })
    }]))
  })
  const running = new Map<string, () => void>()
  const requests = new Map<string, FastifyRequest>()
  app.post('/', { config: { quota: ({ headers }) => String(headers['x-quotas']).split(',').filter((name) => name !== '') } }, async (request) => {
    const id = String(request.headers['x-id'])
    if (request.headers['x-held'] === 'yes') await new Promise<void>((resolve) => { running.set(id, resolve) })
    return 'ran'
  })
  const decided = new Map<string, () => void>()
  app.addHook('onRequest', async (request) => { requests.set(String(request.headers['x-id']), request) })
  app.addHook('preHandler', async ({ headers }) => { decided.get(String(headers['x-id']))?.() })
  app.addHook('onSend', async ({ headers }) => { decided.get(String(headers['x-id']))?.() })
  await app.ready()
  const quotas: ModelQuota[] = defined.map(({ name, limitName, isEnforced, unreportedTokens, limit }) => ({ name, limitName, isEnforced, unreportedTokens: limitName.startsWith('tokens') ? unreportedTokens : 0, limit }))
  const callersOf = (asked: readonly string[], user: string, organisation: string | undefined) => new Map(defined.filter(({ name }) => asked.includes(name)).map(({ name, isOfOrganisation }) => [name, isOfOrganisation ? organisation ?? null : user === '' ? null : user]))
  /** Sends a request; resolves with its end when it is decided. */
  const send = async (id: string, headers: Record<string, string>): Promise<{ end: Promise<{ statusCode: number }> }> => {
    const isDecided = new Promise<void>((resolve) => { decided.set(id, resolve) })
    const end = app.inject({ method: 'POST', url: '/', headers: { ...headers, 'x-id': id } }).then((response) => response)
    await isDecided
    return { end }
  }
  return { app, clock, preferences, quotas, running, requests, callersOf, send }
}

t.test(`several quotas decide as the model does, in ${walks * stepsPerWalk} random steps`, async (t) => {
  const seen = { admitted: 0, rejected: 0, unauthenticated: 0, charged: 0, finished: 0 }
  await assertProperty(fc.asyncProperty(walk, async (made) => {
    const { app, clock, preferences, quotas, running, requests, callersOf, send } = await createHost(made)
    const model = new QuotasModel(quotas)
    const sent: { id: string, request: ModelRequest, end: Promise<unknown>, isOpen: boolean }[] = []

    const finish = async (each: typeof sent[number]): Promise<void> => {
      if (!each.isOpen) return
      each.isOpen = false
      running.get(each.id)?.()
      await each.end
      await new Promise(setImmediate)
      model.close(clock.now(), each.request)
      seen.finished += 1
    }

    for (const [index, step] of made.steps.entries()) {
      if (step.kind === 'pause') {
        clock.advance(step.gap)
      } else if (step.kind === 'limit') {
        const quota = quotas.find(({ name }) => name === step.quota)
        if (quota === undefined) continue
        const key = quota.limitName === 'inFlight' ? 'in-flight' : quota.limitName.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
        preferences.set(['rate-limit', ...(quota.name === 'default' ? [] : [quota.name]), key].join('.'), step.limit)
        quota.limit = step.limit < 0 ? 1 : step.limit
      } else if (step.kind === 'request') {
        const id = String(index)
        const headers = { 'x-quotas': step.quotas.join(), 'x-caller': step.user, ...(step.organisation !== undefined && { 'x-organisation': step.organisation }), 'x-held': step.isHeld ? 'yes' : 'no' }
        const expected = model.request(clock.now(), callersOf(step.quotas, step.user, step.organisation))
        const { end } = await send(id, headers)
        const decisions = requests.get(id)?.quotaDecisions.map(({ quota, outcome, limit, count, windowRemaining }) => ({ quota, outcome, limit, count, windowRemaining }))
        deepStrictEqual(decisions, expected.decisions)
        const [decision] = expected.decisions
        const each = { id, request: expected, end, isOpen: true }
        sent.push(each)
        if (!expected.isAdmitted || !step.isHeld) {
          const { statusCode } = await end
          deepStrictEqual(statusCode, expected.isAdmitted ? 200 : decision?.outcome === 'rejected' ? 429 : 401)
          await finish(each)
        }
        seen[expected.isAdmitted ? 'admitted' : decision?.outcome === 'rejected' ? 'rejected' : 'unauthenticated'] += 1
      } else {
        const recent = sent.slice(-20)
        const each = recent[step.which % Math.max(1, recent.length)]
        const request = each === undefined ? undefined : requests.get(each.id)
        if (each === undefined || request === undefined) continue
        if (step.kind === 'finish') {
          await finish(each)
        } else {
          await app.quotaCharge(request, step.tokens)
          model.charge(clock.now(), each.request, step.tokens)
          seen.charged += each.request.accounts.size
        }
      }
      if (index % 10 === 0) {
        const request = Object({ headers: { 'x-caller': 'alice', 'x-organisation': 'acme' }, log: app.log })
        for (const [name, caller] of callersOf(names, 'alice', 'acme')) deepStrictEqual((await app.quotaStanding(request, name))?.count, model.count(clock.now(), name, String(caller)), name)
      }
    }
    for (const each of sent) await finish(each)
    await app.close()
  }), { numRuns: walks, endOnFailure: true })
  t.comment(JSON.stringify(seen))
  t.ok(Object.values(seen).every((count) => count > walks), 'every kind of step was taken often')
})
