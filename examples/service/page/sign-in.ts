import { byId, element } from './document.js'
import { messageOf, send, type Session, unreachable } from './service.js'

const who = byId('who', HTMLElement)
const signOutButton = byId('sign-out', HTMLButtonElement)
const section = byId('sign-in', HTMLElement)
const local = byId('local', HTMLFormElement)
const localError = byId('local-error', HTMLElement)
const notice = byId('notice', HTMLElement)
const noticeMessage = byId('notice-message', HTMLElement)
const retry = byId('retry', HTMLButtonElement)

const ways = { local: 'local account', openid: 'OpenID Connect', token: 'token' }
const outcomes = new Map([
  ['failed', 'The OpenID sign-in failed or was cancelled.'],
  ['unavailable', 'The OpenID provider cannot be reached. Please try again, or sign in another way.']
])

/** Shows the current user, or the ways to sign in. */
export function showSession ({ signedIn, caller, ways: offered }: Session): void {
  section.hidden = signedIn !== null
  signOutButton.hidden = signedIn === null
  local.hidden = !offered.local
  byId('openid', HTMLElement).hidden = !offered.openId
  byId('provider', HTMLElement).textContent = offered.developmentProvider
    ? 'At a development provider that runs inside this example, as an invented user. The protocol is real.'
    : 'At the provider of this service.'
  if (signedIn === null) who.replaceChildren('Not signed in')
  else who.replaceChildren('Signed in as ', element('strong', {}, signedIn.name), ` (${ways[signedIn.by]}), counted as `, element('code', {}, caller ?? 'nobody'))
}

/** Shows that the current user is unknown. */
export function showUnknown (): void {
  section.hidden = true
  signOutButton.hidden = true
  who.textContent = 'Unknown'
  say('The service does not answer, so the page cannot show who is signed in.', true)
}

/** Shows that the session has ended. */
export function showEnded (): void {
  say('Your session has ended. Sign in again.')
  const name = local.elements.namedItem('username')
  if (name instanceof HTMLInputElement) name.focus()
}

/** Starts the forms to sign in and out. `changed` is called after each sign-in or sign-out. */
export function offerSignIn (changed: () => Promise<void>): void {
  local.addEventListener('submit', (event) => {
    event.preventDefault()
    signIn(changed).catch(() => { localError.textContent = unreachable })
  })
  signOutButton.addEventListener('click', () => { signOut().catch(() => { say(unreachable) }) })
  retry.addEventListener('click', () => {
    hideNotice()
    changed().catch(reportError)
  })
  showOutcome()
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
  hideNotice()
  await changed()
  signOutButton.focus()
}

async function signOut (): Promise<void> {
  const response = await send('/sign-out', { method: 'POST' })
  const { location }: { location?: string } = response.ok ? await response.json() : {}
  window.location.assign(location ?? '/')
}

// The address contains the outcome of a sign-in at the provider. It is shown once.
function showOutcome (): void {
  const address = new URL(window.location.href)
  const outcome = outcomes.get(address.searchParams.get('sign-in') ?? '')
  if (outcome === undefined) return
  say(outcome)
  window.history.replaceState(null, '', address.pathname)
}

/** Hides the message about the session. */
function hideNotice (): void {
  notice.hidden = true
}

function say (message: string, canRetry = false): void {
  notice.hidden = false
  noticeMessage.textContent = message
  retry.hidden = !canRetry
}
