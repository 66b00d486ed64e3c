// What the page shows. Each change draws the page again; lit-html updates only what differs.
const nothingRun = { running: null, progress: '', problem: '', rejection: '', answer: null }
const nothingRead = {
  caller: '',
  quotas: null,
  waiting: 0,
  readAt: 0,
  marks: [],
  seenFrom: 0,
  preferences: {},
  callers: [],
  trackedCallers: 0
}
const nobody = {
  user: null,
  notice: '',
  signInError: '',
  limitStatus: '',
  isInterrupted: false,
  ...nothingRead,
  ...nothingRun
}

export const state = {
  ...nobody,
  user: userOf(sessionStorage.getItem('token')),
  operation: 'analyze'
}

let draw = () => {}
export const onChange = (callback) => {
  draw = callback
}

export function change (changes) {
  Object.assign(state, changes)
  draw()
}

/** Removes the results of earlier operations, and aborts the one that runs. */
export function clearAnswer () {
  state.running?.abort()
  change(nothingRun)
}

export function signIn (token) {
  sessionStorage.setItem('token', token)
  clearAnswer()
  change({ ...nobody, user: userOf(token) })
}

export function signOut (notice = '') {
  sessionStorage.removeItem('token')
  clearAnswer()
  change({ ...nobody, notice })
}

function userOf (token) {
  if (token === null) return null
  const { sub, role } = JSON.parse(
    atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))
  )
  return { token, name: String(sub), isAdministrator: role === 'admin' }
}
