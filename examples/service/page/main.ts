import { type Callers, hideAdministration, offerAdministration, showCallers } from './administration.js'
import { endCoolDown } from './cooldown.js'
import { offerOperations } from './operations.js'
import { loadSession } from './service.js'
import { offerSignIn, showSession } from './sign-in.js'
import { forgetWindow, keepTime, type QuotaWindow, showWindow } from './timeline.js'

let watched: EventSource[] = []

async function start (): Promise<void> {
  const session = await loadSession()
  showSession(session)
  endCoolDown()
  for (const source of watched) source.close()
  watched = []
  if (session.signedIn === null) forgetWindow()
  else watch<{ window: QuotaWindow | null, limit: number }>('/api/window', ({ window, limit }) => { showWindow(window, limit) })
  if (session.signedIn?.administrator === true) watch<Callers>('/api/callers', showCallers)
  else hideAdministration()
}

// The browser connects again by itself, and gets the state as it is by then.
function watch<State> (path: string, show: (state: State) => void): void {
  const source = new EventSource(path)
  source.addEventListener('state', ({ data }) => { show(JSON.parse(data)) })
  watched.push(source)
}

offerOperations()
offerAdministration()
offerSignIn(start)
keepTime()
await start()
