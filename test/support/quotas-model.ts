/** A quota of the model, with its limit of the moment. */
export interface ModelQuota {
  readonly name: string
  readonly unit: string
  /** Null for concurrent requests. */
  readonly period: 'minute' | 'hour' | 'day' | 'month' | null
  /**
   * Hours east of UTC, by caller, of a quota whose windows are the days or months of a time zone;
   * null for a caller whose time zone fails, or if the windows open with the first request.
   */
  readonly offsets: Record<string, number | null> | null
  readonly isEnforced: boolean
  readonly unreported: number | null
  readonly store: ModelStore
  /** Whether a function of the caller determines the limit, if no preference does. */
  readonly isLimitOfCaller: boolean
  /** That of the moment: 0 leaves nothing, and `Infinity` has room for everything. */
  limit: number
  isDisabled: boolean
}

/** Where a quota counts. */
export interface ModelStore {
  /** Whether it answers at once, so that after a rejection, no later store is asked. */
  readonly isAtOnce: boolean
}

/** Monotonic milliseconds, and milliseconds since the epoch. */
export interface ModelTime {
  readonly now: number
  readonly date: number
}

export interface ModelRange {
  readonly least: number
  readonly most: number
}

/** A quota of a request, with the caller, or null, and the cost, or null if that fails. */
export interface Asked {
  readonly quota: ModelQuota
  readonly caller: string | null
  readonly cost: ModelRange | null
}

type Outcome = 'admitted' | 'rejected' | 'unauthenticated' | 'disabled' | 'unavailable'

export interface ModelDecision {
  readonly quota: string
  readonly unit: string
  readonly period: string | null
  readonly enforced: boolean
  readonly outcome: Outcome
  readonly reason: string | null
  readonly limit: number
  readonly count: number | null
  readonly held: number | null
  readonly granted: number | null
  readonly windowRemaining: number | null
  /** In seconds. */
  readonly retryAfter: number | null
}

/** What a request has of its quotas. */
export interface ModelPermit {
  readonly all: readonly Asked[]
  /** The decisions that are published: all, or the one that refuses. */
  readonly decisions: readonly ModelDecision[]
  readonly isAdmitted: boolean
  /** The items of the field `RateLimit`. */
  readonly rateLimit: readonly string[]
  readonly accounts: readonly Account[]
  hasEnded: boolean
}

/** What is published when a permit is settled. */
export interface ModelSettlement {
  readonly quota: string
  readonly unit: string
  readonly granted: number
  readonly used: number
  readonly before: number
  readonly reported: boolean
  readonly windowEnd: number
}

/** What is counted for a caller from its opening until it ends or is forgotten. */
interface Window {
  count: number
  /** What is held of what was admitted in each period of ten minutes; its number is the key. */
  readonly held: Map<number, number>
  /** Whether all of it is held, as places are. */
  readonly isOfPlaces: boolean
  readonly start: number
  /** When the day or month of a time zone ends. */
  readonly end: number | null
}

/** What was granted, or used beyond all grants, in one window. */
interface Part {
  readonly window: Window
  readonly period: number
  counts: number
  held: number
}

/** What one request has counted in one quota, or its place. */
interface Account {
  readonly quota: ModelQuota
  readonly caller: string
  readonly limit: number
  readonly windowEnd: number
  readonly granted: number
  readonly grant: Part
  readonly beyond: Part[]
  reported: number | null
  published: number | null
}

/** What one store has found for one quota. */
interface Found {
  readonly quota: ModelQuota
  readonly caller: string
  readonly limit: number
  readonly range: ModelRange
  readonly window: Window
  readonly hasRoom: boolean
  /** The window that is left, before anything is counted. */
  readonly windowRemaining: number | null
  /** What others hold. */
  readonly held: number
  /** How long a request that is rejected waits, in milliseconds; Infinity for ever. */
  readonly wait: number
}

