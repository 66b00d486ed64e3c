// docs/rules.md, "Limit", with arbitrary preferences: the limit is either the value that the reader returned or the configured limit, and
// a mistake never disables the quota.
import fc from 'fast-check'
import t from 'tap'
import type { QuotaDecision } from '../../lib/index.js'
import { assertProperty } from '../support/property.js'
import { analyze, asAlice, captureLog, createService } from '../support/service.js'

const configured = 7

const value = fc.oneof(
  fc.anything({ withBigInt: true, withDate: true, withMap: true, withObjectString: true }),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.double(),
  fc.integer().map(String),
  fc.bigInt().map(String),
  fc.string({ unit: fc.constantFrom('0', '1', '-', '+', '.', 'e', 'x', ' ', '_', '\u0661') }),
  fc.constantFrom(-0, '-0', '00', '1e1', '0x10', '1_0', ' 5', '5 ', '+5', '5.0', '0.5', 0.5, -0.5, NaN, Infinity, true, [5], '9007199254740992', 2 ** 53)
)

function expectedLimit (value: unknown): number {
  const spelled = typeof value === 'string' && /^-?[0-9]+$/.test(value) ? BigInt(value) : undefined
  const meant = spelled ?? (typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : undefined)
  if (meant === undefined || meant > BigInt(Number.MAX_SAFE_INTEGER) || meant < BigInt(Number.MIN_SAFE_INTEGER)) return configured
  return meant < 0n ? 1 : Number(meant)
}

t.test('the limit is the value of the preference or, if that is invalid, the configured limit', async (t) => {
  let preference: () => unknown = () => undefined
  let decision: QuotaDecision | null = null
  const log = captureLog('warn')
  const app = await createService({ perMinute: configured, preferences: { get: () => preference() }, authentication: asAlice }, { logger: log.logger })
  app.addHook('onSend', async (request) => { decision = request.quota })
  const decide = async (reader: () => unknown): Promise<QuotaDecision | null> => {
    preference = reader
    await app.quotaStore.clearCounters?.()
    await analyze(app, null)
    return decision
  }
  const asExpected = (decision: QuotaDecision | null, value: unknown): boolean => {
    const limit = expectedLimit(value)
    return decision?.limit === limit && decision.outcome === (limit === 0 ? 'disabled' : 'admitted') && !Object.is(decision.limit, -0)
  }

  await t.test('a valid value that the reader returns or resolves with is the limit', async () => {
    // An object with a function `then` is treated as a promise, not as a value.
    const plain = value.filter((value) => !(typeof value === 'object' && value !== null && 'then' in value))
    await assertProperty(fc.asyncProperty(plain, fc.nat(3), async (value, kind) => asExpected(await decide(kind === 0 ? async () => value : () => value), value)), { numRuns: 4000 })
  })

  await t.test('the configured limit applies if the reader throws or rejects', async () => {
    await assertProperty(fc.asyncProperty(fc.anything(), fc.boolean(), async (reason, promised) =>
      asExpected(await decide(promised ? () => Promise.reject(reason) : () => { throw reason }), undefined)), { numRuns: 500 })
  })
  t.ok(log.warnings().length > 0)
})
