import { byId, element } from './document.js'
import { messageOf, send, type Session, unreachable } from './service.js'

const who = byId('who', HTMLElement)
const signOutButton = byId('sign-out', HTMLButtonElement)
const local = byId('local', HTMLFormElement)
const localError = byId('local-error', HTMLElement)
const userName = byId('user-name', HTMLInputElement)
const notice = byId('notice', HTMLElement)
const retry = byId('retry', HTMLButtonElement)
const operations = byId('operations', HTMLElement)

const ways = { local: 'local account', openid: 'OpenID Connect', token: 'token' }
const outcomes = new Map([
  ['failed', 'The OpenID sign-in failed or was cancelled.'],
  ['unavailable', 'The OpenID provider cannot be reached. Please try again, or sign in another way.']
])

/** Shows the current user or the ways to sign in, and a message if the session has ended or, with undefined, cannot be read. */
export function showSession (session: Session | undefined, hasEnded: boolean): void {
  const user = session?.signedIn ?? null
  byId('sign-in', HTMLElement).hidden = session === undefined || user !== null
  byId('columns', HTMLElement).hidden = session === undefined
  signOutButton.hidden = user === null
  local.hidden = session?.ways.local !== true
  byId('openid', HTMLElement).hidden = session?.ways.openId !== true
  byId('provider', HTMLElement).textContent = session?.ways.developmentProvider === true
    ? 'At a development provider that runs inside this example, as an invented user. The protocol is real.'
    : 'At the provider of this service.'
  if (user !== null) who.replaceChildren('Signed in as ', element('strong', {}, user.name), ` (${ways[user.by]}), counted as `, element('code', {}, session?.caller ?? 'nobody'))
  else who.textContent = session === undefined ? '' : 'Not signed in'
  notice.hidden = true
  if (session === undefined) say('The service does not answer, so the page cannot show who is signed in.', true)
  if (!hasEnded) return
  say('Your session has ended. Sign in again.')
  userName.focus()
}

/** Starts the forms to sign in and out. `changed` is called after each sign-in or sign-out. */
export function offerSignIn (changed: () => Promise<void>): void {
  local.addEventListener('submit', (event) => {
    event.preventDefault()
    signIn(changed).catch(() => { localError.textContent = unreachable })
  })
  signOutButton.addEventListener('click', () => { signOut().catch(() => { say(unreachable) }) })
  // The button keeps the keyboard focus while the service does not answer.
  retry.addEventListener('click', () => { changed().then(() => { operations.focus() }).catch(reportError) })
}

async function signIn (changed: () => Promise<void>): Promise<void> {
  localError.textContent = ''
  const credentials = new URLSearchParams([...new FormData(local)].map(([name, value]) => [name, String(value)]))
  const response = await send(local.action, { method: 'POST', body: credentials })
  if (!response.ok) {
    localError.textContent = await messageOf(response)
    return
  }
  local.reset()
  await changed()
  operations.focus()
}

async function signOut (): Promise<void> {
  const response = await send('/sign-out', { method: 'POST' })
  const { location }: { location?: string } = response.ok ? await response.json() : {}
  window.location.assign(location ?? '/')
}

/** Shows the outcome of a sign-in at the provider, which is in the address, once. */
export function showOutcome (): void {
  const address = new URL(window.location.href)
  const outcome = outcomes.get(address.searchParams.get('sign-in') ?? '')
  if (outcome === undefined) return
  say(outcome)
  window.history.replaceState(null, '', address.pathname)
}

function say (message: string, canRetry = false): void {
  notice.hidden = false
  byId('notice-message', HTMLElement).textContent = message
  retry.hidden = !canRetry
}
