const percent = 0x25
const origin = /^https?:\/\/[^/\\?#]*/i
// Handlers and proxies can read a path differently from the router only if it contains one of these.
export const ambiguous = /[^!-\uffff]|[%\\]|\/[./]|\/$/
const dotDotSegment = /(?:^|[/\\])\.\.(?:[/\\]|$)/
// `new URL(target, base)` reads the part after a scheme or after two slashes as a host.
const authority = /^(?:[/\\]{2}|[^/\\]+:)/
// A host that `new URL` does not accept can still be a host for another parser.
const withHost = /^(?:[^/\\]*:)?[/\\]{2}[^/\\]*/
// URL parsers end a path at a query or a fragment, and remove control characters and spaces.
const urlSyntax = /[^!-\uffff]|[?#]/
const slash = /\//
const slashOrBackslash = /[/\\]/
const maximumEarlyDecoding = 3

/** The ways in which handlers and proxies behind a route could read the path of a request target. */
export interface PathReadings {
  /** The paths, decoded once and in full, without dot segments and empty segments. The path `/` is an empty string. */
  readonly paths: readonly string[]
  /** Whether the target contains `..` segments, which can lead out of the part of the path that a proxy forwards. */
  readonly climbs: boolean
}

/**
 * Reads the path of a request target in every way in which a handler or a proxy behind a non-literal route could read it. The path
 * is fully decoded, backslashes become slashes, `.` and `..` are resolved, and empty segments are dropped. The part after a scheme
 * or two slashes at the start can be a host. If the order of these steps matters, the result contains one reading for each order.
 *
 * @param target The request target as received.
 * @param queryDelimiter Matches the character that ends the path.
 * @param readable Matches the paths that must be read.
 * @returns The readings; null if the path does not match `readable`.
 */
export function readInFull (target: string, queryDelimiter: RegExp, readable: RegExp): PathReadings | null {
  const [path = ''] = target.replace(origin, '').split(queryDelimiter, 1)
  if (!readable.test(path)) return null
  const decoded = decodeInFull(path)
  const climbs = dotDotSegment.test(decoded)
  const early = climbs || urlSyntax.test(decoded) || authority.test(decoded) ? resolvedEarly(path) : []
  return { paths: [...new Set([decoded, decodeOnce(path), ...early])].map(normalize), climbs }
}

/** Returns a path without dot segments and empty segments. Backslashes count as slashes. */
export function normalize (path: string): string {
  return resolveDots(path, slashOrBackslash)
}

function resolveDots (path: string, separator: RegExp): string {
  const segments: string[] = []
  for (const segment of path.split(separator)) {
    if (segment === '..') segments.pop()
    else if (segment !== '' && segment !== '.') segments.push(`/${segment}`)
  }
  return segments.join('')
}

/** Decodes a path until it contains no percent-encoding, in one pass. Malformed encodings are not changed. */
function decodeInFull (path: string): string {
  if (!path.includes('%')) return path
  const bytes = Buffer.from(path)
  let length = 0
  for (const byte of bytes) {
    bytes[length++] = byte
    // A decoded byte can complete another percent-encoding.
    while (length >= 3 && bytes[length - 3] === percent) {
      const decoded = decodedByte(bytes, length - 2)
      if (Number.isNaN(decoded)) break
      length -= 2
      bytes[length - 1] = decoded
    }
  }
  return bytes.toString('utf8', 0, length)
}

/** Decodes a path once. Malformed encodings are not changed. */
function decodeOnce (path: string): string {
  const bytes = Buffer.from(path)
  let length = 0
  for (let read = 0; read < bytes.length; read++) {
    const byte = bytes.readUInt8(read)
    const decoded = byte === percent && read + 2 < bytes.length ? decodedByte(bytes, read + 1) : NaN
    bytes[length++] = Number.isNaN(decoded) ? byte : decoded
    if (!Number.isNaN(decoded)) read += 2
  }
  return bytes.toString('utf8', 0, length)
}

function decodedByte (bytes: Buffer, index: number): number {
  return hexValue(bytes.readUInt8(index)) * 16 + hexValue(bytes.readUInt8(index + 1))
}

// A proxy may resolve dot segments before the path is fully decoded, by the proxy or by the server behind it.
function * resolvedEarly (path: string): Generator<string> {
  let layer = path
  let outer
  for (let decodings = 0; decodings <= maximumEarlyDecoding && layer !== outer; decodings++) {
    yield decodeInFull(new URL(`http://host/${layer}`).pathname)
    yield decodeInFull(resolveDots(layer, slash))
    yield decodeInFull(layer.replace(withHost, ''))
    if (URL.canParse(layer, 'http://host')) yield decodeInFull(new URL(layer, 'http://host').pathname)
    outer = layer
    layer = decodeOnce(layer)
  }
}

function hexValue (digit: number): number {
  if (digit >= 0x30 && digit <= 0x39) return digit - 0x30
  const letter = digit | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : NaN
}
