import timers from 'node:timers'
import { format, UnknownQuotaError } from '../errors.js'
import { createLimitReader } from '../limit/limit-reader.js'
import type { Preferences } from '../limit/preferences.js'
import type { LineTime } from './waiting/line.js'
import { Lines } from './waiting/lines.js'
import type { Quota, QuotaSettings } from './quota.js'

/** With referenced timers: a process that does nothing else must not end before the decision. */
const lineTime: LineTime = { clock: () => performance.now(), timers }

/** The quotas of a server, in their order. */
export class QuotaList {
  readonly all: readonly Quota[]

  constructor (settings: readonly QuotaSettings[], preferences: Preferences) {
    this.all = settings.map((each): Quota => ({
      ...each,
      isLimitOfCaller: typeof each.configured === 'function',
      limitOf: createLimitReader(each, preferences),
      // A shadow quota refuses nothing that could wait.
      lines: each.wait === null || !each.isEnforced ? null : new Lines(each.wait.queue, lineTime)
    }))
  }

  /**
   * Returns the quota with a name. Throws an `UnknownQuotaError` that says what the name was given
   * to if there is none.
   *
   * @param formatName Formats the name for the message.
   */
  named (name: unknown, where: string, formatName = format): Quota {
    const quota = this.all.find((each) => each.name === name)
    if (quota !== undefined) return quota
    const names = this.all.map((each) => each.name).join(', ')
    throw new UnknownQuotaError(where, names, formatName(name))
  }

  /** Returns the quotas with these names, in their order, each once. */
  allNamed (names: readonly unknown[], where: string): Quota[] {
    const found = new Set(names.map((name) => this.named(name, where)))
    return this.all.filter((quota) => found.has(quota))
  }
}
