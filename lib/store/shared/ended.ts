/** Is called once, when what waits for a call has ended. */
export interface Ended<Result> {
  resolve(result: Result): void
  reject(error: unknown): void
}

/** For what nobody waits for. */
export const nobody: Ended<unknown> = { resolve () {}, reject () {} }

export function resolveAll<Result> (ended: readonly Ended<Result>[], result: Result): void {
  for (const each of ended) each.resolve(result)
}

export function rejectAll<Result> (ended: readonly Ended<Result>[], error: unknown): void {
  for (const each of ended) each.reject(error)
}
