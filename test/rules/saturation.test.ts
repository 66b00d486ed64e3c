// docs/rules.md, "Costs": a caller that asks for more than its limit uses it, and exceeds no
// window.
import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { Random } from '../../chaos/random.js'
import { createHost } from '../support/quota-host.js'
import { seed } from '../support/property.js'
import { until } from '../support/until.js'

const limit = 20_000
const windows = 20
const windowLength = 60_000
const answersAtOnce = 8
const tokensPerSecond = 50
// Every so many tokens of a stream, the host asks for as many more.
const extension = 256
// How long a stream pauses at most for the next window, in milliseconds. Then it is cut.
const longestPause = 5_000

/** What sleeps in virtual time, the next one first. */
class Sleepers {
  readonly #clock: { now: () => number; advance: (ms: number) => void }
  readonly #all: { readonly at: number; readonly wake: () => void }[] = []

  constructor (clock: { now: () => number; advance: (ms: number) => void }) {
    this.#clock = clock
  }

  get count (): number {
    return this.#all.length
  }

  async sleep (ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#all.push({ at: this.#clock.now() + ms, wake: resolve })
    })
  }

  /** Goes on to the time at which the next one wakes. */
  wakeNext (): void {
    const [first] = this.#all.sort((one, other) => one.at - other.at)
    if (first === undefined) throw new Error('nobody sleeps')
    this.#all.shift()
    this.#clock.advance(first.at - this.#clock.now())
    first.wake()
  }
}

t.test(
  'eight answers at a time use 97 % of the limit of 20 windows, exceed none, and few are cut',
  async (t) => {
    const { app, clock, standings } = await createHost([], {
      quotas: { tokens: { perMinute: { tokens: limit }, cost: { least: 500, most: 1500 } } }
    })
    const sleepers = new Sleepers(clock)
    const random = new Random(seed)
    const seen = { answers: 0, cut: 0, tokens: 0, extensions: 0, refused: 0, highest: 0 }

    /** Writes an answer of random length, as far as the quota allows. */
    async function answer (request: FastifyRequest): Promise<void> {
      const length = random.integer(50, 1800)
      let written = 0
      seen.answers += 1
      while (written < length) {
        const granted = app.quotaGranted(request, 'tokens') ?? 0
        if (written === granted) {
          if (await isExtended(request)) continue
          seen.cut += 1
          return
        }
        const next = Math.min(length, granted) - written
        await sleepers.sleep((1000 * next) / tokensPerSecond)
        written += next
        seen.tokens += next
        await app.quotaCharge(request, next)
      }
    }

    /** Takes more, and waits for what others hold or for the next window; false if that is far. */
    async function isExtended (request: FastifyRequest): Promise<boolean> {
      seen.extensions += 1
      const refusal = await app.quotaExtend(request, extension)
      if (refusal === null) return true
      const { count, held, windowRemaining } = refusal
      const isForHeld = Number(count) - Number(held) + extension <= limit
      const pause = isForHeld ? 1000 : Number(windowRemaining)
      if (pause > longestPause) return false
      await sleepers.sleep(pause)
      return isExtended(request)
    }

    app.post('/answer', { config: { quota: 'tokens' } }, async (request) => {
      await answer(request)
    })

    async function ask (): Promise<void> {
      while (clock.now() < windows * windowLength) {
        const { statusCode, headers } = await app.inject({ method: 'POST', url: '/answer' })
        if (statusCode === 200) continue
        seen.refused += 1
        await sleepers.sleep(1000 * Number(headers['retry-after']))
      }
    }

    const asking = { callers: answersAtOnce }
    for (let caller = 0; caller < answersAtOnce; caller++) {
      ask().finally(() => {
        asking.callers -= 1
      })
    }
    while (asking.callers > 0) {
      await until('all answers wait for the time', () => sleepers.count === asking.callers)
      const [standing] = await standings(['tokens'])
      seen.highest = Math.max(seen.highest, standing?.count ?? 0)
      if (asking.callers > 0) sleepers.wakeNext()
    }
    const used = seen.tokens / (windows * limit)
    t.comment(JSON.stringify({ ...seen, used }))
    t.ok(used >= 0.97, `${used} of the limit is used`)
    t.ok(seen.highest <= limit, 'no window is exceeded')
    t.ok(seen.cut <= 0.015 * seen.answers, `${seen.cut} of ${seen.answers} answers are cut`)
  }
)
