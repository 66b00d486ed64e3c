import { Gauge, Histogram, type Registry } from 'prom-client'
import type { QuotaPlaceChange, QuotaWaitChange } from '../channels.js'
import { labelsOfQuota, placeUnit, type LabelOfQuota } from './quota-labels.js'

/** The upper bounds of `llm_quota_wait_seconds`, in seconds. No wait is longer than the last. */
const waitBuckets = [0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]

/** How many requests there are, by quota. */
type Counts = Map<string, { readonly unit: string; readonly count: number }>

/** The requests of a server that have a place or wait for room now. */
export interface ServerRequests {
  readonly concurrent: Counts
  readonly waiting: Counts
}

/** Counts the requests that have a place or wait for room, and how long they wait. */
export class RequestMetrics {
  readonly #servers = new Map<object, ServerRequests>()
  readonly #waits: Histogram<LabelOfQuota>

  constructor (registry: Registry) {
    this.#addGauge(registry, 'concurrent', 'llm_quota_concurrent_requests', 'Concurrent requests')
    this.#addGauge(registry, 'waiting', 'llm_quota_waiting', 'Requests that wait for room')
    this.#waits = new Histogram({
      name: 'llm_quota_wait_seconds',
      help: 'How long requests waited for room, whether they got it or not.',
      labelNames: labelsOfQuota,
      buckets: waitBuckets,
      registers: [registry]
    })
  }

  /** Returns where the requests of a server are counted until it is removed. */
  add (server: object): ServerRequests {
    const requests = { concurrent: new Map(), waiting: new Map() }
    this.#servers.set(server, requests)
    return requests
  }

  /** Forgets the requests of a server, which has closed. */
  remove (server: object): void {
    this.#servers.delete(server)
  }

  /** Counts a request that has taken a place, or freed it. */
  countPlace ({ concurrent }: ServerRequests, { quota, change }: QuotaPlaceChange): void {
    addTo(concurrent, quota, placeUnit, change)
  }

  /** Counts a request that begins to wait, or ends. */
  countWait (
    { waiting }: ServerRequests,
    { quota, unit, change, seconds }: QuotaWaitChange
  ): void {
    addTo(waiting, quota, unit, change)
    if (seconds !== null) this.#waits.observe({ quota, unit }, seconds)
  }

  #addGauge (registry: Registry, which: keyof ServerRequests, name: string, what: string): void {
    const servers = this.#servers
    const gauge = new Gauge({
      name,
      help: `${what} in this process; a sum over instances is the total.`,
      labelNames: labelsOfQuota,
      registers: [],
      collect () {
        this.reset()
        for (const { [which]: counts } of servers.values()) {
          for (const [quota, { unit, count }] of counts) this.inc({ quota, unit }, count)
        }
      }
    })
    registry.registerMetric(gauge)
  }
}

function addTo (counts: Counts, quota: string, unit: string, change: number): void {
  const count = counts.get(quota)?.count ?? 0
  counts.set(quota, { unit, count: count + change })
}
