import { createHash } from 'node:crypto'
import type { Call, Driver } from '../shared/driver.js'
import acquire from './acquire.lua.js'
import { changeOf, decisionsOn, invocationOf, windowOf, type Change } from './arguments.js'
import clear from './clear.lua.js'
import type { QuotaRedisClient } from './clients.js'
import forget from './forget.lua.js'
import list from './list.lua.js'
import peek from './peek.lua.js'
import { readDecided, readPage, readPeeked } from './replies.js'

/**
 * A part of the callers on a Redis or Valkey server, with a share of the caller cap. All of its
 * keys are in one hash slot. They begin with that of the register.
 */
export function redisDriver (client: QuotaRedisClient, register: string, cap: number): Driver {
  // The digests of the scripts that were sent.
  const digests = new Map<string, string>()
  // The server keeps counters for longer than a window after a decision.
  const expectedUntil = new Map<string, number>()

  return {
    async acquire (requests, call) {
      const isExpected = (counters: string): boolean =>
        performance.now() < Number(expectedUntil.get(counters))
      const decisions = requests.map((request) => decisionsOn(request, isExpected))
      const { reply, columns } = await change(decisions, call)
      const now = performance.now()
      for (const {
        demand: { counters, window }
      } of decisions.flat()) {
        if (window !== null) expectedUntil.set(counters, now + window)
      }
      return readDecided(reply, decisions, columns)
    },
    release: (releases, holdings, call) =>
      change(
        [...releases, ...holdings].map((each) => [changeOf(each)]),
        call
      ),
    async peek (demand, time) {
      const parameters = [
        String(time ?? NaN),
        demand.callerKey,
        String(cap),
        String(windowOf(demand)),
        String(demand.end ?? '')
      ]
      let found: ReturnType<typeof readPeeked> = '0'
      while (typeof found === 'string') {
        found = readPeeked(await ask(peek, demand.counters, ...parameters, found), demand)
      }
      return found
    },
    forget: (callerKey, counters) => ask(forget, counters, callerKey),
    list: async (counters, cursor, time, date) =>
      readPage(await ask(list, counters, String(time ?? NaN), cursor ?? '0', String(date))),
    inspect: async (counters) => readPage(await ask(list, counters, 'nan', '0', '0')),
    clear () {
      expectedUntil.clear()
      return run(clear, [register])
    }
  }

  async function change<Each extends Change> (changes: readonly (readonly Each[])[], call: Call) {
    const { quotas, parameters, columns } = invocationOf(changes, call, cap)
    return {
      reply: await run(
        acquire,
        [register, ...quotas.map((counters) => `${register}:${counters}`)],
        parameters
      ),
      columns
    }
  }

  function ask (
    script: string,
    counters: string,
    ...parameters: readonly string[]
  ): Promise<unknown> {
    return run(script, [`${register}:${counters}`], parameters)
  }

  /**
   * Sends a script by its digest, but as source the first time and if the server has lost it, as in
   * a restart.
   */
  async function run (
    source: string,
    keys: readonly string[],
    parameters: readonly (string | Buffer)[] = []
  ): Promise<unknown> {
    const digest = digests.get(source)
    // Commands on one connection run in order, so the ones that follow can use the digest without
    // waiting for this one.
    digests.set(source, digest ?? createHash('sha1').update(source).digest('hex'))
    if (digest === undefined) return client.evaluateSource(source, keys, parameters)
    try {
      return await client.evaluateDigest(digest, keys, parameters)
    } catch (error) {
      if (error instanceof Error && error.message.startsWith('NOSCRIPT')) {
        return client.evaluateSource(source, keys, parameters)
      }
      throw error
    }
  }
}
