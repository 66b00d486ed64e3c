// Which functions a store has.
import { hasFunction, withFunctions } from '../option-checks.js'
import type { QuotaStore } from './store.js'

/**
 * Throws an `OptionError` with the name of the option or decorator unless the value has the
 * functions.
 */
export function assertStore<Needed extends keyof QuotaStore = 'acquire'> (
  value: unknown,
  name: string,
  ...needed: readonly Needed[]
): asserts value is QuotaStore & Required<Pick<QuotaStore, Needed>> {
  withFunctions('a store', 'acquire', ...needed)(value, name)
}

const optionalFunctions = [
  'settle',
  'peek',
  'forget',
  'list',
  'inspect',
  'clearCounters'
] satisfies (keyof QuotaStore)[]

/**
 * Hides each optional function of a store made of others that one of them lacks, so that the plugin
 * names the function when it starts.
 */
export function hideMissingFunctions (store: QuotaStore, parts: readonly QuotaStore[]): void {
  for (const name of optionalFunctions) {
    if (parts.every((part) => hasFunction(part, name))) continue
    // Hides the method of the class.
    Object.defineProperty(store, name, { value: undefined })
  }
}
