import { hideAdministration, offerAdministration, refreshCallers } from './administration.js'
import { byId } from './document.js'
import { clearAnswer, offerOperations } from './operations.js'
import { keepQuotas } from './quotas.js'
import { keepButton } from './run-button.js'
import { loadSession, type Session } from './service.js'
import { offerSignIn, showOutcome, showSession } from './sign-in.js'
import { forgetStanding, keepTime, refreshStanding } from './standing.js'
import { keepTimeline } from './timeline.js'

const interrupted = byId('interrupted', HTMLElement)
// Milliseconds.
const refreshInterval = 1000

let session: Session | undefined

/** Reads the current user, and shows the page for this user. */
async function start (): Promise<void> {
  const before = session
  session = await loadSession().catch(() => undefined)
  clearAnswer()
  forgetStanding()
  hideAdministration()
  interrupted.hidden = true
  showSession(session, before?.signedIn != null && session?.signedIn === null)
  await refresh()
}

async function refresh (): Promise<void> {
  if (session?.signedIn == null || document.visibilityState === 'hidden') return
  const { administrator } = session.signedIn
  try {
    const status = await refreshStanding()
    if (status === 401) return await start()
    if (administrator) await refreshCallers()
    interrupted.hidden = status === 200
  } catch {
    interrupted.hidden = session?.signedIn == null
  }
}

async function keepFresh (): Promise<void> {
  await refresh()
  setTimeout(() => { keepFresh().catch(reportError) }, refreshInterval)
}

// The user can have signed in or out in another tab.
async function check (): Promise<void> {
  const { caller } = await loadSession()
  if (session === undefined || session.caller !== caller) await start()
}

keepQuotas()
keepButton()
keepTimeline()
offerOperations(async () => {
  if (session?.signedIn == null) return false
  await start()
  return session?.signedIn == null
})
offerAdministration()
offerSignIn(start)
keepTime()
window.addEventListener('focus', () => { check().catch(() => {}) })
await start()
showOutcome()
await keepFresh()
