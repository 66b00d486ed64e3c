// docs/rules.md, "Several quotas", "Costs" and "Permits in a handler": random hosts with quotas of
// every kind, compared with an independent model.
import { deepStrictEqual } from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import t from 'tap'
import quotaPlugin, {
  callerKey,
  localAuthentication,
  MemoryQuotaStore,
  quotaSettlements,
  type Amounts,
  type Authentication,
  type Cost,
  type QuotaDecision,
  type QuotaDefinition,
  type QuotaPermit,
  type QuotaStore
} from '../../lib/index.js'
import { VirtualClock } from '../../lib/testing.js'
import { asynchronous } from '../support/asynchronous.js'
import { seed as firstSeed } from '../support/property.js'
import { fromHeader, fromOrganisation } from '../support/quota-host.js'
import {
  QuotasModel,
  type Asked,
  type ModelDecision,
  type ModelPermit,
  type ModelQuota,
  type ModelRange,
  type ModelStore
} from '../support/quotas-model.js'
import { Random } from '../../chaos/random.js'

const walks = Number(process.env.RANDOM_WALKS ?? 5)
const stepsPerWalk = 200

const names = ['default', 'one', 'two', 'three', 'four']
const users = ['alice', 'bob']
const organisations = ['acme']
const kinds = {
  perMinute: ['minute', 'per-minute'],
  perHour: ['hour', 'per-hour'],
  perDay: ['day', 'per-day'],
  perMonth: ['month', 'per-month'],
  concurrent: [null, 'concurrent']
} as const
const limitNames = [
  'perMinute',
  'perMinute',
  'perHour',
  'perDay',
  'perMonth',
  'concurrent'
] as const
const zones: Record<string, number> = { UTC: 0, 'Etc/GMT-5': 5, 'Etc/GMT+9': -9 }
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

function fails (): never {
  throw new Error('of the host')
}

/** A random cost, also as the model sees it: in requests, a number. */
function randomCost (random: Random, unit: string): Cost {
  const least = random.integer(0, 6)
  if (unit === 'requests' || random.integer(0, 2) === 0) return least
  return { least, most: least + random.integer(0, 6) }
}

function rangeOf (cost: Cost): ModelRange {
  return typeof cost === 'number' ? { least: cost, most: cost } : cost
}

/** A random quota: its definition, and the same for the model. */
interface RandomQuota {
  readonly model: ModelQuota
  readonly definition: QuotaDefinition
  /** The preference that holds its limit. */
  readonly key: string
  readonly isOfOrganisation: boolean
  /** What a request counts; null if its header says so. */
  readonly cost: ModelRange | null
  /** The time zone of each caller, which can change; null if all have the same. */
  readonly ofCallers: Map<string, string> | null
}

/** What a function can return for a limit, and what that leaves a caller. */
const limitsOfCallers: [returned: number, limit: number][] = [
  [-3, 0],
  [0, 0],
  [1, 1],
  [9, 9],
  [16, 16],
  [Infinity, Infinity]
]

