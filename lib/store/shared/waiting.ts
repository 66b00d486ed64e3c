/** Is called once, when what waits for a call has ended. */
export interface Ended<Result> {
  resolve(result: Result): void
  reject(error: unknown): void
}

/** For what nobody waits for. */
export const nobody: Ended<unknown> = { resolve () {}, reject () {} }
