/**
 * What one quota gave one request: a `Counted` (requests), a `Place` (concurrent requests), or a
 * `Usage` (any other unit). Its functions never reject.
 */
export interface Holding {
  /** What the admission counted. */
  readonly granted: number
  /** Whether nothing is to be settled when the permit ends. */
  readonly isFinal: boolean
  /** Adds to what was reported as used. */
  report(amount: number): Promise<void>
  /** Keeps the grant until something is reported, even if the permit ends before. */
  expectReport(): void
  /** Ends the permit: the store counts what was used from now on. */
  end(): Promise<void>
  /** Ends a permit whose operation does not run. */
  cancel(): Promise<void>
}
