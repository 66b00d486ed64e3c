import timers from 'node:timers'
import { waitChanges, type QuotaWaitChange } from '../../channels.js'
import { required } from '../../required.js'
import { hasRoom } from '../../store/counter.js'
import { settled } from '../../store/side-by-side.js'
import type { QuotaCount, QuotaStore } from '../../store/store.js'
import { ask, giveBack } from '../ask.js'
import { refusalAmong } from '../decide.js'
import { forgetAborted, whenAborted } from './abort.js'
import type { Waiting } from './line.js'
import { prepare } from '../prepare.js'
import type { QuotaOfRequest } from '../quota-of-request.js'
import type { EndsWithResponse, Requester } from '../requester.js'
import { canWait, countOf, refusing, rejectBy, timeoutOf } from './room.js'

/** How a request was decided on, after waiting for room if it had none. */
export interface Waited {
  /** Its quotas, as they were decided on last. */
  readonly quotas: readonly QuotaOfRequest[]
  /**
   * Whether the decision concerns nobody any more: the caller has left, the host has responded, or
   * its signal has ended the wait.
   */
  readonly isAbandoned: boolean
}

/** How the promise of a wait is settled. */
interface Settling {
  readonly resolve: (waited: Waited) => void
  readonly reject: (error: unknown) => void
}

/**
 * Waits for room. Rejects only if a store cannot be used.
 *
 * @param turn The key of the caller who takes turns.
 * @param arrivedAt When the request arrived, in monotonic milliseconds.
 * @param hasResponded Whether the host has responded in the meantime.
 */
export async function waitForRoom (
  quotas: readonly QuotaOfRequest[],
  requester: Requester,
  turn: string,
  arrivedAt: number,
  hasResponded: () => boolean
): Promise<Waited> {
  return await new Promise<Waited>((resolve, reject) => {
    const settling = { resolve, reject }
    new WaitingRequest(quotas, requester, turn, arrivedAt, hasResponded, settling).begin()
  })
}

/**
 * A request that waits in the line of one of its quotas.
 *
 * | state | what happens | next state |
 * |---|---|---|
 * | waiting | it is in a line | asking, when it is its turn; ended, when the wait ends |
 * | asking | its quotas decide anew | waiting, if they reject it; ended, if not, or as above |
 * | ended | it is in no line; what is counted now is given back | |
 */
class WaitingRequest implements Waiting, EndsWithResponse {
  readonly turn: string
  readonly #requester: Requester
  readonly #arrivedAt: number
  readonly #hasResponded: () => boolean
  readonly #settling: Settling
  /** As they were decided on last. */
  #quotas: readonly QuotaOfRequest[]
  /** The one in whose line the request waits. */
  #refusing: QuotaOfRequest
  #timer: NodeJS.Timeout | undefined
  #state: 'waiting' | 'asking' | 'ended' = 'waiting'

  constructor (
    quotas: readonly QuotaOfRequest[],
    requester: Requester,
    turn: string,
    arrivedAt: number,
    hasResponded: () => boolean,
    settling: Settling
  ) {
    this.turn = turn
    this.#quotas = quotas
    this.#refusing = refusing(quotas)
    this.#requester = requester
    this.#arrivedAt = arrivedAt
    this.#hasResponded = hasResponded
    this.#settling = settling
  }

