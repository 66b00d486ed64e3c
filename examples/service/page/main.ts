import { type Callers, hideAdministration, offerAdministration, showCallers } from './administration.js'
import { byId } from './document.js'
import { clearAnswer, offerOperations } from './operations.js'
import { keepQuotas } from './quotas.js'
import { keepButton } from './run-button.js'
import { loadSession, type Session } from './service.js'
import { offerSignIn, showEnded, showSession, showUnknown } from './sign-in.js'
import { forgetStanding, keepTime, know, refreshStanding, type Standing } from './standing.js'
import { keepTimeline } from './timeline.js'

const live = byId('live', HTMLElement)
// Milliseconds.
const pollInterval = 5000
const watchAgain = 10_000

let session: Session | undefined
let watched: EventSource[] = []

/** Reads the current user, and shows the page for this user. */
async function start (): Promise<void> {
  let loaded: Session
  try {
    loaded = await loadSession()
  } catch {
    for (const source of watched) source.close()
    session = undefined
    forgetStanding()
    hideAdministration()
    showUnknown()
    return
  }
  const ended = session?.signedIn != null && loaded.signedIn === null
  session = loaded
  for (const source of watched) source.close()
  watched = []
  live.hidden = true
  clearAnswer()
  showSession(loaded)
  forgetStanding()
  hideAdministration()
  if (ended) showEnded()
  if (loaded.signedIn === null) return
  watch<Standing>('/api/window', know)
  if (loaded.signedIn.administrator) watch<Callers>('/api/callers', showCallers)
}

// The user can have signed in or out in another tab, or the session can have ended.
async function check (): Promise<void> {
  const shown = session
  if (shown === undefined) return
  const loaded = await loadSession()
  if (loaded.caller !== shown.caller) await start()
  else if (loaded.caller !== null) await refreshStanding()
}

// After a lost connection, the browser connects again by itself and gets the current state. It gives up on any status other than 200.
function watch<State> (path: string, show: (state: State) => void): void {
  const source = new EventSource(path)
  source.addEventListener('state', ({ data }) => {
    live.hidden = true
    show(JSON.parse(data))
  })
  source.addEventListener('error', () => {
    live.hidden = false
    if (source.readyState !== EventSource.CLOSED || !watched.includes(source)) return
    check().catch(() => {}).finally(() => {
      setTimeout(() => {
        if (!watched.includes(source)) return
        watched = watched.filter((other) => other !== source)
        watch(path, show)
      }, watchAgain)
    }).catch(reportError)
  })
  watched.push(source)
}

// The event stream does not include decisions of other instances.
async function poll (): Promise<void> {
  if (session?.signedIn != null && document.visibilityState === 'visible' && await refreshStanding() === 401) await check()
}

const unlessCut = (): void => { live.hidden = session?.signedIn == null }

keepQuotas()
keepButton()
keepTimeline()
offerOperations(async () => {
  if (session?.signedIn == null) return false
  await start()
  return session.signedIn === null
})
offerAdministration()
offerSignIn(start)
keepTime()
setInterval(() => { poll().catch(unlessCut) }, pollInterval)
document.addEventListener('visibilitychange', () => { check().catch(unlessCut) })
window.addEventListener('focus', () => { check().catch(unlessCut) })
await start()
