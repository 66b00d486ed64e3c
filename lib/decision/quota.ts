import { keySuffix } from '../caller/caller-key.js'
import type { CallerReader } from '../caller/request-caller.js'
import type { LimitReader } from '../limit/limit-reader.js'
import type { QuotaStore } from '../store/store.js'
import { windowLength } from '../store/counter.js'

/** The length of a quota's window, in seconds. */
export const windowSeconds = windowLength / 1000

/** A quota of a server: its name and the parts that its decisions use. */
export class Quota {
  readonly name: string
  readonly limits: LimitReader
  readonly callerOf: CallerReader
  readonly store: QuotaStore
  readonly isEnforced: boolean
  /** The text that follows an identity in the caller keys of this quota. */
  readonly keySuffix: string

  constructor (name: string, limits: LimitReader, callerOf: CallerReader, store: QuotaStore, isEnforced: boolean) {
    this.name = name
    this.limits = limits
    this.callerOf = callerOf
    this.store = store
    this.isEnforced = isEnforced
    this.keySuffix = keySuffix(name)
  }
}