function randomQuota (random: Random, name: string, store: ModelStore): RandomQuota {
  const isDefault = name === 'default'
  const limitName = isDefault
    ? 'perMinute'
    : random.pick(limitNames)
  const [period, key] = kinds[limitName]
  const unit = randomUnit(random, period, isDefault)
  const isLimitOfCaller = !isDefault && random.integer(0, 3) === 0
  const ofCaller = random.pick(limitsOfCallers)
  const number = random.integer(0, period === null ? 3 : 16)
  const limit = isLimitOfCaller ? () => ofCaller[0] : number
  const isEnforced = random.integer(1, 4) > 1
  const isOfOrganisation = !isDefault && random.integer(0, 1) === 1
  const zone = randomZone(random, limitName)
  const hasCost = !isDefault && period !== null
  const isOfRequest = hasCost && random.integer(0, 2) === 0
  const cost = hasCost && random.integer(0, 3) > 0 ? randomCost(random, unit) : undefined
  const isReported = unit !== 'requests' && period !== null
  const unreported = isReported ? random.pick([null, 'fails', random.integer(0, 8)]) : null
  const definition = {
    [limitName]: unit.endsWith('requests') ? limit : { [unit]: limit },
    mode: isEnforced ? 'enforce' : 'shadow',
    authentication: isOfOrganisation ? fromOrganisation : undefined,
    timeZone: zone.timeZone,
    cost: isOfRequest ? costInHeader(unit) : cost,
    unreported: unreported === 'fails' ? fails : (unreported ?? undefined)
  } as QuotaDefinition
  return {
    model: {
      name,
      unit,
      period,
      isLimitOfCaller,
      limit: isLimitOfCaller ? ofCaller[1] : number,
      isDisabled: !isLimitOfCaller && number === 0,
      store,
      isEnforced,
      offsets: zone.offsets,
      unreported: typeof unreported === 'number' ? unreported : null
    },
    definition,
    key: ['rate-limit', ...(isDefault ? [] : [name]), key].join('.'),
    isOfOrganisation,
    ofCallers: zone.ofCallers,
    cost: isOfRequest ? null : rangeOf(cost ?? (isReported ? 0 : 1))
  }
}

function randomUnit (random: Random, period: string | null, isDefault: boolean): string {
  if (period === null) return 'concurrent-requests'
  return isDefault ? 'requests' : random.pick(['requests', 'tokens', 'tokens', 'dollars'])
}

/** The cost of a request in another unit can be a range. */
function costInHeader (unit: string) {
  return ({ headers }: FastifyRequest): Cost => {
    const [least, most] = String(headers['x-cost']).split('-').map(Number)
    if (least === undefined || most === undefined) return fails()
    return unit === 'requests' ? least : { least, most }
  }
}

const unzoned = { timeZone: undefined, offsets: null, ofCallers: null }

/** No time zone, one for all callers, or one for each, which fails for some. */
function randomZone (random: Random, limitName: string) {
  const all = [...users, ...organisations]
  const isMonth = limitName === 'perMonth'
  if (limitName !== 'perDay' && !isMonth) return unzoned
  if (random.integer(0, 1) === 0) {
    if (!isMonth && random.integer(0, 1) === 0) return unzoned
    const zone = random.pick(Object.keys(zones))
    const offsets = Object.fromEntries(all.map((caller) => [caller, zones[zone] ?? null]))
    return { timeZone: zone, offsets, ofCallers: null }
  }
  const ofCallers = new Map(
    all.map((caller) => [caller, random.pick([...Object.keys(zones), 'Nowhere'])])
  )
  const timeZone = (authentication: Authentication): string => {
    if (authentication.kind !== 'local') return fails()
    return ofCallers.get(String(authentication.username)) ?? fails()
  }
  const offsets = Object.fromEntries(
    all.map((caller) => [caller, zones[ofCallers.get(caller) ?? ''] ?? null])
  )
  return { timeZone, offsets, ofCallers }
}

/** A request, or a job without one. */
interface Sent {
  readonly request: FastifyRequest | null
  readonly user: string
  readonly organisation: string
  /** What its header says; null if that is no cost. */
  readonly cost: ModelRange | null
  hasEnded: boolean
  end: () => Promise<void>
}

interface Handled {
  readonly request: FastifyRequest
  /** Resolves when the response has closed. The plugin listens before this, and has settled it. */
  readonly closed: Promise<unknown>
}

interface Issued {
  readonly sent: Sent
  readonly expected: ModelPermit
  /** Null for that of the hook. */
  readonly permit: QuotaPermit | null
  /** Whether it ends with the response. */
  readonly isFollowed: boolean
}

/** The fields of a decision that the model knows. */
function shown (decision: QuotaDecision | null): ModelDecision | null {
  if (decision === null) return null
  const { quota, unit, period, enforced, outcome, reason } = decision
  const { limit, count, held, granted, windowRemaining, retryAfter } = decision
  return {
    quota: String(quota),
    unit,
    period,
    enforced,
    limit,
    outcome,
    reason,
    count,
    held,
    granted,
    windowRemaining,
    retryAfter
  }
}

