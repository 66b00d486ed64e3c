import { setImmediate as turn } from 'node:timers/promises'

// Seconds of real time after which a test that waits fails instead of hanging. No test is meant to
// come near it.
const longestWait = 60

/**
 * Waits until a condition holds, and asks for it once in each turn of the event loop.
 *
 * @param what What the test waits for, as "two places are free".
 * @throws {Error} If it does not come true; the message says what was waited for.
 */
export async function until (
  what: string,
  condition: () => boolean | Promise<boolean>
): Promise<void> {
  // Tests replace the other clocks.
  const [startedAt] = process.hrtime()
  while (!(await condition())) {
    const [now] = process.hrtime()
    if (now - startedAt > longestWait) {
      throw new Error(`in ${longestWait} s it has not come true that ${what}`)
    }
    await turn()
  }
}
