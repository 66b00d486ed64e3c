import type { HandedOverHolding } from '../handing-over/handed-over.js'

/** What a permit has of one quota, as far as a report needs it. */
export interface Reportable {
  /** What the admission counted. */
  readonly granted: number
  /** Adds to what was reported as used. */
  report(amount: number): Promise<void>
  /**
   * Keeps the grant until something is reported, even if the permit ends before. Only of a quota
   * that takes a model's usage.
   */
  expectReport?(): void
  /** Ends the permit: the store counts what was used from now on. */
  end(): Promise<void>
}

/**
 * What one quota gave one request: a `Counted` (requests), a `Place` (concurrent requests), or a
 * `Usage` (any other unit). Its functions never reject.
 */
export interface Holding extends Reportable {
  /** Whether nothing is to be settled when the permit ends. */
  readonly isFinal: boolean
  /** What another process needs to settle it; null if only this one can. */
  readonly handedOver: HandedOverHolding | null
  /** Leaves the end of the permit to another process. What it counts stays counted. */
  handOver(): Promise<void>
  /** Ends a permit whose operation does not run. */
  cancel(): Promise<void>
}
