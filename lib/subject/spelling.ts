const percent = 0x25
const separator = /[/\\?#;]/
// What a plain path, decoded once, does not contain: separators of other readers, control characters, empty and dot segments, and white space at
// the ends of a segment.
const odd = /[\\%?#;\p{Cc}]|\/(?:\/|\s|\.{1,2}(?:\/|$))|\s(?:\/|$)/u

/**
 * Returns the decoded path of a request target that every router, handler and proxy reads alike; null for any other target.
 *
 * @param target The request target as received (RFC 9112, section 3.2).
 * @param host The `Host` header.
 * @param mayEndWithSlash Whether the router ignores a trailing slash.
 */
export function plainPath (target: string, host: string, mayEndWithSlash: boolean): string | null {
  if (!target.startsWith('/') || host.includes('/') || host.includes('\\')) return null
  const decoded = decodedOnce(withoutQuery(target))
  return decoded === null || odd.test(decoded) || (decoded.endsWith('/') && !mayEndWithSlash) ? null : decoded
}

/** Returns the segments that anyone could read in a target that is not plain: decoded in full and in lower case. */
export function possibleSegments (target: string, host: string): string[] {
  const text = `${host}/${target.startsWith('/') ? withoutQuery(target) : target}`
  return decodedInFull(text).toLowerCase().split(separator).map((segment) => segment.trim())
}

/** Returns the last segment of an operation's path in the same form; an empty string for the path `/`. */
export function lastSegment (path: string): string {
  return possibleSegments(path, '').findLast((segment) => segment !== '') ?? ''
}

function withoutQuery (target: string): string {
  const end = target.indexOf('?')
  return end === -1 ? target : target.slice(0, end)
}

/** Decodes a path once; null if it is malformed or contains an encoded slash. */
function decodedOnce (path: string): string | null {
  if (!path.includes('%')) return path
  try {
    return /%2f/i.test(path) ? null : decodeURIComponent(path)
  } catch {
    return null
  }
}

/** Decodes a text until nothing changes, dropping control characters before each time, in one pass. Malformed encodings are not changed. */
function decodedInFull (text: string): string {
  const bytes = Buffer.from(text)
  let length = 0
  for (const read of bytes) {
    // A decoded byte, or one that follows a dropped control character, can complete another percent-encoding.
    for (let byte = read; !Number.isNaN(byte);) {
      if (byte < 0x20 || byte === 0x7f) break
      if (bytes[length - 1] === 0xc2 && byte >= 0x80 && byte <= 0x9f) {
        length -= 1
        break
      }
      bytes[length++] = byte
      byte = length >= 3 && bytes[length - 3] === percent ? hexValue(bytes[length - 2]) * 16 + hexValue(bytes[length - 1]) : NaN
      if (!Number.isNaN(byte)) length -= 3
    }
  }
  return bytes.toString('utf8', 0, length)
}

function hexValue (digit = 0): number {
  if (digit >= 0x30 && digit <= 0x39) return digit - 0x30
  const letter = digit | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : NaN
}
