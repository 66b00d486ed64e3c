import { byId, element, setText } from './document.js'
import { counted, inFull, secondsOf } from './numbers.js'
import { type Now, onStanding, type QuotaNow } from './standing.js'

const headline = byId('how-many', HTMLElement)
const intro = byId('intro', HTMLElement)
const title = byId('window-title', HTMLElement)
const unlimited = byId('unlimited', HTMLElement)
const requests = byId('requests', HTMLElement)
const requestsTitle = byId('requests-title', HTMLElement)
const others = byId('other-quotas', HTMLElement)

/** The words for a quota: its name, its limit, and what it counts. */
const words: Record<string, { readonly title: string, readonly limit: (limit: number) => string, readonly counted: string }> = {
  default: { title: 'Requests', limit: (limit) => `${counted(limit, 'model call')} a minute`, counted: 'requests used' },
  tokens: { title: 'Tokens', limit: (limit) => `${counted(limit, 'token')} a minute`, counted: 'tokens used' },
  streams: { title: 'Streams', limit: (limit) => `${counted(limit, 'stream')} at once`, counted: 'streams open' }
}

function wordsOf (quota: string) {
  const found = words[quota]
  if (found === undefined) throw new Error(`the page does not know the quota ${quota}`)
  return found
}

/** Describes the count and the limit, for example `3 of 10 requests used`. */
export function usedOf ({ quota, count, limit }: QuotaNow): string {
  return `${inFull(count)} of ${inFull(limit)} ${wordsOf(quota).counted}`
}

/** Describes when a window ends. Says nothing of the one whose end is shown beside the button. */
export function endOf ({ quota, left }: QuotaNow, { full }: Now): string {
  return left === 0 || full?.quota === quota ? '' : `; the window ends in ${secondsOf(left)}`
}

/** Shows which quotas are on, and the caller's standing in those beside the default one. */
export function keepQuotas (): void {
  onStanding(draw)
}

function draw (now: Now | undefined): void {
  const on = now?.quotas.filter(({ limit }) => limit > 0) ?? []
  const [first = 'Model calls without a limit', ...more] = on.map(({ quota, limit }) => wordsOf(quota).limit(limit))
  setText(headline, now === undefined ? 'A quota for model calls' : first)
  setText(intro, `Four operations read your text with a language model. ${now === undefined ? 'Sign in to see how often you can run them.' : scopeOf(on, more)}`)
  setText(title, on.length > 1 ? 'Your windows' : 'Your window')
  unlimited.hidden = now === undefined || on.length > 0
  requests.hidden = now !== undefined && on.every(({ quota }) => quota !== 'default')
  requestsTitle.hidden = on.length < 2
  others.replaceChildren(...now === undefined ? [] : on.filter(({ quota }) => quota !== 'default').map((quota) => show(quota, now)))
}

function scopeOf (on: readonly QuotaNow[], more: readonly string[]): string {
  if (on.length === 0) return 'Each caller can run them as often as they like.'
  return `This limit applies to each caller.${more.length === 0 ? '' : ` Further limits: ${more.join(', ')}.`}`
}

function show (quota: QuotaNow, now: Now): HTMLElement {
  return element('div', { class: 'quota', 'data-quota': quota.quota },
    element('h3', {}, wordsOf(quota.quota).title),
    element('meter', { min: 0, max: quota.limit, value: quota.count, 'aria-hidden': 'true' }),
    element('p', { class: 'summary' }, `${usedOf(quota)}${endOf(quota, now)}.`))
}
