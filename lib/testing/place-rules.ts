import type { Rules } from './rules.js'
import { lower, range, settle, simultaneous, type Steps } from './steps.js'
import { all, jobs, later, streams, type TestQuota } from './test-quota.js'

/** The rules of concurrent requests (docs/rules.md, "Concurrent requests"). */
export const placeRules: Rules = {
  'takes a place if there are fewer concurrent requests than the limit, and frees it once': () => [
    placesOf(streams),
    placesOf(jobs)
  ],

  'peek and list return the number of places, which forget and a settlement by 0 keep': () => {
    const first = streams.acquire(1)
    const second = streams.acquire(1)
    const read = [streams.peek(1), streams.list()]
    return [
      [read, first, second, read],
      [streams.forget(1), read],
      [lower(first, { count: 0, held: 0 }), read],
      [settle(first), settle(second), read]
    ]
  },

  'frees each of many places once, also if they are settled together': () => {
    const requests = range(32).map(() => streams.acquire(1))
    const settlements = requests.slice(16).map((each) => settle(each))
    return [
      simultaneous(...requests),
      simultaneous(...settlements, ...settlements),
      streams.count(1),
      simultaneous(...settlements, streams.acquire(1)),
      streams.count(1)
    ]
  }
}

function placesOf (quota: TestQuota): Steps {
  const taken = [2, 2, 2, 1, 3].map((limit) => quota.acquire(1, limit))
  const freed = [...taken, ...taken].reverse().map((place) => [settle(place), quota.count(1)])
  return [taken, quota.visit([2, 1]), freed, quota.count(2)]
}

/** The same with a small caller cap. */
export const placeCapRules: Rules = {
  'places have no caller cap, and no overflow counter': () => [
    [all, later].map((numbers) => [streams.visit(numbers, 1), streams.inspect()]),
    streams.visit(all, 1),
    streams.peek(...all),
    streams.list()
  ]
}