const minute = 60_000
const tenMinutes = 10 * minute
const hour = 60 * minute
const second = 1_000

/**
 * An independent model of several quotas that follows docs/rules.md sentence by sentence, with room
 * for every caller, and shares no code with the package.
 */
export class QuotasModel {
  /** What has been published about settlements. */
  readonly settlements: ModelSettlement[] = []
  readonly #windows = new Map<string, Window>()

  /**
   * Decides on the quotas of a request, or of a permit in a handler, in the order of the quotas.
   */
  decide (time: ModelTime, all: readonly Asked[]): ModelPermit {
    const early = all.map(beforeTheStore)
    const refusedEarly =
      early.find(({ enforced, outcome }) => enforced && outcome === 'unauthenticated') ??
      early.find(({ enforced, outcome }) => enforced && outcome === 'unavailable')
    if (refusedEarly !== undefined) {
      return refused(all, refusedEarly, [])
    }

    const enforced = this.#findEnforced(
      time,
      all.filter(({ quota }, index) => quota.isEnforced && early[index]?.outcome === 'admitted')
    )
    const deciding = decidingAmong(enforced)
    if (deciding !== null) {
      const items = enforced.filter(hasItem).map((found) => {
        const { window, windowRemaining, hasRoom, wait } = found
        const waitForRoom = wait === Infinity ? null : wait
        return item(found, window.count, hasRoom ? windowRemaining : waitForRoom)
      })
      return refused(all, rejectionOf(deciding), items)
    }

