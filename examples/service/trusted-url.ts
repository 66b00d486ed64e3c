const loopback = new Set(['127.0.0.1', '::1', '[::1]', 'localhost'])

/** Whether a host name refers to this machine. */
export function isLoopback (hostname: string): boolean {
  return loopback.has(hostname)
}

/** Whether content from a URL can be trusted: it is sent over TLS or within this machine. */
export function isTrusted (value: string): boolean {
  if (!URL.canParse(value)) return false
  const { protocol, hostname } = new URL(value)
  return protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname))
}
