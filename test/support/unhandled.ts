import type { Test } from 'tap'

/** The rejections that nothing handles during a test. They end a process without a listener. */
export function unhandledRejections (t: Test): unknown[] {
  const unhandled: unknown[] = []
  const note = (reason: unknown): void => {
    unhandled.push(reason)
  }
  process.on('unhandledRejection', note)
  t.teardown(() => process.off('unhandledRejection', note))
  return unhandled
}
