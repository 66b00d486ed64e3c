import type { Rules } from './rules.js'
import { lower, range, simultaneous } from './steps.js'

/** The rules of settlements that are applied once, of a store that takes the text for it. */
export const onceRules: Rules = {
  'a settlement with a text is applied the first time only': (quota) => {
    const first = quota.hold(1, 9)
    const other = quota.hold(2, 9)
    const less = { count: 2, held: 2 }
    return [
      first,
      other,
      ['a', 'a', 'b', 'a', 'b'].map((text) => [lower(first, less, text), quota.see(1)]),
      // Another receipt with the same text.
      [1, 2].map(() => [lower(other, less, 'a'), quota.count(2)]),
      lower(first, { count: 0, held: 0 }, 'c'),
      lower(first, less, 'c'),
      lower(first, { count: 1, held: 1 }),
      quota.see(1)
    ]
  },

  'a settlement with a text is remembered until the window is over, and then not applied': (
    quota
  ) => {
    const less = { count: 1, held: 1 }
    const first = quota.hold(1, 5)
    const later = quota.hold(1, 5)
    const forgotten = quota.hold(2, 5)
    return [
      first,
      lower(first, less, 'a'),
      quota.window - 1,
      lower(first, less, 'a'),
      lower(first, less, 'b'),
      1,
      ['a', 'c'].map((text) => lower(first, less, text)),
      later,
      ['a', 'c'].map((text) => lower(first, less, text)),
      quota.see(1),
      // A text is of one window.
      lower(later, less, 'a'),
      quota.see(1),
      forgotten,
      quota.forget(2),
      lower(forgotten, less, 'a'),
      quota.acquire(2),
      lower(forgotten, less, 'a'),
      quota.count(2)
    ]
  },

  'of simultaneous settlements with the same text, one is applied': (quota) => {
    const first = quota.hold(1, 40)
    const settlements = range(16).map(() => lower(first, { count: 2, held: 2 }, 'a'))
    return [first, simultaneous(...settlements), quota.see(1)]
  }
}
