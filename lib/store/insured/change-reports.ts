import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { attempt } from '../../promises.js'
import { nodeTimers, type QuotaTimers } from '../../time-limit.js'
import { insuredStoreChanges, type InsuredQuotaStoreChange, type InsuredQuotaStoreState, type InsuredShards } from './changes.js'
import type { InsuredQuotaStore } from './insured-store.js'

// How long the changes of single shards are gathered for one report, in milliseconds.
const interval = 2_000

/** What an operator has to know about an insured store. */
export interface InsuredStoreReport {
  readonly state: InsuredQuotaStoreState
  readonly shards: InsuredShards
  /** The latest error of the primary. */
  readonly error: unknown
}

/**
 * Reports the changes of an insured store: each change of its `state` at once, and any other changes of shards together, a little later, so
 * that a lost server with many shards does not flood the log.
 *
 * @param report What it throws is ignored: in a subscriber of a channel, an error would end the process.
 * @returns Ends the reports.
 */
export function reportChanges (
  store: InsuredQuotaStore, report: (report: InsuredStoreReport) => void, timers: QuotaTimers = nodeTimers
): () => void {
  let reported: InsuredStoreReport = { state: store.state, shards: store.shards, error: undefined }
  let error: unknown
  let timer: unknown
  const reportNow = (): void => {
    timers.clearTimeout(timer)
    timer = undefined
    const { state, shards } = store
    if (String(shards.fallback) === String(reported.shards.fallback)) return
    reported = { state, shards, error }
    attempt(() => { report(reported) }, () => {})
  }
  const receive = (message: unknown): void => {
    const change = message as InsuredQuotaStoreChange
    if (change.store !== store) return
    error = change.error ?? error
    if (store.state !== reported.state) reportNow()
    else timer ??= timers.setTimeout(reportNow, interval)
  }
  subscribe(insuredStoreChanges.name, receive)
  return () => {
    unsubscribe(insuredStoreChanges.name, receive)
    timers.clearTimeout(timer)
  }
}
