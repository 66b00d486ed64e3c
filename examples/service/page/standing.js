import { send } from './service.js'
import { change, state } from './state.js'

const whole = new Intl.NumberFormat('en')
export const windowLength = 60_000
const words = {
  default: {
    used: 'requests used',
    limitWords: (limit) => `${counted(limit, 'model call')} a minute`
  },
  tokens: {
    title: 'Tokens',
    used: 'tokens used',
    limitWords: (limit) => `${counted(limit, 'token')} a minute`
  },
  concurrency: {
    title: 'Concurrent requests',
    used: 'requests running',
    limitWords: (limit) => counted(limit, 'concurrent request')
  }
}

export const inFull = (value) => whole.format(value).replace('-', '−')
export const secondsOf = (milliseconds) => `${Math.ceil(milliseconds / 1000)}\u{a0}s`
const counted = (count, noun) => `${inFull(count)} ${noun}${count === 1 ? '' : 's'}`

let latest = 0

/** Reads where the caller stands, and for an administrator all callers. */
export async function refresh () {
  const { user } = state
  const mine = ++latest
  if (user === null || document.visibilityState === 'hidden') return
  try {
    const paths = [
      '/api/quota',
      ...(user.isAdministrator ? ['/api/callers', '/api/preferences'] : [])
    ]
    const responses = await Promise.all(paths.map((path) => send(path)))
    const [standing, callers, preferences = {}] = await Promise.all(
      responses.map((response) => (response.ok ? response.json() : {}))
    )
    // A response that is late must not replace a later one, or be shown to another user.
    if (mine !== latest || state.user !== user) return
    const readAt = performance.now()
    const read =
      standing.quotas === undefined
        ? {}
        : { ...standing, readAt, ...seenAt(standing.quotas, readAt) }
    change({ ...callers, ...read, preferences, isInterrupted: responses.some(({ ok }) => !ok) })
  } catch {
    if (mine === latest && state.user === user) change({ isInterrupted: true })
  }
}

/** Adds a rejected request to the window that is open. */
export function markRejection () {
  const { left } = standingNow().find(({ quota }) => quota === 'default') ?? { left: 0 }
  if (left > 0) change({ marks: [...state.marks, { at: windowLength - left, admitted: false }] })
}

/** The caller's standing in each quota that is on, at this moment. */
export function standingNow () {
  const passed = performance.now() - state.readAt
  return (state.quotas ?? [])
    .filter(({ limit }) => limit > 0)
    .map((standing) => {
      const left = Math.max(0, (standing.windowRemaining ?? 0) - passed)
      const hasEnded = standing.windowRemaining !== null && left === 0
      const { title, used, limitWords } = words[standing.quota]
      // A place is held for as long as its request runs, which the words for it say already.
      const hasEstimates = standing.quota !== 'concurrency'
      return {
        ...standing,
        title,
        used,
        limitWords: limitWords(standing.limit),
        left,
        count: hasEnded ? 0 : standing.count,
        held: hasEnded || !hasEstimates ? 0 : standing.held
      }
    })
}

/**
 * The quota that rejects every operation until its window ends; of several, the one with the
 * longest wait. What is held can be free again before.
 */
export function fullQuota () {
  return standingNow()
    .filter(({ count, held, limit, left }) => count - held >= limit && left > 0)
    .sort((one, other) => other.left - one.left)
    .at(0)
}

export function usedOf ({ count, held, limit, used }) {
  const inProgress = held === 0 ? '' : `, ${inFull(held)} held by requests in progress`
  return `${inFull(count - held)} of ${inFull(limit)} ${used}${inProgress}`
}

/** Says when a window ends, except for the one whose end is shown beside the button. */
export const endOf = ({ quota, left }) =>
  left === 0 || fullQuota()?.quota === quota ? '' : `; the window ends in ${secondsOf(left)}`

// The longest time between two readings between which a request is drawn where it was noticed.
const longestGap = 3000

/**
 * Returns the requests of the window that this page has seen arrive, and since when it has seen the
 * window. When earlier requests arrived is not known.
 */
function seenAt (quotas, now) {
  const found = windowIn(quotas, now)
  if (found === null) return { marks: [], seenFrom: 0 }
  const known = windowIn(state.quotas, state.readAt)
  const isSame =
    known !== null &&
    known.count <= found.count &&
    Math.abs(known.end - found.end) < windowLength / 2
  if (isSame && known.count === found.count) return {}
  const age = Math.max(0, windowLength - (found.end - now))
  const isWatched = state.quotas !== null && now - state.readAt < longestGap
  if (isWatched && isSame) {
    return { marks: [...state.marks, ...admittedAt(age, found.count - known.count)] }
  }
  if (isWatched && age < longestGap) return { marks: admittedAt(age, found.count), seenFrom: 0 }
  return { marks: [], seenFrom: age }
}

function admittedAt (at, count) {
  return Array.from({ length: Math.min(100, count) }, () => ({ at, admitted: true }))
}

function windowIn (quotas, readAt) {
  const { count, windowRemaining } = quotas?.find(({ quota }) => quota === 'default') ?? {}
  return windowRemaining == null ? null : { count, end: readAt + windowRemaining }
}
