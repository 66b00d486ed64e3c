import { hasFunction } from '../option-checks.js'
import type { QuotaStore } from './store.js'

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
