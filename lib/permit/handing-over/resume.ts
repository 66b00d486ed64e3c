import type { FastifyBaseLogger } from 'fastify'
import { format, parameterError, type OptionError } from '../../errors.js'
import { MemoryQuotaStore } from '../../store/memory/memory-store.js'
import { readHandedOver, type HandedOverHolding } from './handed-over.js'
import { Permit, type AmountReader } from '../permit.js'
import { PermitHandle, type QuotaPermit, type Refuser } from '../quota-permit.js'
import type { QuotaList } from '../quota-list.js'
import { QuotaOfRequest } from '../quota-of-request.js'
import type { Quota } from '../quota.js'
import { Requester, type PermitServer } from '../requester.js'
import { ResumedHolding } from './resumed-holding.js'

/**
 * Returns a permit that was handed over, in any process with the same quotas and stores, as often
 * as needed: in each attempt of a job, or for each call of a webhook. It has no request and no
 * decisions. What is reported before its first `end` counts when it ends, which neither
 * `app.close()` nor `await using` does; a later report is an error in the log.
 *
 * It is settled once, in whichever process ends it first: only that one counts what was used beyond
 * what was granted, and publishes it. A later end changes nothing, and so does every end once the
 * window of the admission is over, unless an earlier one of the same object was rejected. `end`
 * rejects if a store fails or does not answer within 5 seconds: call it again, or try the job
 * again.
 *
 * If only the reply of the store was lost, the permit is settled. A further `end` of the same
 * object then counts what was used beyond, at worst twice if another process has ended the permit,
 * too. A permit that is resumed anew cannot tell: it counts nothing, as after any other end.
 *
 * @param text What `handOver` returned.
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if it is not such a text, if it is of another
 *   version, or if one of its quotas, or that quota's unit or store, is not configured.
 */
export type QuotaResumer = (text: string) => QuotaPermit

/** Creates the function for the decorator `fastify.quotaResume`. */
export function createQuotaResumer (
  quotas: QuotaList,
  server: PermitServer,
  refuser: Refuser,
  log: FastifyBaseLogger
): QuotaResumer {
  return function quotaResume (text) {
    const { reference, holdings } = readHandedOver(text)
    const requester = new Requester(server, {
      request: null,
      callers: null,
      reference,
      log,
      response: null
    })
    const resumed = holdings.map((handed) => {
      const quota = configuredQuota(handed, quotas)
      const each = new QuotaOfRequest(quota, null, reference, null)
      // As `granted` reads it.
      each.limit = handed.isLimited ? handed.granted : Infinity
      each.holding = new ResumedHolding(quota, handed, text, requester)
      return each
    })
    const permit = new ResumedPermit(requester, resumed, { refusal: null, decisions: [] })
    return new PermitHandle({ permit, pending: undefined }, server, refuser)
  }
}

const afterEnd = 'the resumed permit has ended; report it before that'

/** A permit that only the host ends. */
class ResumedPermit extends Permit {
  #ending: Promise<void> | undefined
  #hasBegunToEnd = false

  /** Does nothing: the end of a server does not end it. */
  override open (): void {}

  override async reportEach (amountOf: AmountReader): Promise<void> {
    if (this.#hasBegunToEnd) this.requester.server.quotaLog.lateReport(new TypeError(afterEnd))
    else await super.reportEach(amountOf)
  }

  /** Rejects if it could not be settled in one of its quotas. It can be tried again. */
  override endInHandler (): Promise<void> {
    this.#hasBegunToEnd = true
    this.#ending ??= this.#endEach().finally(() => {
      this.#ending = undefined
    })
    return this.#ending
  }

  override async dispose (): Promise<void> {}

  override async handOver (): Promise<string> {
    throw new TypeError('fastify-llm-quota: the permit was handed over; its text can be used again')
  }

  async #endEach (): Promise<void> {
    const ending = this.quotas.map(async ({ holding }) => await holding?.end())
    for (const result of await Promise.allSettled(ending)) {
      if (result.status === 'rejected') throw result.reason
    }
  }
}

/** Returns the quota that a permit counts in. Throws an `OptionError` if it is another one now. */
function configuredQuota (handed: HandedOverHolding, quotas: QuotaList): Quota {
  const quota = quotas.all.find(({ name }) => name === handed.quota)
  if (quota === undefined) throw notConfigured('a quota that exists', handed)
  if (quota.unit !== handed.unit || quota.counters !== handed.counters) {
    throw notConfigured('a quota with the same unit and windows', handed)
  }
  if (quota.store.settle === undefined || quota.store instanceof MemoryQuotaStore) {
    throw notConfigured('a quota whose store is on a server', handed)
  }
  return quota
}

function notConfigured (what: string, { quota }: HandedOverHolding): OptionError {
  const rule = `must be of ${what}`
  return parameterError('text', 'quotaResume', rule, quota, (name) => `that of ${format(name)}`)
}
