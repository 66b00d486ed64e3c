// docs/rules.md, "Limit", with arbitrary preferences: the limit is either the value that the reader returned or the configured limit, and
// a mistake never disables the quota. A preference that is neither unset nor valid is unavailable.
import fc from 'fast-check'
import t from 'tap'
import { preferenceFailures } from '../../lib/limit/preferences.js'
import { assertProperty } from '../support/property.js'
import { analyze, asAlice, createService, published } from '../support/service.js'

const configured = 7

const value = fc.oneof(
  fc.anything({ withBigInt: true, withDate: true, withMap: true, withObjectString: true }),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.double(),
  fc.integer().map(String),
  fc.bigInt().map(String),
  fc.constantFrom(undefined, null, '', '  ', '\t\n'),
  fc.string({ unit: fc.constantFrom('0', '1', '-', '+', '.', 'e', 'x', ' ', '_', '\u0661') }),
  fc.constantFrom(-0, '-0', '00', '1e1', '0x10', '1_0', ' 5', '5 ', '+5', '5.0', '0.5', 0.5, -0.5, NaN, Infinity, true, [5], '9007199254740992', 2 ** 53)
)

/** Returns undefined if the value is not valid. */
function limitIn (value: unknown): number | undefined {
  const spelled = typeof value === 'string' && /^-?[0-9]+$/.test(value) ? BigInt(value) : undefined
  const meant = spelled ?? (typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : undefined)
  if (meant === undefined || meant > BigInt(Number.MAX_SAFE_INTEGER) || meant < BigInt(Number.MIN_SAFE_INTEGER)) return undefined
  return meant < 0n ? 1 : Number(meant)
}

t.test('the limit is the value of the preference or, if that is unset or unavailable, the configured limit', async (t) => {
  let preference: () => unknown = () => undefined
  const app = await createService({ perMinute: configured, preferences: { get: () => preference() }, authentication: asAlice })
  const isAsExpected = async (reader: () => unknown, limit: number | undefined, isAvailable: boolean): Promise<boolean> => {
    preference = reader
    await app.quotaStore.clearCounters?.()
    let failures: unknown[] = []
    const [message] = await published(async () => { failures = await published(() => analyze(app, null), preferenceFailures.name) })
    const expected = limit ?? configured
    const isRight = Object.is(message?.decision.limit, expected) && message?.decision.outcome === (expected === 0 ? 'disabled' : 'admitted')
    return isRight && failures.length === (isAvailable ? 0 : 1)
  }

  await t.test('a valid value that the reader returns or resolves with is the limit', async () => {
    // An object with a function `then` is treated as a promise, not as a value.
    const plain = value.filter((value) => !(typeof value === 'object' && value !== null && 'then' in value))
    await assertProperty(fc.asyncProperty(plain, fc.nat(3), async (value, kind) => {
      const limit = limitIn(value)
      const isUnset = value == null || (typeof value === 'string' && /^\s*$/.test(value))
      return isAsExpected(kind === 0 ? async () => value : () => value, limit, isUnset || limit !== undefined)
    }), { numRuns: 4000 })
  })

  await t.test('the configured limit applies if the reader throws or rejects', async () => {
    await assertProperty(fc.asyncProperty(fc.anything(), fc.boolean(), async (reason, promised) =>
      isAsExpected(promised ? () => Promise.reject(reason) : () => { throw reason }, undefined, false)), { numRuns: 500 })
  })
})
