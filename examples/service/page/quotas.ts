import { byId, element, setText } from './document.js'
import { inFull, secondsOf } from './numbers.js'
import { type Now, onStanding, type QuotaNow } from './standing.js'

const headline = byId('how-many', HTMLElement)
const intro = byId('intro', HTMLElement)
const unlimited = byId('unlimited', HTMLElement)
const requests = byId('requests', HTMLElement)
const requestsTitle = byId('requests-title', HTMLElement)
const others = byId('other-quotas', HTMLElement)

/** How the page speaks of a quota: its name, its limit, and what it counts. */
const words: Record<string, { readonly title: string, readonly limit: (limit: number) => string, readonly counted: string }> = {
  default: { title: 'Requests', limit: (limit) => limit === 1 ? '1 model call a minute' : `${inFull(limit)} model calls a minute`, counted: 'requests used' },
  tokens: { title: 'Tokens', limit: (limit) => limit === 1 ? '1 token a minute' : `${inFull(limit)} tokens a minute`, counted: 'tokens used' },
  streams: { title: 'Streams', limit: (limit) => limit === 1 ? '1 stream at once' : `${inFull(limit)} streams at once`, counted: 'streams open' }
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

/** Shows which quotas are on, and the caller's standing in those beside the default one. */
export function keepQuotas (): void {
  onStanding(draw)
}

function draw (now: Now | undefined): void {
  const on = now?.quotas.filter(({ limit }) => limit > 0)
  const [first, ...more] = on?.map(({ quota, limit }) => wordsOf(quota).limit(limit)) ?? []
  setText(headline, on === undefined ? 'A quota for model calls' : first ?? 'Model calls without a limit')
  setText(intro, `Four operations read your text with a language model. ${scopeOf(on === undefined, first, more)}`)
  unlimited.hidden = on?.length !== 0
  requests.hidden = on?.every(({ quota }) => quota !== 'default') === true
  requestsTitle.hidden = on === undefined || on.length < 2
  others.replaceChildren(...on?.filter(({ quota }) => quota !== 'default').map(show) ?? [])
}

function scopeOf (isUnknown: boolean, first: string | undefined, more: readonly string[]): string {
  if (isUnknown) return 'Sign in to see how often you can run them.'
  if (first === undefined) return 'Each caller can run them as often as they like.'
  return more.length === 0 ? 'This limit applies to each caller.' : `This limit applies to each caller, and so do ${more.join(' and ')}.`
}

function show (quota: QuotaNow): HTMLElement {
  return element('div', { class: 'quota', 'data-quota': quota.quota },
    element('h3', {}, wordsOf(quota.quota).title),
    element('meter', { min: 0, max: quota.limit, value: quota.count, 'aria-hidden': 'true' }),
    element('p', { class: 'summary' }, usedOf(quota), quota.left > 0 ? `; the window ends in ${secondsOf(quota.left)}.` : '.'))
}