    const accounts: Account[] = []
    const decisions: ModelDecision[] = []
    const rateLimit: string[] = []
    // All of the enforced quotas are counted before a shadow quota is asked.
    const grants = new Map(
      grantedAlike(enforced).map(({ found, granted }) => [
        found.quota,
        { found, grant: count(time, found, granted) }
      ])
    )
    for (const [index, asked] of all.entries()) {
      const decision = early[index]
      if (decision === undefined) throw new Error('a quota has no decision')
      if (decision.outcome !== 'admitted') {
        decisions.push(decision)
        continue
      }
      const counted = grants.get(asked.quota)
      const found = counted?.found ?? this.#findFor(time, asked)
      if (!found.hasRoom) {
        decisions.push(rejectionOf(found))
        continue
      }
      const grant = counted?.grant ?? count(time, found, roomFor(found))
      decisions.push(admissionOf(time, found, grant))
      if (asked.quota.isEnforced && hasItem(found)) {
        rateLimit.push(item(found, found.window.count, found.windowRemaining))
      }
      accounts.push(accountOf(time, found, grant))
    }
    return {
      all,
      decisions,
      isAdmitted: true,
      rateLimit,
      accounts,
      hasEnded: false
    }
  }

  /** Returns what a request was granted of a unit. */
  granted ({ isAdmitted, accounts }: ModelPermit, unit: string): number | null {
    if (!isAdmitted) return null
    const granted = accounts
      .filter(({ quota, limit }) => quota.isEnforced && quota.unit === unit && limit !== Infinity)
      .map((account) => account.granted)
    return granted.length === 0 ? null : Math.min(...granted)
  }

  /** The host reports what a request has used. */
  charge (time: ModelTime, permit: ModelPermit, amounts: Readonly<Record<string, number>>): void {
    for (const account of permit.accounts) {
      const amount = amounts[account.quota.unit]
      if (amount === undefined || account.quota.period === null) continue
      account.reported = (account.reported ?? 0) + amount
      this.#settle(time, permit, account)
    }
  }

  /** The response of a request closes, or a permit ends. */
  end (time: ModelTime, permit: ModelPermit): void {
    if (permit.hasEnded) return
    permit.hasEnded = true
    for (const account of permit.accounts) this.#settle(time, permit, account)
  }

  /** The store forgets a caller, except for concurrent requests. */
  forget (quota: ModelQuota, caller: string): void {
    if (quota.period !== null) this.#windows.delete(`${quota.name} ${caller}`)
  }

  /** Where a caller stands: null where its time zone fails. */
  standing (time: ModelTime, quota: ModelQuota, caller: string) {
    const end = endOf(quota, caller, time)
    if (end === 'fails') return null
    const known = this.#windows.get(`${quota.name} ${caller}`)
    const window = known !== undefined && isOpen(known, quota, caller, time) ? known : undefined
    const windowRemaining =
      window === undefined ? null : remainingOf(window, quota, caller, time)
    return {
      count: window?.count ?? 0,
      held: window === undefined ? 0 : heldIn(window, time),
      limit: quota.limit,
      remaining:
        quota.isDisabled || quota.limit === Infinity
          ? null
          : Math.max(0, quota.limit - (window?.count ?? 0)),
      windowRemaining,
      resetsAt: windowRemaining === null ? end : time.date + windowRemaining
    }
  }

  /** Asks each store in one step, and none after one that rejects at once. */
  #findEnforced (time: ModelTime, asked: readonly Asked[]): Found[] {
    const enforced: Found[] = []
    for (const store of new Set(asked.map(({ quota }) => quota.store))) {
      const inStore = asked.filter(({ quota }) => quota.store === store)
      const found = inStore.map((each) => this.#findFor(time, each))
      enforced.push(...found)
      if (store.isAtOnce && found.some(({ hasRoom }) => !hasRoom)) break
    }
    return enforced.sort(
      (one, other) => indexOf(asked, one.quota) - indexOf(asked, other.quota)
    )
  }

  #findFor (time: ModelTime, { quota, caller, cost }: Asked): Found {
    if (caller === null || cost === null) throw new Error('the store was not to be asked')
    return this.#find(time, quota, caller, quota.limit, cost)
  }

  /** A demand reaches the counter of a caller, which opens a window if none is open. */
  #find (
    time: ModelTime,
    quota: ModelQuota,
    caller: string,
    limit: number,
    range: ModelRange
  ): Found {
    const window = this.#reach(time, quota, caller)
    const windowRemaining = remainingOf(window, quota, caller, time)
    const held = heldIn(window, time)
    const hasRoomBeside = (counted: number): boolean => counted + Math.max(range.least, 1) <= limit
    const waitForOthers = hasRoomBeside(window.count - held)
    const longest = windowRemaining ?? second
    return {
      quota,
      caller,
      limit,
      range,
      window,
      hasRoom: hasRoomBeside(window.count),
      windowRemaining,
      held,
      wait: Math.max(range.least, 1) > limit ? Infinity : waitForOthers ? second : longest
    }
  }

  #reach (time: ModelTime, quota: ModelQuota, caller: string): Window {
    const key = `${quota.name} ${caller}`
    const window = this.#windows.get(key)
    if (window !== undefined && isOpen(window, quota, caller, time)) return window
    const end = endOf(quota, caller, time)
    if (end === 'fails') throw new Error('the time zone of an admitted caller fails')
    const opened = {
      count: 0,
      held: new Map<number, number>(),
      isOfPlaces: quota.unit === 'concurrent-requests',
      start: time.now,
      end
    }
    this.#windows.set(key, opened)
    return opened
  }

  /** Makes the windows count what a request costs now, and publishes that in the end. */
  #settle (time: ModelTime, { hasEnded }: ModelPermit, account: Account): void {
    const { quota, caller, granted, grant, beyond, reported } = account
    if (quota.unit === 'concurrent-requests') {
      if (hasEnded) lower(grant, grant.counts)
      return
    }
    let due = Math.max(granted, reported ?? 0)
    if (hasEnded) due = reported ?? quota.unreported ?? granted
    const counted = [grant, ...beyond].reduce((sum, { counts }) => sum + counts, 0)
    if (due > counted) {
      const window = this.#reach(time, quota, caller)
      window.count += due - counted
      beyond.push({ window, period: periodOf(time), counts: due - counted, held: 0 })
    }
    // What was used beyond the grant is lowered first, and of that the latest.
    let excess = Math.max(0, counted - due)
    for (const part of [grant, ...beyond].reverse()) {
      const less = Math.min(part.counts, excess)
      if (less > 0) lower(part, less)
      excess -= less
    }
    const isUsedUp = hasEnded || (reported !== null && reported >= granted)
    if (isUsedUp) lower(grant, 0)
    if (!hasEnded || quota.unit === 'requests' || account.published === due) return
    this.settlements.push({
      quota: quota.name,
      unit: quota.unit,
      granted,
      used: due,
      before: account.published ?? 0,
      reported: reported !== null,
      windowEnd: account.windowEnd
    })
    account.published = due
  }
}

