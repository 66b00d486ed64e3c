import { signOut, state } from './state.js'

export const unreachable = 'The service cannot be reached. Please try again.'

/** Sends a request with the user's token. */
export async function send (path, { method = 'GET', body, signal } = {}) {
  const { user } = state
  const headers = {
    ...(user && { authorization: `Bearer ${user.token}` }),
    ...(body && { 'content-type': 'application/json' })
  }
  const response = await fetch(path, {
    method,
    headers,
    signal,
    body: body && JSON.stringify(body)
  })
  if (response.status === 401 && user !== null && state.user === user) {
    signOut('Your session has ended. Sign in again.')
  }
  return response
}

/** Returns the message of an error response, with the time to wait. */
export async function messageOf (response) {
  const { error = `The service answered ${response.status}.` } = await response
    .json()
    .catch(() => ({}))
  const seconds = Number(response.headers.get('retry-after'))
  return seconds > 0 && response.status === 503
    ? error.replace('Please try again', `Please try again in ${seconds}\u{a0}s`)
    : error
}

/** Reads the server-sent events of a response as they arrive. */
export async function * eventsOf (response) {
  let rest = ''
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    const blocks = (rest + part).split('\n\n')
    rest = blocks.pop()
    for (const block of blocks) {
      const [, event] = /^event: (.*)$/m.exec(block) ?? []
      const [, data] = /^data: (.*)$/m.exec(block) ?? []
      if (event !== undefined) yield { event, data: JSON.parse(data) }
    }
  }
}