  /** Begins to wait, which can end at once. */
  begin (): void {
    const { server, response, signal } = this.#requester
    this.#join()
    if (this.#hasEnded) return
    if (server.closing.hasBegun) return this.close()
    if (signal?.aborted === true) return this.#abandon()
    if (signal !== undefined) whenAborted(signal, this.#abandon)
    response?.endWithResponse(this)
  }

  /** The response has ended, in most cases because the caller has left. */
  async end (): Promise<void> {
    this.#abandon()
  }

  async ask (): Promise<void> {
    if (this.#hasResponded()) return this.#abandon()
    this.#state = 'asking'
    try {
      const deciding = this.#decideAnew()
      // The wait can end before, and what is counted then must be given back.
      this.#requester.server.closing.waitFor(deciding)
      const quotas = await deciding
      this.#tellLine(quotas)
      if (this.#hasEnded) return this.#giveBack(quotas)
      this.#state = 'waiting'
      this.#quotas = quotas
      this.#goOn()
    } catch (error) {
      if (!this.#hasEnded) this.#stop()
      this.#settling.reject(error)
    }
  }

  /** Works out what the request asks for, but for caller and cost, and asks the stores. */
  async #decideAnew (): Promise<readonly QuotaOfRequest[]> {
    const quotas = this.#quotas.map((each) => each.anew())
    await prepare(quotas, this.#requester)
    if (this.#hasEnded) return quotas
    for (const each of quotas) {
      if (each.demand !== null) each.demand = { ...each.demand, isWaiting: true }
    }
    await ask(quotas, this.#requester)
    return quotas
  }

  consider (count: QuotaCount): void {
    if (this.#state === 'asking') return
    const demand = required(this.#refusing.demand, 'the demand of a request that waits')
    if (hasRoom(count.count, demand)) return
    rejectBy(this.#refusing, count)
    if (!canWait(this.#quotas, this.#elapsed)) this.#finish()
  }

  fail (store: QuotaStore): void {
    if (this.#state === 'asking') return
    const needsIt = (each: QuotaOfRequest): boolean =>
      each.demand !== null && each.quota.store === store
    if (!this.#quotas.some(needsIt)) return
    for (const each of this.#quotas) {
      if (needsIt(each)) each.fail('store')
      // What it was before does not refuse the request now.
      else if (each.isRefused) each.decision = null
    }
    this.#finish()
  }

  reject (): void {
    this.#finish()
  }

  close (): void {
    this.#refusing.fail('closing')
    this.#finish()
  }

  get #elapsed (): number {
    return performance.now() - this.#arrivedAt
  }

  get #hasEnded (): boolean {
    return this.#state === 'ended'
  }

  /** Goes on waiting, in another line if another quota refuses the request now, or ends. */
  #goOn (): void {
    if (!canWait(this.#quotas, this.#elapsed)) return this.#finish()
    const before = this.#refusing
    this.#refusing = refusing(this.#quotas)
    if (this.#refusing.quota === before.quota) return this.#startTimer()
    before.quota.lines?.leave(this)
    this.#publish(before, -1, null)
    this.#join()
  }

  #join (): void {
    const { quota, demand, acquisition } = this.#refusing
    const { callerKey } = required(demand, 'the demand of a request that waits')
    const count = countOf(required(acquisition, 'the count that has no room for a request'))
    this.#startTimer()
    this.#publish(this.#refusing, 1, null)
    required(quota.lines, 'the lines of a quota').join(callerKey, this, count)
  }

  #startTimer (): void {
    timers.clearTimeout(this.#timer)
    const left = timeoutOf(this.#quotas) - this.#elapsed
    this.#timer = timers.setTimeout(() => this.#timeOut(), left)
  }

  /**
   * Ends the wait with the last decision, also while the request asks, unless a store could not
   * give back what it counts then.
   */
  #timeOut (): void {
    if (this.#state === 'asking' && !this.#quotas.every(canBeGivenBack)) return
    const { quota, demand } = this.#refusing
    const { callerKey } = required(demand, 'the demand of a request that waits')
    const line = required(quota.lines?.lineOf(callerKey), 'the line of a request')
    rejectBy(this.#refusing, line.count)
    this.#finish()
  }

  /** Tells the line what its counter holds now, and which stores have failed. */
  #tellLine (quotas: readonly QuotaOfRequest[]): void {
    const { quota, demand } = this.#refusing
    const { callerKey } = required(demand, 'the demand of a request that waits')
    const line = quota.lines?.lineOf(callerKey)
    for (const each of quotas) {
      const { decision, acquisition } = each
      const isOfLine = each.quota === quota && each.demand?.callerKey === callerKey
      if (decision?.reason === 'store') line?.fail(each.quota.store)
      else if (isOfLine && acquisition !== null) line?.note(countOf(acquisition))
    }
  }

  /** Gives back what was counted for a request that does not wait any more. */
  #giveBack (quotas: readonly QuotaOfRequest[]): void {
    if (refusalAmong(quotas) !== null) return
    const { closing } = this.#requester.server
    for (const each of quotas) closing.waitFor(giveBackWhole(each, this.#requester))
  }

  /** Ends the wait with the decisions of now. */
  #finish (): void {
    this.#stop()
    const waited = this.#elapsed
    for (const each of this.#quotas) {
      if (each.decision !== null) each.decision = { ...each.decision, waited }
    }
    this.#settling.resolve({ quotas: this.#quotas, isAbandoned: false })
  }

  /** Called once at most: what has ended is in no line, and follows neither response nor signal. */
  readonly #abandon = (): void => {
    this.#stop()
    this.#settling.resolve({ quotas: this.#quotas, isAbandoned: true })
  }

  #stop (): void {
    this.#state = 'ended'
    timers.clearTimeout(this.#timer)
    const { response, signal } = this.#requester
    response?.forget(this)
    if (signal !== undefined) forgetAborted(signal, this.#abandon)
    this.#refusing.quota.lines?.leave(this)
    this.#publish(this.#refusing, -1, this.#elapsed / 1000)
  }

  /** @param seconds How long the request waited in all; null if it goes on waiting. */
  #publish ({ quota }: QuotaOfRequest, change: 1 | -1, seconds: number | null): void {
    if (!waitChanges.hasSubscribers) return
    const { server } = this.#requester.server
    const { name, unit } = quota
    waitChanges.publish({ server, quota: name, unit, change, seconds } satisfies QuotaWaitChange)
  }
}

function canBeGivenBack ({ quota }: QuotaOfRequest): boolean {
  return quota.store.settle !== undefined
}

/** Gives back what a quota counted for a request. Never rejects. */
async function giveBackWhole (each: QuotaOfRequest, requester: Requester): Promise<void> {
  const { quota, demand, acquisition } = each
  if (demand === null || acquisition === null) return
  const { granted, receipt } = acquisition
  await giveBack(quota.store, receipt, settled(demand, granted), requester)
  quota.lines?.freed(demand.callerKey)
}
