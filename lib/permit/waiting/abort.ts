/** What a signal ends. */
interface Followed {
  readonly runs: Set<() => void>
  readonly listener: () => void
}

// All that a signal ends shares one listener: with the signal of a worker, for example, a host can
// end any number of waits, and Node.js warns from the eleventh listener on.
const followedBySignal = new WeakMap<AbortSignal, Followed>()

/** Runs a function if a signal is aborted. The function must not throw. */
export function whenAborted (signal: AbortSignal, run: () => void): void {
  const { runs } = followedBySignal.get(signal) ?? follow(signal)
  runs.add(run)
}

/** Forgets a function. A signal that has none left has no listener either. */
export function forgetAborted (signal: AbortSignal, run: () => void): void {
  const followed = followedBySignal.get(signal)
  if (followed === undefined) return
  followed.runs.delete(run)
  if (followed.runs.size > 0) return
  followedBySignal.delete(signal)
  signal.removeEventListener('abort', followed.listener)
}

function follow (signal: AbortSignal): Followed {
  const runs = new Set<() => void>()
  const listener = (): void => {
    for (const run of runs) run()
  }
  const followed = { runs, listener }
  followedBySignal.set(signal, followed)
  signal.addEventListener('abort', listener)
  return followed
}