/** What ends together is settled in any order, by stores of both kinds. */
function inAnyOrder (settlements: readonly object[]): string[] {
  return settlements.map((settlement) => JSON.stringify(Object.entries(settlement).sort())).sort()
}

const statuses = { rejected: 429, unauthenticated: 401, unavailable: 503 }

function statusOf ({ isAdmitted, decisions }: ModelPermit): number {
  const outcome = decisions[0]?.outcome
  if (isAdmitted || outcome === undefined) return 200
  if (outcome === 'admitted' || outcome === 'disabled') throw new Error('it does not refuse')
  return statuses[outcome]
}

/** A store that answers at once, or later. */
interface RandomStore extends ModelStore {
  readonly store: QuotaStore
}

/** A host with random quotas, and the model beside it. */
class Walk {
  readonly #random: Random
  readonly #seen: Record<string, number>
  readonly #clock = new VirtualClock()
  readonly #epoch: number
  #drift = 0
  readonly #stores: readonly [RandomStore, RandomStore]
  readonly #defined: readonly RandomQuota[]
  readonly #preferences = new Map<string, number>()
  readonly #model = new QuotasModel()
  readonly #app: FastifyInstance = Fastify()
  readonly #handling = new Map<
    string,
    { decided: (handled: Handled) => void; finished: Promise<void> }
  >()

  readonly #issued: Issued[] = []