/** A part counts less, and holds nothing any more. */
function lower (part: Part, less: number): void {
  const { window, period } = part
  part.counts -= less
  window.count -= less
  window.held.set(period, (window.held.get(period) ?? 0) - part.held)
  part.held = 0
}

/** The number of the period of ten minutes. */
function periodOf ({ now }: ModelTime): number {
  return Math.floor(now / tenMinutes)
}

/** What is held of what was admitted in this period and in the one before. */
function heldIn ({ held, isOfPlaces, count }: Window, time: ModelTime): number {
  if (isOfPlaces) return count
  const period = periodOf(time)
  return (held.get(period) ?? 0) + (held.get(period - 1) ?? 0)
}

function beforeTheStore ({ quota, caller, cost }: Asked): ModelDecision {
  // A limit that is a function is read when the caller is known.
  const isUnread = quota.isLimitOfCaller && caller === null
  const decide = (outcome: Outcome, reason: string | null): ModelDecision => ({
    ...describe(quota, isUnread ? 0 : quota.limit),
    outcome,
    reason,
    count: null,
    held: null,
    granted: null,
    windowRemaining: null,
    retryAfter: outcome === 'unavailable' ? 1 : null
  })
  if (quota.isDisabled && !isUnread) return decide('disabled', null)
  if (caller === null) return decide('unauthenticated', 'no-authentication')
  if (cost === null) return decide('unavailable', 'cost')
  if (quota.offsets?.[caller] === null) return decide('unavailable', 'time-zone')
  return decide('admitted', null)
}

function describe ({ name, unit, period, isEnforced }: ModelQuota, limit: number) {
  return { quota: name, unit, period, enforced: isEnforced, limit }
}

function refused (
  all: readonly Asked[],
  decision: ModelDecision,
  rateLimit: readonly string[]
): ModelPermit {
  return {
    all,
    decisions: [decision],
    isAdmitted: false,
    rateLimit,
    accounts: [],
    hasEnded: true
  }
}

/** Of those without room, concurrent requests decide, or else the longest wait, or the first. */
function decidingAmong (found: readonly Found[]): Found | null {
  const withoutRoom = found.filter(({ hasRoom }) => !hasRoom)
  const place = withoutRoom.find(({ quota }) => quota.unit === 'concurrent-requests')
  const longest = Math.max(...withoutRoom.map(({ wait }) => wait))
  return place ?? withoutRoom.find(({ wait }) => wait === longest) ?? null
}

function rejectionOf ({ quota, limit, window, windowRemaining, held, wait }: Found): ModelDecision {
  return {
    ...describe(quota, limit),
    outcome: 'rejected',
    reason: null,
    count: window.count,
    held,
    granted: 0,
    windowRemaining,
    retryAfter: wait === Infinity ? null : secondsOf(wait)
  }
}

function admissionOf (
  time: ModelTime,
  { quota, limit, window, windowRemaining }: Found,
  grant: Part
): ModelDecision {
  return {
    ...describe(quota, limit),
    outcome: 'admitted',
    reason: null,
    count: window.count,
    held: heldIn(window, time),
    granted: grant.counts,
    windowRemaining,
    retryAfter: null
  }
}

