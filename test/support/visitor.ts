export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly url: string
}

/** A minimal browser that keeps cookies and follows redirects only on request. */
export class Visitor {
  readonly #cookies = new Map<string, string>()
  readonly #origin: string

  constructor (origin: string) {
    this.#origin = origin
  }

  get cookies (): string {
    return [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ')
  }

  set cookies (cookies: string) {
    this.#cookies.clear()
    for (const cookie of cookies.split('; ')) this.#keep(cookie)
  }

  async ask (path: string, request: RequestInit = {}): Promise<Answer> {
    const url = new URL(path, this.#origin)
    const headers = new Headers(request.headers)
    if (this.#cookies.size > 0) headers.set('cookie', this.cookies)
    const response = await fetch(url, { ...request, headers, redirect: 'manual' })
    for (const cookie of response.headers.getSetCookie()) this.#keep(cookie.split(';', 1)[0] ?? '')
    return { status: response.status, headers: response.headers, text: await response.text(), url: url.href }
  }

  /** Follows redirects while `goOn` returns true, and returns the last answer. */
  async follow (answer: Answer, goOn: (location: URL) => boolean = () => true): Promise<Answer> {
    const location = locationOf(answer)
    if (location === undefined || !goOn(location)) return answer
    return await this.follow(await this.ask(location.href), goOn)
  }

  /** The session data that the page gets. */
  async session (): Promise<{ signedIn: { by: string, name: string, administrator: boolean } | null, caller: string | null, csrfToken: string }> {
    return JSON.parse((await this.ask('/api/session')).text)
  }

  /** Sends a request as the page does, with the token against forged requests. */
  async send (path: string, request: RequestInit = {}): Promise<Answer> {
    const { csrfToken } = await this.session()
    return await this.ask(path, { ...request, headers: { ...Object.fromEntries(new Headers(request.headers)), 'csrf-token': csrfToken } })
  }

  async signInLocally (username: string, password: string): Promise<Answer> {
    return await this.send('/sign-in/local', { method: 'POST', body: new URLSearchParams({ username, password }) })
  }

  /** Signs in at the provider, and returns the answer that redirects back to the service. */
  async goToProvider (person: string, preferredUsername?: string, start?: URL): Promise<Answer> {
    const begun = await this.ask(start?.href ?? '/sign-in/openid')
    const asked = await this.follow(begun, ({ pathname }) => pathname !== '/sign-in/openid/callback')
    const form = [...asked.text.matchAll(/<form[^>]*>.*?<\/form>/gs)].map(([form]) => form).find((form) => form.includes(person))
    const [, sub] = /name="sub" value="([^"]*)"/.exec(form ?? '') ?? []
    const [, preferred] = /name="preferredUsername" value="([^"]*)"/.exec(form ?? '') ?? []
    if (sub === undefined || preferred === undefined) throw new Error(`the provider does not ask for ${person}: ${asked.status} ${asked.text}`)
    const answered = await this.ask(asked.url, { method: 'POST', body: new URLSearchParams({ sub, preferredUsername: preferredUsername ?? preferred }) })
    return await this.follow(answered, ({ pathname }) => pathname !== '/sign-in/openid/callback')
  }

  async signInWithOpenId (person: string, preferredUsername?: string): Promise<Answer> {
    const back = await this.goToProvider(person, preferredUsername)
    return await this.follow(back)
  }

  // Browsers keep cookies by host and ignore the port.
  #keep (cookie: string): void {
    const [name = ''] = cookie.split('=', 1)
    const value = cookie.slice(name.length + 1)
    if (value === '') this.#cookies.delete(name)
    else this.#cookies.set(name, value)
  }
}

export function locationOf ({ headers, url }: Answer): URL | undefined {
  const location = headers.get('location')
  return location === null ? undefined : new URL(location, url)
}
