/**
 * Returns the paths as which a handler or a proxy behind a non-literal route could read a target: decoded once or in full, and resolved by a
 * URL parser. This does not use the code of lib, so that lib can be compared with it.
 */
export function readInFull (target: string, { caseSensitive = true, useSemicolonDelimiter = false } = {}): string[] {
  const ends = useSemicolonDelimiter ? [/[?#;].*/s, /[?#].*/s] : [/[?#].*/s]
  return ends.flatMap((end) => readPath(target.replace(/^https?:\/\/[^/?#]*/i, '').replace(end, ''), caseSensitive))
}

function readPath (path: string, caseSensitive: boolean): string[] {
  const decoded = decodeRepeatedly(path)
  const readings = [withoutDots(decodeOnce(path)), withoutDots(decoded), withoutDots(decodeRepeatedly(new URL(`http://any/${decoded}`).pathname))]
  return caseSensitive ? readings : readings.map((reading) => reading.toLowerCase())
}

/**
 * Whether a target is counted more broadly than by the paths above, because it contains `..` or may begin with a host.
 */
export function isReadBroadly (target: string): boolean {
  const decoded = decodeRepeatedly(target)
  return /^(?:[/\\]{2}|[^/\\]+:)/.test(decoded.replace(/[\t\r\n]/g, '')) || decoded.split(/[/\\]/).includes('..')
}

function decodeRepeatedly (text: string): string {
  const decoded = decodeOnce(text)
  return decoded === text ? text : decodeRepeatedly(decoded)
}

function decodeOnce (text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('%', ''), 'hex').toString())
}

function withoutDots (path: string): string {
  const kept: string[] = []
  for (const segment of path.replaceAll('\\', '/').split('/').filter((segment) => segment !== '' && segment !== '.')) {
    if (segment === '..') kept.pop()
    else kept.push(segment)
  }
  return `/${kept.join('/')}`
}
