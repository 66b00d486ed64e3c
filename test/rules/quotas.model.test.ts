// docs/rules.md, "Several quotas" and "Costs": random hosts with quotas of every kind, compared
// with an independent model.
import { deepStrictEqual } from 'node:assert/strict'
import Fastify, { type FastifyRequest } from 'fastify'
import t from 'tap'
import quotaPlugin, {
  callerKey,
  localAuthentication,
  MemoryQuotaStore,
  type QuotaDefinition,
  type QuotaPermit,
  type QuotaStore
} from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { seed as firstSeed } from '../support/property.js'
import { fromHeader, fromOrganisation } from '../support/quota-host.js'
import {
  QuotasModel,
  type Asked,
  type ModelPermit,
  type ModelQuota
} from '../support/quotas-model.js'
import { Random } from '../../chaos/random.js'

const walks = Number(process.env.RANDOM_WALKS ?? 12)
const stepsPerWalk = 500

const names = ['default', 'one', 'two', 'three', 'four']
const kinds = {
  perMinute: ['minute', 'per-minute'],
  perHour: ['hour', 'per-hour'],
  perDay: ['day', 'per-day'],
  perMonth: ['month', 'per-month'],
  inFlight: [null, 'in-flight']
} as const
const zones = { UTC: 0, 'Etc/GMT-5': 5, 'Etc/GMT+9': -9 }
const gaps = [
  0,
  1,
  30_000,
  59_999,
  60_000,
  3_540_000,
  3_600_000,
  40_000_000,
  86_400_000,
  15 * 86_400_000
]
const invalid = [-1, 1.5, NaN]

/** A random quota: its definition, and the same for the model. */
function randomQuota (random: Random, name: string) {
  const isDefault = name === 'default'
  const limitName = isDefault
    ? 'perMinute'
    : random.pick(['perMinute', 'perMinute', 'perHour', 'perDay', 'perMonth', 'inFlight'] as const)
  const [period, key] = kinds[limitName]
  const unit =
    period === null
      ? 'requests-in-flight'
      : isDefault
        ? 'requests'
        : random.pick(['requests', 'tokens', 'tokens', 'dollars'])
  const [zoneOrNone, anyZone] = [
    random.pick([null, ...Object.keys(zones)]),
    random.pick(Object.keys(zones))
  ]
  const zone = limitName === 'perDay' ? zoneOrNone : limitName === 'perMonth' ? anyZone : null
  const limit = random.integer(0, period === null ? 3 : 12)
  const isEnforced = random.integer(1, 4) > 1
  const isOfOrganisation = !isDefault && random.integer(0, 1) === 1
  const cost =
    isDefault || period === null
      ? null
      : random.pick([null, 'of the request', random.integer(0, 8)])
  const unreported =
    unit === 'requests' || period === null
      ? null
      : random.pick([null, 'fails', random.integer(0, 8)])
  const model: ModelQuota = {
    name,
    unit,
    period,
    limit,
    isEnforced,
    offset: zone === null ? null : Number(Reflect.get(zones, zone)),
    unreported: typeof unreported === 'number' ? unreported : undefined
  }
  const definition = {
    [limitName]: unit.startsWith('requests') ? limit : { [unit]: limit },
    mode: isEnforced ? 'enforce' : 'shadow',
    authentication: isOfOrganisation ? fromOrganisation : fromHeader,
    timeZone: zone ?? undefined,
    cost:
      typeof cost === 'string'
        ? ({ headers }: FastifyRequest) => Number(headers['x-cost'])
        : (cost ?? undefined),
    unreported:
      typeof unreported === 'string'
        ? () => {
            throw new Error('of the host')
          }
        : (unreported ?? undefined)
  } as QuotaDefinition
  const fixedCost =
    typeof cost === 'string' ? null : (cost ?? (unit.startsWith('requests') ? 1 : 0))
  return {
    model,
    definition,
    key: ['rate-limit', ...(isDefault ? [] : [name]), key].join('.'),
    isOfOrganisation,
    fixedCost
  }
}

/** The same store, whose results are promises. */
function asynchronous (store: MemoryQuotaStore): QuotaStore {
  return {
    acquire: async (demands) => store.acquire(demands),
    release: async (acquisition, amount) => {
      store.release(acquisition, amount)
    },
    peek: async (demand) => store.peek(demand),
    forget: async (caller, counters) => {
      store.forget(caller, counters)
    }
  }
}

interface Sent {
  readonly id: string
  readonly request: FastifyRequest
  readonly user: string
  readonly organisation: string
  readonly cost: number | null
  end: () => Promise<void>
}
interface Issued {
  readonly sent: Sent
  readonly expected: ModelPermit
  readonly permit: QuotaPermit | null
  readonly isFollowed: boolean
}