/** What a quota would grant if it were the only one. */
function roomFor ({ range, limit, window }: Found): number {
  return Math.min(range.most, limit - window.count)
}

/** A range is granted no more than the other quotas of its unit grant, and at least its least. */
function grantedAlike (all: readonly Found[]): { found: Found; granted: number }[] {
  return all.map((found) => {
    const ofUnit = all.filter(({ quota }) => quota.unit === found.quota.unit)
    const least = Math.min(...ofUnit.map(roomFor))
    return { found, granted: Math.max(found.range.least, least) }
  })
}

/** Whether the quota has an item in the field `RateLimit`. */
function hasItem ({ limit }: Found): boolean {
  return limit !== Infinity
}

function indexOf (asked: readonly Asked[], quota: ModelQuota): number {
  return asked.findIndex((each) => each.quota === quota)
}

function count (time: ModelTime, { quota, window }: Found, counts: number): Part {
  const held = quota.unit === 'requests' ? 0 : counts
  const period = periodOf(time)
  window.count += counts
  window.held.set(period, (window.held.get(period) ?? 0) + held)
  return { window, period, counts, held }
}

function accountOf (time: ModelTime, found: Found, grant: Part): Account {
  const { quota, caller, limit, window, windowRemaining } = found
  return {
    quota,
    caller,
    limit,
    windowEnd: window.end ?? time.date + (windowRemaining ?? 0),
    granted: grant.counts,
    grant,
    beyond: [],
    reported: null,
    published: null
  }
}

function item ({ quota, limit }: Found, counted: number, wait: number | null): string {
  const remaining = `"${quota.name}";r=${Math.max(0, limit - counted)}`
  return wait === null ? remaining : `${remaining};t=${secondsOf(wait)}`
}

function secondsOf (wait: number): number {
  return Math.max(1, Math.ceil(wait / second))
}

function isOpen (window: Window, quota: ModelQuota, caller: string, time: ModelTime): boolean {
  if (quota.period === null) return true
  if (window.end === null) return time.now - window.start < lengthOf(quota)
  return startOf(quota, caller, time) < window.end
}

/** Null for concurrent requests. */
function remainingOf (
  { start, end }: Window,
  quota: ModelQuota,
  caller: string,
  time: ModelTime
): number | null {
  if (quota.period === null) return null
  if (end === null) return start + lengthOf(quota) - time.now
  // The next one opens with the first day of the caller that begins at its end or later.
  let later = 1
  while (startOf(quota, caller, time, later) < end) later += 1
  return Math.max(1, startOf(quota, caller, time, later) - time.date)
}

function lengthOf ({ name, period }: ModelQuota): number {
  if (period === 'minute') return minute
  if (period === 'hour') return hour
  if (period === 'day') return 24 * hour
  throw new Error(`the windows of ${name} have no fixed length`)
}

/** When the day or month of a caller begins, later by so many days or months. */
function dayOf (
  { period }: ModelQuota,
  offset: number,
  { date }: ModelTime,
  later: number
): number {
  const local = new Date(date + offset * hour)
  const year = local.getUTCFullYear()
  const month = local.getUTCMonth()
  const start =
    period === 'day'
      ? Date.UTC(year, month, local.getUTCDate() + later)
      : Date.UTC(year, month + later)
  return start - offset * hour
}

/** @param later How many days or months later; 0 for the present one. */
function startOf (quota: ModelQuota, caller: string, time: ModelTime, later = 0): number {
  return dayOf(quota, quota.offsets?.[caller] ?? 0, time, later)
}

function endOf (quota: ModelQuota, caller: string, time: ModelTime): number | null | 'fails' {
  if (quota.offsets === null) return null
  const offset = quota.offsets[caller]
  return offset === null || offset === undefined ? 'fails' : dayOf(quota, offset, time, 1)
}
