/** Who uses the page, and how one can sign in. */
export interface Session {
  readonly signedIn: { readonly by: 'token' | 'openid' | 'local', readonly name: string, readonly administrator: boolean } | null
  /** The first characters of the caller's digest. */
  readonly caller: string | null
  readonly ways: { readonly local: boolean, readonly openId: boolean, readonly developmentProvider: boolean }
  readonly csrfToken: string
}

/** What is said when no answer comes. */
export const unreachable = 'The service cannot be reached. Please try again.'

let csrfToken = ''

/** Asks who uses the page, and for the token that its requests prove themselves with. */
export async function loadSession (): Promise<Session> {
  const session: Session = await (await fetch('/api/session')).json()
  csrfToken = session.csrfToken
  return session
}

/** Sends a request that can prove that it is this page's own. */
export async function send (path: string, request: RequestInit = {}): Promise<Response> {
  return await fetch(path, { ...request, headers: { ...Object.fromEntries(new Headers(request.headers)), 'csrf-token': csrfToken } })
}

/** What a refusal says of itself. */
export async function messageOf (response: Response): Promise<string> {
  const body: unknown = await response.json().catch(() => null)
  if (typeof body === 'object' && body !== null) {
    if ('message' in body) return String(body.message)
    if ('error' in body) return String(body.error)
  }
  return `The service answered ${response.status}.`
}

/** An event of a stream. */
export interface StreamEvent {
  readonly event: string
  readonly data: unknown
}

/** Reads the server-sent events of an answer, each as it arrives. Lines end as this service ends them. */
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
