import type { FastifyBaseLogger } from 'fastify'
import { isRequest, type AnyRequest } from '../any-request.js'
import { isAuthentication, type Authentication } from '../caller/authentication.js'
import { formatType, parameterError, type OptionError } from '../errors.js'
import { assertOptions, checkThat, entriesOf, isObject, isPlain } from '../option-checks.js'
import { operationOf } from '../subject/operation.js'
import { assertNoFunctions, namedQuotas, type GivenQuotas } from './given-costs.js'
import type { QuotaList } from './quota-list.js'
import { PermitHandle, type QuotaPermit, type Refuser } from './quota-permit.js'
import type { Quota } from './quota.js'
import { knownStateOf } from './request-state.js'
import { Requester, type GivenCallers, type PermitServer } from './requester.js'
import { takePermit } from './take-permit.js'

/** Options of `fastify.quotaAcquire`. */
export interface AcquireOptions {
  /**
   * What decisions, settlements and the journal of a store name the permit by, for example the id
   * of a job. Default: the id of the request; none without a request.
   */
  readonly reference?: string | undefined
  /** Ends a wait for room: the promise rejects with its reason. Nothing is counted then. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Decides, counts and publishes in the middle of a handler, as the hook does for its route: for a
 * message of a socket, a tool call or an item of a batch. The route does not have to be protected.
 * Takes an authentication in place of a request for the job of a queue, for example: it is the
 * caller of each of the quotas. A quota with an `authentication` of its own needs the callers by
 * the names of the quotas. A quota with `wait` lets it wait for room, as it does a request.
 *
 * The permit ends with the response of the request, unless `end` is called earlier, and immediately
 * if the response has already closed. A permit without a request, or for one that has not passed
 * the plugin's hook, lasts until `end` is called or the server has closed.
 *
 * @param source The request; or the authentication of the caller; or that for each quota by name.
 * @param quotas The names of one or more quotas, which can include `default`; or an object with
 *   what to count in place of the cost of the definition, by name, and null for that. A place
 *   always costs 1.
 * @returns The permit. If the store fails, the permit is a refusal.
 * @throws {UnknownQuotaError} `FST_ERR_LLM_QUOTA_UNKNOWN_QUOTA`, if there is no quota with one of
 *   the names.
 * @throws {OptionError} `FST_ERR_LLM_QUOTA_OPTION`, if there is no name, if a cost or an option is
 *   not possible, if a quota needs a caller of its own, or if the cost of a definition is a
 *   function and there is no request.
 */
export type QuotaAcquirer = {
  /** Takes a permit. */
  method(
    source: AnyRequest | Authentication | Readonly<Record<string, Authentication>>,
    quotas: GivenQuotas,
    options?: AcquireOptions
  ): Promise<QuotaPermit>
}['method']

/** What the permits of a server's handlers need. */
export interface HandlerPermitParts {
  readonly log: FastifyBaseLogger
  readonly quotas: QuotaList
  readonly server: PermitServer
  readonly refuser: Refuser
}

const assertReference = checkThat(
  'must be a string of well-formed Unicode without NUL',
  (value) => typeof value === 'string' && value.isWellFormed() && !value.includes('\0'),
  formatType
)

const assertSignal = checkThat(
  'must be an AbortSignal',
  (value) =>
    isObject(value) && 'aborted' in value && 'reason' in value && 'addEventListener' in value
)

/** Creates the function for the decorator `fastify.quotaAcquire`. */
export function createQuotaAcquirer (parts: HandlerPermitParts): QuotaAcquirer {
  const { log, quotas: list, server, refuser } = parts
  return async function quotaAcquire (source: unknown, quotas, options = {}) {
    const named = namedQuotas(quotas, list)
    assertOptions<AcquireOptions>(
      options,
      { reference: assertReference, signal: assertSignal },
      'options.'
    )
    const { reference, signal } = options
    signal?.throwIfAborted()
    const request = isRequest(source) ? source : null
    if (request === null) assertNoFunctions(named)
    const callers = request === null ? callersIn(source, named.quotas) : null
    const requester = new Requester(server, {
      request,
      callers,
      reference,
      log: request?.log ?? log,
      response: knownStateOf(request) ?? null,
      signal
    })
    const operation = request === null ? null : operationOf(request)
    const matches = named.quotas.map((quota) => ({ quota, operation }))
    const permit = await takePermit(matches, requester, named.costs)
    if (permit.isAbandoned) signal?.throwIfAborted()
    permit.follow()
    return new PermitHandle({ permit, pending: undefined }, server, refuser)
  }
}

const callersRule =
  'must be a request, an authentication that this package created, or an object with that of ' +
  'each quota by its name'

/** Returns the callers of a permit without a request. Throws an `OptionError`. */
function callersIn (source: unknown, quotas: readonly Quota[]): GivenCallers {
  if (isAuthentication(source)) {
    for (const { name, hasOwnCaller } of quotas) {
      if (!hasOwnCaller) continue
      const rule =
        `must have the callers by name, such as { ${name}: … }, because the quota "${name}" has ` +
        'an authentication of its own'
      throw wrongSource('source', rule, source)
    }
    return source
  }
  if (!isPlain(source)) throw wrongSource('source', callersRule, source)
  const callers = new Map<string, Authentication>()
  for (const [name, authentication] of entriesOf(source)) {
    const parameter = `source.${name}`
    if (!isAuthentication(authentication)) {
      throw wrongSource(parameter, callersRule, authentication)
    }
    if (!quotas.some((quota) => quota.name === name)) {
      throw wrongSource(parameter, 'must be for one of the given quotas', authentication)
    }
    callers.set(name, authentication)
  }
  for (const { name } of quotas) {
    if (callers.has(name)) continue
    throw wrongSource(`source.${name}`, 'must be given, as for each quota', undefined)
  }
  return callers
}

function wrongSource (parameter: string, rule: string, value: unknown): OptionError {
  return parameterError(parameter, 'quotaAcquire', rule, value, formatType)
}