async function walk (random: Random, seen: Record<string, number>): Promise<void> {
  const clock = new VirtualClock()
  const epoch = Date.UTC(2026, random.integer(0, 11), random.integer(1, 31))
  let drift = 0
  Date.now = () => epoch + drift + clock.now()
  const now = () => ({ now: clock.now(), date: Date.now() })
  const inMemory = () => new MemoryQuotaStore({ clock: clock.now })
  const store = () => (random.integer(0, 1) === 1 ? inMemory() : asynchronous(inMemory()))
  const defined = names.map((name) => randomQuota(random, name))
  const [first] = defined
  const preferences = new Map<string, number>()
  const other = store()
  const app = Fastify()
  await app.register(quotaPlugin, {
    operations: [],
    preferences,
    authentication: fromHeader,
    mode: first?.model.isEnforced === true ? 'enforce' : 'shadow',
    perMinute: first?.model.limit ?? 0,
    store: store(),
    quotas: Object.fromEntries(
      defined
        .slice(1)
        .map(({ model, definition }) => [
          model.name,
          random.integer(1, 3) === 1 ? { ...definition, store: other } : definition
        ])
    )
  })
  const handling = new Map<
    string,
    { decided: (request: FastifyRequest) => void; finished: Promise<void> }
  >()
  const of = ({ headers }: FastifyRequest) => handling.get(String(headers['x-id']))
  app.post(
    '/',
    {
      config: {
        quota: ({ headers }) =>
          String(headers['x-quotas'])
            .split(',')
            .filter((name) => name !== '')
      }
    },
    async (request) => {
      of(request)?.decided(request)
      await of(request)?.finished
    }
  )
  app.addHook('onSend', async (request) => {
    of(request)?.decided(request)
  })
  await app.ready()
  const model = new QuotasModel()
  const all: Issued[] = []

  const askedOf = (
    chosen: readonly string[],
    user: string,
    organisation: string,
    cost: number | null,
    given?: Record<string, number>
  ): Asked[] =>
    defined
      .filter(({ model }) => chosen.includes(model.name))
      .map(({ model: quota, isOfOrganisation, fixedCost }) => ({
        quota,
        caller: (isOfOrganisation ? organisation : user) || null,
        cost: given?.[quota.name] ?? fixedCost ?? cost
      }))
  const shown = (decisions: readonly object[]) =>
    decisions.map((decision) =>
      Object.fromEntries(
        ['quota', 'unit', 'enforced', 'outcome', 'limit', 'count', 'windowRemaining'].map(
          (name) => [name, Reflect.get(decision, name)]
        )
      )
    )
  const note = ({ isAdmitted, decisions: [decision] }: ModelPermit): void => {
    const kind = isAdmitted ? 'admitted' : String(decision?.outcome)
    seen[kind] = Number(seen[kind]) + 1
  }

  async function request (id: string): Promise<void> {
    const chosen = names.filter(() => random.integer(0, 1) === 1)
    const [user, organisation] = [
      random.pick(['alice', 'alice', 'bob', 'bob', 'bob', 'bob', '']),
      random.pick(['acme', 'acme', 'acme', 'acme', ''])
    ]
    const cost = random.integer(1, 15) === 1 ? null : random.integer(0, 8)
    const expected = model.decide(now(), askedOf(chosen, user, organisation, cost))
    let finish = (): void => {}
    const finished = new Promise<void>((resolve) => {
      finish = resolve
    })
    let response: Promise<{ statusCode: number }> | undefined
    const decided = await new Promise<FastifyRequest>((resolve) => {
      handling.set(id, { decided: resolve, finished })
      const headers = {
        'x-id': id,
        'x-quotas': chosen.join(),
        'x-caller': user,
        'x-cost': String(cost),
        ...(organisation !== '' && { 'x-organisation': organisation })
      }
      response = app.inject({ method: 'POST', url: '/', headers }).then((response) => response)
    })
    deepStrictEqual(shown(decided.quotaDecisions), shown(expected.decisions))
    note(expected)
    const end = async (): Promise<void> => {
      sent.end = async () => {}
      finish()
      const refused = {
        rejected: 429,
        unauthenticated: 401,
        unavailable: 503,
        admitted: 0,
        disabled: 0
      }
      deepStrictEqual(
        (await response)?.statusCode,
        expected.isAdmitted ? 200 : refused[expected.decisions[0]?.outcome ?? 'admitted']
      )
      await new Promise(setImmediate)
      for (const issued of all) {
        if (issued.sent === sent && issued.isFollowed) model.end(now(), issued.expected)
      }
    }
    const sent: Sent = { id, request: decided, user, organisation, cost, end }
    all.push({ sent, expected, permit: null, isFollowed: true })
    if (!expected.isAdmitted || random.integer(0, 1) === 1) await sent.end()
  }

  async function acquire ({ sent }: Issued): Promise<void> {
    const chosen = names.filter(() => random.integer(0, 1) === 1)
    if (chosen.length === 0) return
    const costed = defined.filter(
      ({ model }) =>
        chosen.includes(model.name) && model.period !== null && random.integer(0, 3) === 0
    )
    const given = Object.fromEntries(costed.map(({ model }) => [model.name, random.integer(0, 8)]))
    const expected = model.decide(
      now(),
      askedOf(chosen, sent.user, sent.organisation, sent.cost, given)
    )
    const isFollowed = !sent.request.raw.destroyed
    const permit = await app.quotaAcquire(sent.request, random.shuffle(chosen), given)
    deepStrictEqual(
      [shown(permit.decisions), permit.refusal === null],
      [shown(expected.decisions), expected.isAdmitted]
    )
    note(expected)
    all.push({ sent, expected, permit, isFollowed })
  }

  async function charge ({ sent, expected, permit }: Issued): Promise<void> {
    const amounts = Object.fromEntries(
      ['tokens', 'dollars']
        .filter(() => random.integer(0, 2) > 0)
        .map((unit) => [unit, random.integer(0, 8)])
    )
    const given =
      random.integer(0, 4) === 0
        ? Number(amounts.tokens ?? random.pick(invalid))
        : random.integer(0, 9) === 0
          ? { ...amounts, tokens: random.pick(invalid) }
          : amounts
    await (permit === null ? app.quotaCharge(sent.request, given) : permit.charge(given))
    const valid = Object.entries(typeof given === 'number' ? { tokens: given } : given).filter(
      ([, amount]) => Number.isInteger(amount) && amount >= 0
    )
    model.charge(now(), expected, Object.fromEntries(valid))
    seen.charged = Number(seen.charged) + expected.accounts.length
  }

  for (let index = 0; index < stepsPerWalk; index++) {
    const recent = all.slice(-20)
    const one = random.integer(1, 40)
    if (one <= 14 || recent.length === 0) {
      await request(String(index))
    } else if (one <= 19) {
      await acquire(random.pick(recent))
    } else if (one <= 25) {
      const { sent, permit, expected } = random.pick(recent)
      if (permit === null) await sent.end()
      else {
        await Promise.all([permit.end(), permit.end()]).then(() => {
          model.end(now(), expected)
        })
      }
    } else if (one <= 33) {
      await charge(random.pick(recent))
    } else if (one <= 36) {
      clock.advance(random.pick(gaps))
    } else if (one === 37) {
      drift = random.pick([-3_600_000, 0, 3_600_000])
    } else if (one === 38) {
      const { model: quota, key } = random.pick(defined)
      preferences.set(key, random.integer(-1, 12))
      quota.limit = Math.abs(Number(preferences.get(key)))
    } else if (one === 39) {
      const caller = random.pick(['alice', 'acme'])
      await app.quotaForget(String(callerKey(localAuthentication(caller))))
      for (const { model: quota } of defined) model.forget(quota, caller)
    }
    const peeked = Object({
      headers: { 'x-caller': 'alice', 'x-organisation': 'acme' },
      log: app.log
    })
    for (const { quota, caller } of index % 10 === 0 ? askedOf(names, 'alice', 'acme', 0) : []) {
      deepStrictEqual(
        (await app.quotaStanding(peeked, quota.name))?.count,
        model.count(now(), quota, String(caller)),
        quota.name
      )
    }
  }
  for (const { sent, permit } of all) await Promise.all([sent.end(), permit?.end()])
  await app.close()
}

t.test(
  `several quotas decide and count as the model does, in ${walks * stepsPerWalk} random steps`,
  async (t) => {
    const { now } = Date
    t.teardown(() => {
      Date.now = now
    })
    const seen = { admitted: 0, rejected: 0, unauthenticated: 0, unavailable: 0, charged: 0 }
    for (let seed = firstSeed; seed < firstSeed + walks; seed++) {
      try {
        await walk(new Random(seed), seen)
      } catch (error) {
        t.fail(`FC_SEED=${seed} RANDOM_WALKS=1 replays the failure`)
        throw error
      }
    }
    t.comment(JSON.stringify(seen))
    t.ok(
      Object.values(seen).every((count) => count > walks),
      'every kind of step was taken often'
    )
  }
)
