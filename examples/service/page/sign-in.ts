import { byId, element } from './document.js'
import { messageOf, send, type Session, unreachable } from './service.js'

const who = byId('who', HTMLElement)
const signOutButton = byId('sign-out', HTMLButtonElement)
const section = byId('sign-in', HTMLElement)
const local = byId('local', HTMLFormElement)
const localError = byId('local-error', HTMLElement)
const notice = byId('notice', HTMLElement)

const ways = { local: 'local account', openid: 'OpenID Connect', token: 'token' }
const outcomes: Record<string, string> = {
  refused: 'The OpenID sign-in was refused or cancelled. Nobody is signed in by it.',
  unavailable: 'The OpenID provider cannot be reached. Please try again, or sign in another way.'
}

/** Shows who uses the page, or the ways to sign in. */
export function showSession ({ signedIn, caller, ways: offered }: Session): void {
  section.hidden = signedIn !== null
  signOutButton.hidden = signedIn === null
  local.hidden = !offered.local
  byId('openid', HTMLElement).hidden = !offered.openId
  byId('provider', HTMLElement).textContent = offered.developmentProvider
    ? 'At a development provider that runs inside this example, as a made-up person. The protocol is the real one.'
    : 'At the provider of this service.'
  if (signedIn === null) who.replaceChildren('Nobody is signed in')
  else who.replaceChildren('Signed in as ', element('strong', {}, signedIn.name), ` (${ways[signedIn.by]}), counted as `, element('code', {}, caller ?? 'nobody'))
}

/** Lets people sign in and out; `changed` is called when somebody has. */
export function offerSignIn (changed: () => Promise<void>): void {
  local.addEventListener('submit', (event) => {
    event.preventDefault()
    signIn(changed).catch(() => { localError.textContent = unreachable })
  })
  signOutButton.addEventListener('click', () => { signOut().catch(() => { say(unreachable) }) })
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
  await changed()
  signOutButton.focus()
}

async function signOut (): Promise<void> {
  const response = await send('/sign-out', { method: 'POST' })
  const { location }: { location?: string } = response.ok ? await response.json() : {}
  window.location.assign(location ?? '/')
}

// How a sign-in at the provider ended stands in the address, and is said once.
function showOutcome (): void {
  const address = new URL(window.location.href)
  const outcome = outcomes[address.searchParams.get('sign-in') ?? '']
  if (outcome === undefined) return
  say(outcome)
  window.history.replaceState(null, '', address.pathname)
}

function say (message: string): void {
  notice.hidden = false
  notice.textContent = message
}
