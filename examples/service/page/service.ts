/** The current user, and the available ways to sign in. */
export interface Session {
  readonly signedIn: { readonly by: 'token' | 'openid' | 'local', readonly name: string, readonly administrator: boolean } | null
  /** The first characters of the caller's digest. */
  readonly caller: string | null
  readonly ways: { readonly local: boolean, readonly openId: boolean, readonly developmentProvider: boolean }
  readonly csrfToken: string
}

/** The message if the service does not answer. */
export const unreachable = 'The service cannot be reached. Please try again.'

let csrfToken = ''

/** Reads the current user, and the CSRF token for requests. */
export async function loadSession (): Promise<Session> {
  const response = await fetch('/api/session', { signal: AbortSignal.timeout(10_000) })
  if (!response.ok) throw new Error(`the session cannot be read: ${response.status}`)
  const session: Session = await response.json()
  csrfToken = session.csrfToken
  return session
}

/** Sends a request with the CSRF token. */
export async function send (path: string, request: RequestInit = {}): Promise<Response> {
  return await fetch(path, { ...request, headers: { ...Object.fromEntries(new Headers(request.headers)), 'csrf-token': csrfToken } })
}

/** Returns the message of an error response. No line breaks between a number and its unit. */
export async function messageOf (response: Response): Promise<string> {
  const { error, message = error }: { error?: unknown, message?: unknown } = Object(await response.json().catch(() => null))
  return message === undefined ? `The service answered ${response.status}.` : String(message).replace(/(\d) s\b/g, '$1\u{a0}s')
}

/** A server-sent event. */
export interface StreamEvent {
  readonly event: string
  readonly data: unknown
}

/** Reads the server-sent events of a response as they arrive. Only supports the line endings that this service uses. */
export async function * eventsOf (response: Response): AsyncGenerator<StreamEvent> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
    const blocks = (rest + part.value).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const event = /^event: (.*)$/m.exec(block)?.[1]
      const data = [...block.matchAll(/^data: (.*)$/gm)].map(([, line]) => line).join('\n')
      if (event !== undefined && data !== '') yield { event, data: JSON.parse(data) }
    }
  }
}