  constructor (random: Random, seen: Record<string, number>) {
    this.#random = random
    this.#seen = seen
    this.#epoch = Date.UTC(2026, random.integer(0, 11), random.integer(1, 31))
    this.#stores = [this.#createStore(), this.#createStore()]
    this.#defined = names.map((name) => {
      const isOther = name !== 'default' && random.integer(1, 3) === 1
      return randomQuota(random, name, this.#stores[isOther ? 1 : 0])
    })
  }

  async run (): Promise<void> {
    Date.now = () => this.#epoch + this.#drift + this.#clock.now()
    const settlements: object[] = []
    const note = (message: unknown): void => {
      const { callerKey, request, reference, server, failed, ...settlement } = Object(message)
      deepStrictEqual([failed, typeof callerKey], [false, 'string'])
      settlements.push(settlement)
    }
    subscribe(quotaSettlements.name, note)
    try {
      await this.#start()
      for (let step = 0; step < stepsPerWalk; step++) {
        await this.#step(String(step))
        // No store waits for anything but promises, so that it has settled everything after a turn.
        await turn()
        deepStrictEqual(inAnyOrder(settlements), inAnyOrder(this.#model.settlements))
        await this.#compareStandings()
      }
      for (const { sent, permit } of this.#issued) {
        await sent.end()
        await permit?.end()
      }
      await this.#app.close()
    } finally {
      unsubscribe(quotaSettlements.name, note)
    }
  }

  get #time () {
    return { now: this.#clock.now(), date: Date.now() }
  }

  #count (what: string): void {
    this.#seen[what] = (this.#seen[what] ?? 0) + 1
  }

  #createStore (): RandomStore {
    const memory = new MemoryQuotaStore({ clock: this.#clock.now })
    const isAtOnce = this.#random.integer(0, 1) === 1
    return { isAtOnce, store: isAtOnce ? memory : asynchronous(memory) }
  }

  async #start (): Promise<void> {
    const [first, ...others] = this.#defined
    if (first === undefined) throw new Error('there is no quota')
    const [store, another] = this.#stores
    const quotas = others.map(({ model, definition }): [string, QuotaDefinition] => [
      model.name,
      { ...definition, ...(model.store === another && { store: another.store }) }
    ])
    await this.#app.register(quotaPlugin, {
      operations: [],
      rateLimitHeaders: 'draft-10',
      preferences: this.#preferences,
      authentication: fromHeader,
      mode: first.model.isEnforced ? 'enforce' : 'shadow',
      perMinute: first.model.limit,
      store: store.store,
      quotas: Object.fromEntries(quotas)
    })
    const quotasInHeader = ({ headers }: FastifyRequest): string[] =>
      String(headers['x-quotas'])
        .split(',')
        .filter((name) => name !== '')
    const handlingOf = ({ headers }: FastifyRequest) => this.#handling.get(String(headers['x-id']))
    this.#app.post('/', { config: { quota: quotasInHeader } }, async (request, reply) => {
      handlingOf(request)?.decided({ request, closed: once(reply.raw, 'close') })
      await handlingOf(request)?.finished
    })
    this.#app.addHook('onSend', async (request, reply) => {
      handlingOf(request)?.decided({ request, closed: once(reply.raw, 'close') })
    })
    await this.#app.ready()
  }

  async #step (id: string): Promise<void> {
    const random = this.#random
    const recent = this.#issued.slice(-20)
    const running = recent.filter(({ expected }) => expected.accounts.length > 0)
    const used = running.length > 0 && random.integer(0, 3) > 0 ? running : recent
    const choice = random.integer(1, 41)
    if (choice <= 14 || recent.length === 0) await this.#request(id)
    else if (choice <= 18) await this.#acquire(random.pick(recent).sent)
    else if (choice === 19) await this.#acquireForJob()
    else if (choice <= 25) await this.#end(random.pick(recent))
    else if (choice <= 32) await this.#charge(random.pick(used))
    else if (choice <= 35) this.#clock.advance(random.pick(gaps))
    else if (choice === 36) this.#drift = random.pick([-3_600_000, 0, 3_600_000])
    else if (choice === 37) this.#setLimit()
    else if (choice === 38) await this.#forget()
    else if (choice <= 40) this.#move()
    else this.#compareGrants(random.pick(used))
  }

  /** What the model is asked about the chosen quotas. */
  #askedOf (
    chosen: readonly string[],
    sent: Pick<Sent, 'user' | 'organisation' | 'cost'>,
    given: Readonly<Record<string, Cost>> = {}
  ): Asked[] {
    const asked: Asked[] = []
    for (const { model, isOfOrganisation, cost } of this.#defined) {
      if (!chosen.includes(model.name)) continue
      const caller = isOfOrganisation ? sent.organisation : sent.user
      const costGiven = given[model.name]
      const ofHeader =
        sent.cost !== null && model.unit === 'requests' ? rangeOf(sent.cost.least) : sent.cost
      asked.push({
        quota: model,
        caller: caller === '' ? null : caller,
        cost: costGiven === undefined ? (cost ?? ofHeader) : rangeOf(costGiven)
      })
    }
    return asked
  }

  #chooseNames (): string[] {
    return names.filter(() => this.#random.integer(0, 1) === 1)
  }

  #note ({ isAdmitted, decisions }: ModelPermit): void {
    this.#count('decisions')
    this.#count(isAdmitted ? 'admitted' : String(decisions[0]?.outcome))
    const isWaitForHeld = decisions.some(
      ({ outcome, held, enforced }) => outcome === 'rejected' && enforced && Number(held) > 0
    )
    if (isWaitForHeld) this.#count('rejected beside what is held')
    if (decisions.some(({ reason }) => reason === 'time-zone')) this.#count('failed time zones')
  }

  async #request (id: string): Promise<void> {
    const random = this.#random
    const chosen = this.#chooseNames()
    const user = random.pick([...users, ...users, ...users, ''])
    const organisation = random.pick([...organisations, ...organisations, ...organisations, ''])
    const cost = random.integer(1, 15) === 1 ? null : rangeOf(randomCost(random, 'tokens'))
    const expected = this.#model.decide(
      this.#time,
      this.#askedOf(chosen, { user, organisation, cost })
    )
    let finish = (): void => {}
    const finished = new Promise<void>((resolve) => {
      finish = resolve
    })
    const headers = {
      'x-id': id,
      'x-quotas': chosen.join(),
      'x-caller': user,
      'x-cost': cost === null ? 'none' : `${cost.least}-${cost.most}`,
      ...(organisation !== '' && { 'x-organisation': organisation })
    }
    const decided = new Promise<Handled>((resolve) => {
      this.#handling.set(id, { decided: resolve, finished })
    })
    const responding = this.#app
      .inject({ method: 'POST', url: '/', headers })
      .then((response) => response)
    const { request, closed } = await decided
    deepStrictEqual(request.quota.decisions.map(shown), expected.decisions)
    const refusal = expected.isAdmitted ? null : (expected.decisions[0] ?? null)
    deepStrictEqual(shown(request.quota.refusal), refusal)
    this.#note(expected)
    const end = async (): Promise<void> => {
      if (sent.hasEnded) return
      sent.hasEnded = true
      finish()
      const { statusCode, headers } = await responding
      const [decision] = expected.isAdmitted ? [] : expected.decisions
      const retryAfter = decision?.retryAfter == null ? undefined : String(decision.retryAfter)
      const rateLimit = expected.rateLimit.length === 0 ? undefined : expected.rateLimit.join(', ')
      deepStrictEqual(
        [statusCode, headers['retry-after'], headers.ratelimit],
        [statusOf(expected), retryAfter, rateLimit]
      )
      await closed
      for (const issued of this.#issued) {
        if (issued.sent === sent && issued.isFollowed) {
          this.#model.end(this.#time, issued.expected)
        }
      }
    }
    const sent: Sent = { request, user, organisation, cost, hasEnded: false, end }
    this.#issued.push({ sent, expected, permit: null, isFollowed: true })
    if (!expected.isAdmitted || random.integer(0, 1) === 1) await sent.end()
  }

  /** Takes a permit in a handler, also after the response has closed. */
  async #acquire (sent: Sent): Promise<void> {
    const random = this.#random
    const chosen = this.#chooseNames()
    if (chosen.length === 0) return
    const given: Record<string, Cost> = {}
    for (const { model } of this.#defined) {
      if (!chosen.includes(model.name) || model.period === null) continue
      if (sent.request === null || random.integer(0, 3) === 0) {
        given[model.name] = randomCost(random, model.unit)
      }
    }
    const expected = this.#model.decide(this.#time, this.#askedOf(chosen, sent, given))
    const costs = random.shuffle(chosen).map((name) => [name, given[name] ?? null])
    const permit = await this.#app.quotaAcquire(
      sent.request ?? this.#callersOf(chosen, sent),
      Object.fromEntries(costs)
    )
    deepStrictEqual(permit.decisions.map(shown), expected.decisions)
    deepStrictEqual(permit.refusal === null, expected.isAdmitted)
    this.#note(expected)
    const isFollowed = sent.request !== null
    if (isFollowed && sent.hasEnded) this.#model.end(this.#time, expected)
    this.#issued.push({ sent, expected, permit, isFollowed })
  }

  /** Returns the caller of a job, by quota where one of them counts the organisation. */
  #callersOf (chosen: readonly string[], { user, organisation }: Sent) {
    const used = this.#defined.filter(({ model }) => chosen.includes(model.name))
    if (!used.some(({ isOfOrganisation }) => isOfOrganisation)) return localAuthentication(user)
    const callers = used.map(({ model, isOfOrganisation }): [string, Authentication] => [
      model.name,
      localAuthentication(isOfOrganisation ? organisation : user)
    ])
    return Object.fromEntries(callers)
  }

  /** Takes a permit without a request. */
  async #acquireForJob (): Promise<void> {
    const end = async (): Promise<void> => {}
    const sent: Sent = {
      request: null,
      user: this.#random.pick(users),
      organisation: this.#random.pick(organisations),
      cost: null,
      hasEnded: true,
      end
    }
    this.#count('jobs')
    await this.#acquire(sent)
  }

  async #end ({ sent, permit, expected }: Issued): Promise<void> {
    if (permit === null) return sent.end()
    await Promise.all([permit.end(), permit.end()])
    this.#model.end(this.#time, expected)
  }

  async #charge ({ sent, expected, permit }: Issued): Promise<void> {
    const random = this.#random
    const amounts: Record<string, number> = {}
    for (const unit of ['tokens', 'dollars']) {
      if (random.integer(0, 2) > 0) amounts[unit] = random.integer(0, 8)
    }
    if (random.integer(0, 3) === 0) amounts.requests = random.integer(0, 3)
    if (random.integer(0, 9) === 0) amounts.tokens = random.pick(invalid)
    const isNumber = amounts.tokens !== undefined && random.integer(0, 4) === 0
    const given: Amounts = isNumber ? Number(amounts.tokens) : amounts
    if (permit !== null) await permit.charge(given)
    else if (sent.request !== null) await sent.request.quota.charge(given)
    const valid: Record<string, number> = {}
    for (const [unit, amount] of Object.entries(amounts)) {
      const isValid = Number.isInteger(amount) && amount >= 0
      if (isValid && (unit === 'tokens' || !isNumber)) valid[unit] = amount
    }
    this.#model.charge(this.#time, expected, valid)
    if (expected.accounts.length > 0) this.#count('charged')
  }

  #compareGrants ({ sent, expected, permit }: Issued): void {
    for (const unit of ['requests', 'tokens', 'dollars', 'images']) {
      const granted = (permit ?? sent.request?.quota)?.granted(unit)
      deepStrictEqual(granted, this.#model.granted(expected, unit), unit)
    }
  }

  #setLimit (): void {
    const { model, key } = this.#random.pick(this.#defined)
    const limit = this.#random.integer(-1, 16)
    this.#preferences.set(key, limit)
    model.limit = Math.abs(limit)
    model.isDisabled = limit === 0
  }

  /** The time zone of a caller changes. */
  #move (): void {
    const zoned = this.#defined.filter(({ ofCallers }) => ofCallers !== null)
    if (zoned.length === 0) return
    const { model, ofCallers } = this.#random.pick(zoned)
    const caller = this.#random.pick([...users, ...organisations])
    const isKnown = model.offsets?.[caller] != null
    if (ofCallers === null || model.offsets === null || !isKnown) return
    const zone = this.#random.pick(Object.keys(zones))
    ofCallers.set(caller, zone)
    model.offsets[caller] = zones[zone] ?? null
    this.#count('changed time zones')
  }

  async #forget (): Promise<void> {
    const caller = this.#random.pick([...users, ...organisations])
    await this.#app.quotaForget(String(callerKey(localAuthentication(caller))))
    for (const { model } of this.#defined) this.#model.forget(model, caller)
  }

  async #compareStandings (): Promise<void> {
    const user = this.#random.pick(users)
    const organisation = 'acme'
    const request = Object({
      headers: { 'x-caller': user, 'x-organisation': organisation },
      method: 'GET',
      raw: {},
      log: this.#app.log
    })
    const { model, isOfOrganisation } = this.#random.pick(this.#defined)
    const caller = isOfOrganisation ? organisation : user
    const expected = this.#model.standing(this.#time, model, caller)
    let found: object | null = null
    try {
      const standing = await this.#app.quotaStanding(request, model.name)
      if (standing === null) throw new Error('nobody is named')
      const { count, held, limit, remaining, windowRemaining, resetsAt } = standing
      found = { count, held, limit, remaining, windowRemaining, resetsAt }
    } catch (error) {
      if (Object(error).code !== 'FST_ERR_LLM_QUOTA_STANDING') throw error
    }
    deepStrictEqual(found, expected, model.name)
  }
}

const kindsOfSteps = [
  'decisions',
  'admitted',
  'rejected',
  'rejected beside what is held',
  'unauthenticated',
  'unavailable',
  'failed time zones',
  'changed time zones',
  'jobs',
  'charged'
]

t.test(
  `several quotas decide and count as the model does, in ${walks * stepsPerWalk} random steps`,
  async (t) => {
    const { now } = Date
    t.teardown(() => {
      Date.now = now
    })
    const seen: Record<string, number> = {}
    for (let seed = firstSeed; seed < firstSeed + walks; seed++) {
      try {
        await new Walk(new Random(seed), seen).run()
      } catch (error) {
        t.fail(`FC_SEED=${seed} RANDOM_WALKS=1 replays the failure`)
        throw error
      }
    }
    t.comment(JSON.stringify(seen))
    for (const kind of kindsOfSteps) {
      t.ok(Number(seen[kind]) >= 1, `a step of each kind was taken: ${kind}`)
    }
  }
)
