import type { Readable } from 'node:stream'
import { formatType, parameterError } from '../errors.js'
import { isModelBody, meterBody, type BodyEnd, type ModelBody } from '../model/meter.js'
import { usageOf, type ModelUsage } from '../model/usage.js'
import { assertFunction, assertOptions } from '../option-checks.js'
import { ignoreRejection, isPromise, type Eventual } from '../promises.js'
import type { Permit } from './permit.js'
import type { QuotaLog } from './quota-log.js'
import { reportGreatest, reportUsage } from './report-usage.js'

/** How a response of a model was interrupted. */
export interface Interruption {
  /** The usage that was stated so far; null if none was. */
  readonly usage: ModelUsage | null
  /**
   * The bytes in UTF-8 of what the model wrote until then: content, reasoning and arguments of
   * tools. Reasoning that the model hides is not among them.
   */
  readonly textBytes: number
  /** Who ended the response early: who received it, or the model's server. */
  readonly by: 'caller' | 'source'
}

/** Options of `meter`. */
export interface MeterOptions {
  /**
   * Returns the usage of a response that was interrupted, in any form that `chargeUsage` takes, in
   * place of what is counted by default.
   */
  readonly interrupted?: ((interruption: Interruption) => unknown) | undefined
}

/**
 * Passes the response of a model on, and reports its usage in a permit when it has ended.
 *
 * @param permit Returns the permit; a promise until it is decided on.
 * @throws {OptionError} The body or an option has a wrong type.
 */
export function meterInPermit (
  body: ModelBody,
  options: MeterOptions,
  permit: () => Eventual<Permit | undefined>,
  quotaLog: QuotaLog
): Readable {
  if (!isModelBody(body)) {
    const rule =
      'must be a web stream or another async iterable of bytes (a stream of Node.js without ' +
      'an encoding), or null, such as response.body'
    throw parameterError('body', 'meter', rule, body, formatType)
  }
  if (body !== null && 'locked' in body && body.locked) {
    const rule = 'must be a stream that nothing else reads'
    throw parameterError('body', 'meter', rule, body, () => 'a locked stream')
  }
  assertOptions<MeterOptions>(options, { interrupted: assertFunction }, 'options.')
  return meterBody(body, (end) => {
    ignoreRejection(reportEnd(end, options, permit(), quotaLog))
  })
}

/** Reports the usage of a response that has ended. Nothing is awaited before a permit is there. */
async function reportEnd (
  end: BodyEnd,
  options: MeterOptions,
  eventual: Eventual<Permit | undefined>,
  quotaLog: QuotaLog
): Promise<void> {
  const permit = isPromise(eventual) ? await eventual : eventual
  if (permit !== undefined && permit.refusal !== null) return
  const { usage, isComplete, isReadable, by } = end
  if (isComplete && usage !== null) {
    await reportUsage(permit, usage, quotaLog)
    return
  }
  if (isReadable && by !== null && options.interrupted !== undefined) {
    const given = readInterrupted(options.interrupted, { ...end, by }, quotaLog)
    if (given === null) return
    if (given !== undefined) {
      await reportUsage(permit, given, quotaLog)
      return
    }
  }
  if (!isReadable) quotaLog.unreadableBody()
  // A caller who leaves does so before the usage is stated.
  else if (by === null || (by === 'source' && usage === null)) quotaLog.bodyWithoutUsage()
  await reportGreatest(permit, usagesOf(end), quotaLog)
}

/**
 * Returns the usage that the host's function returns; null for nothing, and undefined if it fails
 * or states none.
 */
function readInterrupted (
  interrupted: (interruption: Interruption) => unknown,
  { usage, textBytes, by }: Interruption,
  quotaLog: QuotaLog
): ModelUsage | null | undefined {
  try {
    const given = interrupted({ usage, textBytes, by })
    return given == null ? null : usageIn(given)
  } catch (error) {
    quotaLog.interruptedFailed(error)
    return undefined
  }
}

/** Returns the usage that a host reports; null if it states none, which is logged. */
export function readUsage (usage: unknown, quotaLog: QuotaLog): ModelUsage | null {
  try {
    return usageIn(usage)
  } catch (error) {
    quotaLog.wrongUsage(error)
    return null
  }
}

/** Returns the usage in a value. Throws a `TypeError` if it states none. */
function usageIn (value: unknown): ModelUsage {
  const usage = isPromise(value) ? null : usageOf(value)
  if (usage !== null) return usage
  ignoreRejection(value)
  const got = isPromise(value) ? 'a promise' : formatType(value)
  throw new TypeError(`a usage must state a number of tokens; it got ${got}`)
}

/** Returns what a response has used at least: what it stated so far, and its text. */
function usagesOf ({ usage, textBytes, model }: BodyEnd): ModelUsage[] {
  const usages = usage === null ? [] : [usage]
  // No text has more tokens than bytes.
  const ofText = {
    model,
    total: textBytes,
    input: 0,
    cachedInput: 0,
    cacheWrites: 0,
    output: textBytes,
    reasoning: 0
  }
  return textBytes === 0 ? usages : [...usages, ofText]
}
